"""Client processes as their worker sees them: start, talk, notice a death, end."""

from __future__ import annotations

import logging
import multiprocessing
import os
from collections.abc import Callable
from multiprocessing.connection import Connection, wait
from multiprocessing.context import ForkProcess
from time import monotonic
from types import TracebackType
from typing import Any, TypeVar

from storewise.driver.client_process import client_process
from storewise.driver.messages import Failure
from storewise.driver.progress import SharedCounters
from storewise.driver.worker_job import WorkerJob
from storewise.errors import StorewiseError
from storewise.metrics.memory_kills import MemoryKills
from storewise.processes import dies_with_parent
from storewise.session.coordination.ending import how_it_ended

#: How often the trial's abort is looked for, in s: a check reads small files on a shared disk.
CHECK_EVERY = 0.5
#: Time that clients have to stop between two operations before they are killed, in s.
_GRACE = 2.0
_TRACE_LINES = 30

_Message = TypeVar("_Message")


class Guard:
    """Called while the worker waits: raises when the trial or one of its clients has ended."""

    def __init__(self, check: Callable[[], None], pool: Pool) -> None:
        self._check, self._pool = check, pool
        self._next = 0.0

    def __call__(self) -> None:
        self._pool.raise_for_dead()
        if monotonic() >= self._next:
            self._check()
            self._next = monotonic() + CHECK_EVERY


class Pool:
    """The client processes of a worker; a context manager that leaves none of them behind.

    They are forked at once, so the worker must not have threads of its own yet. Each is tied to
    the worker in two ways: by a signal of the kernel on the worker's death (Linux), and by a pipe
    whose other end closes then.
    """

    def __init__(self, job: WorkerJob, threads: int, log: logging.Logger) -> None:
        self._log = log
        self._before = MemoryKills.now()
        count = job.trial.processes
        nodes = [] if job.cluster is None else [e.name for e in job.cluster.endpoints]
        self.shared = SharedCounters(count, threads, list(dict.fromkeys(nodes)))
        self._processes: list[ForkProcess] = []
        self._connections: list[Connection] = []
        self._life = os.pipe()
        context = multiprocessing.get_context("fork")
        tie = dies_with_parent()
        try:
            for number in range(count):
                ours, theirs = context.Pipe()
                process = context.Process(
                    target=client_process,
                    args=(job, number, theirs, self._life, self.shared, tie),
                    name=f"client-{number}",
                    daemon=True,
                )
                process.start()
                theirs.close()
                self._processes.append(process)
                self._connections.append(ours)
        except BaseException:
            self._end(kill=True)
            raise

    def __enter__(self) -> Pool:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._end(kill=False)

    @property
    def pids(self) -> dict[int, int]:
        """Process ids by process number."""
        return {n: p.pid for n, p in enumerate(self._processes) if p.pid is not None}

    def tell(self, message: object) -> None:
        """Send a message to every process."""
        for number, connection in enumerate(self._connections):
            try:
                connection.send(message)
            except OSError as error:
                raise self._dead(number) from error

    def gather(
        self,
        kind: type[_Message],
        guard: Callable[[], None],
        idle: Callable[[], None] | None = None,
    ) -> list[_Message]:
        """One message of type `kind` from each process, in process order.

        `guard` and `idle` are called at least every half second meanwhile. Raises the first
        failure of a client.
        """
        found: dict[int, _Message] = {}
        while len(found) < len(self._connections):
            open_ones = {c: n for n, c in enumerate(self._connections) if n not in found}
            for connection in wait(list(open_ones), CHECK_EVERY):
                number = open_ones[connection]  # type: ignore[index]
                found[number] = self._receive(number, kind)
            guard()
            if idle is not None:
                idle()
        return [found[number] for number in range(len(self._connections))]

    def _receive(self, number: int, kind: type[_Message]) -> _Message:
        try:
            message: Any = self._connections[number].recv()
        except (EOFError, OSError) as error:
            raise self._dead(number) from error
        if isinstance(message, Failure):
            raise self._failed(number, message)
        if not isinstance(message, kind):
            raise TypeError(f"client process {number} sent {message!r} instead of {kind.__name__}")
        return message

    def raise_for_dead(self) -> None:
        """Raise the failure of a process that has ended or failed before it was asked to."""
        for number, process in enumerate(self._processes):
            if process.exitcode is None:
                continue
            connection = self._connections[number]
            try:
                message = connection.recv() if connection.poll() else None
            except (EOFError, OSError):
                message = None
            if isinstance(message, Failure):
                raise self._failed(number, message)
            if process.exitcode != 0:
                raise self._dead(number)

    def _failed(self, number: int, failure: Failure) -> Exception:
        tail = "\n".join(failure.trace.rstrip().splitlines()[-_TRACE_LINES:])
        self._log.error("client process %d failed: %s\n%s", number, failure.text, tail)
        if failure.error is not None:
            return failure.error
        return RuntimeError(f"client process {number} failed: {failure.text}")

    def _dead(self, number: int) -> StorewiseError:
        process = self._processes[number]
        process.join(_GRACE)
        code = process.exitcode
        if code is None:
            how = "has closed its pipe and goes on"
        else:
            how = how_it_ended(code, self._before, process.pid)
            how += "" if code < 0 else " and without a word"
        return StorewiseError(f"client process {number} (pid {process.pid}) {how}")

    def finish(self) -> None:
        """Wait until all processes have ended in order; raises for one that did not."""
        for number, process in enumerate(self._processes):
            process.join()
            if process.exitcode != 0:
                raise self._dead(number)

    def _end(self, *, kill: bool) -> None:
        self.shared.stop()
        for connection in self._connections:
            connection.close()
        until = monotonic() + (0.0 if kill else _GRACE)
        for process in self._processes:
            process.join(max(0.0, until - monotonic()))
            if process.exitcode is None:
                process.kill()
        for process in self._processes:
            process.join()
        for end in self._life:
            os.close(end)
