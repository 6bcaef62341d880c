"""Processes of ours that must not outlive us, and signals that must not come between."""

from __future__ import annotations

import ctypes
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

from storewise.layout import LIBRARY

#: Signals that ask a job to end.
ENDING = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
#: From Linux's ``sys/prctl.h``; the call is described in prctl(2).
_PR_SET_PDEATHSIG = 1


def dies_with_parent(how: signal.Signals = signal.SIGKILL) -> Callable[[], None]:
    """A function for a new child process (``preexec_fn``, a pool's initializer).

    It asks the kernel to send the child `how` when the thread that started it ends, however that
    comes: a ``kill -9`` of the parent leaves nothing behind. The C library is loaded here, before
    the fork, where it is safe. On systems other than Linux the returned function does nothing.
    """
    parent = os.getpid()
    if not sys.platform.startswith("linux"):
        return lambda: None
    prctl = ctypes.CDLL(None, use_errno=True).prctl

    def ask() -> None:
        prctl(_PR_SET_PDEATHSIG, int(how), 0, 0, 0)
        # The parent may have ended between the fork and the call above.
        if os.getppid() != parent:
            os.kill(os.getpid(), how)

    return ask


@contextmanager
def undisturbed() -> Iterator[None]:
    """Signals of ENDING that come within take effect afterwards, the first of them, once.

    For the end of what a job has started: Slurm sends SIGTERM with each scancel, and the second
    would leave half of it to nobody. Handlers are the main thread's; in others nothing is done.
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


def library_environment() -> dict[str, str]:
    """This process's environment; a Python that starts in it finds this package."""
    path = [str(LIBRARY), *filter(None, [os.environ.get("PYTHONPATH")])]
    return {**os.environ, "PYTHONPATH": os.pathsep.join(path)}
