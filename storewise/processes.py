"""Child processes that end with their parent, deferred signals, and environments of children."""

from __future__ import annotations

import ctypes
import multiprocessing
import os
import re
import signal
import sys
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from functools import partial
from multiprocessing.process import BaseProcess
from time import monotonic
from types import FrameType, ModuleType
from typing import ParamSpec, TypeVar

from storewise.errors import StorewiseError
from storewise.layout import LIBRARY

P = ParamSpec("P")
T = TypeVar("T")
R = TypeVar("R")

#: Environment variables passed on to servers, clients and helper programs: paths of programs and
#: libraries, user, locale, access to S3, Hadoop and the scheduler. Others (PGSERVICE, MYSQL_PWD,
#: _JAVA_OPTIONS, ...) are meant for the user's own servers and would change what is measured.
PASSED_VARIABLES = frozenset(
    (
        *("PATH", "LD_LIBRARY_PATH", "HOME", "USER", "LOGNAME", "SHELL", "TERM", "TZ"),
        *("LANG", "LANGUAGE", "TMPDIR", "TMP", "TEMP", "VIRTUAL_ENV", "JAVA_HOME"),
        *("CASSANDRA_HOME", "HBASE_HOME", "RIAK_HOME", "HADOOP_CONF_DIR", "HADOOP_USER_NAME"),
        *("KRB5CCNAME", "KRB5_CONFIG", "SSL_CERT_FILE", "SSL_CERT_DIR", "LOADEDMODULES"),
        *("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY"),
        *("http_proxy", "https_proxy", "all_proxy", "no_proxy", "_LMFILES_"),
    )
)
#: ... and all variables whose names begin with one of these.
PASSED_PREFIXES = (
    *("STOREWISE_", "LC_", "PYTHON", "CONDA_", "XDG_", "AWS_", "SLURM_", "PBS_"),
    *("MODULE", "LMOD_", "__LMOD_", "_ModuleTable"),
)

#: Signals that ask a job to end.
ENDING = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
#: From Linux's ``sys/prctl.h``; the call is described in prctl(2).
_PR_SET_PDEATHSIG = 1
#: Loaded here, not after a fork, where it is not safe.
_PRCTL = ctypes.CDLL(None).prctl if sys.platform.startswith("linux") else None


def dies_with_parent(how: signal.Signals = signal.SIGKILL) -> Callable[[], None]:
    """A function that a new child process calls (``preexec_fn``, a pool's initializer) so that the
    kernel sends it `how` when its parent ends, even by ``kill -9``.

    The parent is the thread that started it (prctl(2), PR_SET_PDEATHSIG). On systems other than
    Linux the function does nothing.
    """
    return partial(_die_with, os.getpid(), how)


def _die_with(parent: int, how: signal.Signals) -> None:
    if _PRCTL is None:
        return
    _PRCTL(_PR_SET_PDEATHSIG, int(how), 0, 0, 0)
    # The parent may have ended between the fork and the call above.
    if os.getppid() != parent:
        os.kill(os.getpid(), how)


def end_processes(processes: Iterable[BaseProcess], seconds: float) -> None:
    """Wait up to so many seconds until these children have ended, then kill them."""
    processes = list(processes)
    until = monotonic() + seconds
    for process in processes:
        process.join(max(0.0, until - monotonic()))
        if process.exitcode is None:
            process.kill()
    for process in processes:
        process.join()


class Pool(ProcessPoolExecutor):
    """Processes that end with this one; Ctrl-C ends them without a traceback.

    They are spawned, not forked: the caller may have threads. Spawned processes import the caller's
    main module. Here that is often a script without ``__main__`` check, which must not run twice:
    while they are started, an empty module is in its place.
    """

    def __init__(self, processes: int, begin: Callable[[], None] | None = None) -> None:
        super().__init__(
            processes,
            mp_context=multiprocessing.get_context("spawn"),
            initializer=_begin,
            initargs=(dies_with_parent(), begin),
        )

    def submit(self, work: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> Future[T]:
        main, sys.modules["__main__"] = sys.modules["__main__"], ModuleType("__main__")
        try:
            return super().submit(work, *args, **kwargs)
        finally:
            sys.modules["__main__"] = main


def _begin(tie: Callable[[], None], begin: Callable[[], None] | None) -> None:
    tie()
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    if begin is not None:
        begin()


def in_processes(
    work: Callable[[T], R],
    things: Iterable[T],
    processes: int,
    *,
    killed: Callable[[T], StorewiseError],
    begin: Callable[[], None] | None = None,
) -> Iterator[R]:
    """The results of `work` for each of the `things`, in their order, from child processes.

    With `processes` of 1, the work is done in this process. `work` and `begin`, which each child
    calls first, are functions of a module. `things` is read little further ahead than is worked on.
    Where a child is killed, the error that `killed` makes of the first thing that was not done is
    raised; no child outlives this process.
    """
    if processes <= 1:
        yield from map(work, things)
        return
    with Pool(processes, begin) as pool:
        running: deque[tuple[T, Future[R]]] = deque()
        try:
            for thing in things:
                running.append((thing, pool.submit(work, thing)))
                if len(running) > 2 * processes:
                    yield running[0][1].result()
                    running.popleft()
            while running:
                yield running[0][1].result()
                running.popleft()
        except BrokenProcessPool as error:
            lost = (one for one, future in running if not future.done() or future.exception())
            raise killed(next(lost, thing)) from error
        finally:
            pool.shutdown(cancel_futures=True)


@contextmanager
def undisturbed() -> Iterator[None]:
    """Defer the signals of ENDING: the first that comes within the block is raised after it.

    For cleaning up what a job has started: Slurm sends SIGTERM with each scancel, and a second one
    would interrupt it. Only the main thread handles signals: in others this does nothing.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    came: list[int] = []

    def note(number: int, frame: FrameType | None) -> None:
        came.append(number)

    before = {number: signal.signal(number, note) for number in ENDING}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, signal.SIG_DFL if handler is None else handler)
        if came:
            signal.raise_signal(came[0])


def processors() -> int:
    """Cores that this process may use; all of the host where the system does not tell."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def library_environment() -> dict[str, str]:
    """This process's environment; a Python that starts in it finds this package."""
    path = [str(LIBRARY), *filter(None, [os.environ.get("PYTHONPATH")])]
    return {**os.environ, "PYTHONPATH": os.pathsep.join(path)}


def clean_environment(environment: Mapping[str, str] = os.environ) -> dict[str, str]:
    """The variables of an environment that servers, clients and helper programs may get."""
    return {
        name: value
        for name, value in environment.items()
        if name in PASSED_VARIABLES or name.startswith(PASSED_PREFIXES)
    }


def clean_own_environment(*named: object) -> None:
    """Remove from this process's environment the variables that `clean_environment` leaves out,
    because client libraries would read them.

    Variables that one of the texts `named` mentions are kept: a profile's `scratch` or the settings
    of a study may use them.
    """
    words = {word for text in named for word in re.findall(r"\w+", str(text))}
    for name in os.environ.keys() - clean_environment().keys() - words:
        del os.environ[name]
