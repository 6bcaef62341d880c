"""Client processes as their worker sees them: start, talk, notice a death, end."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable
from contextlib import suppress
from multiprocessing import get_context
from multiprocessing.connection import Connection, wait
from multiprocessing.context import ForkProcess
from time import monotonic
from typing import Any

from storewise.driver.client_process import Failure, client_process
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


class Pool:
    """The client processes of a worker; `close` leaves none of them behind.

    They are forked at once, so the worker must not have threads of its own yet. Each is tied to
    the worker in two ways: by a signal of the kernel on the worker's death (Linux), and by a pipe
    whose other end closes then. `check` raises when the trial is to end.
    """

    def __init__(
        self, job: WorkerJob, threads: int, check: Callable[[], None], log: logging.Logger
    ) -> None:
        self._check, self._log = check, log
        self._next_check = 0.0
        self._before = MemoryKills.now()
        count = job.trial.processes
        nodes = [] if job.cluster is None else [e.name for e in job.cluster.endpoints]
        self.counters = SharedCounters(count, threads, list(dict.fromkeys(nodes)))
        self._processes: list[ForkProcess] = []
        self._connections: list[Connection] = []
        #: Messages of processes that have ended in order, which nobody has gathered yet.
        self._last_words: dict[int, Any] = {}
        self._life = os.pipe()
        context = get_context("fork")
        tie = dies_with_parent()
        try:
            for number in range(count):
                ours, theirs = context.Pipe()
                process = context.Process(
                    target=client_process,
                    args=(job, number, theirs, self._life, self.counters, tie),
                    name=f"client-{number}",
                    # A daemon could have no processes of its own, as clients of `files` have.
                    daemon=False,
                )
                process.start()
                theirs.close()
                self._processes.append(process)
                self._connections.append(ours)
        except BaseException:
            self.close(0.0)
            raise

    @property
    def pids(self) -> dict[int, int]:
        """Process ids by process number."""
        return {n: p.pid for n, p in enumerate(self._processes) if p.pid is not None}

    def check(self) -> None:
        """To be called while the worker waits: raises when the trial or one of its clients has
        ended."""
        self._raise_for_dead()
        if monotonic() >= self._next_check:
            self._check()
            self._next_check = monotonic() + CHECK_EVERY

    def tell(self, message: object) -> None:
        """Send a message to every process."""
        for number, connection in enumerate(self._connections):
            try:
                connection.send(message)
            except OSError as error:
                self._processes[number].join(_GRACE)
                self._raise_for_dead()  # its own word, where it has sent one
                raise self._dead(number) from error

    def gather(self, idle: Callable[[], None] | None = None) -> list[Any]:
        """The next message of each process, in process order.

        `check` and `idle` are called at least every half second meanwhile. Raises the first
        failure of a client.
        """
        messages: dict[int, Any] = {}
        while len(messages) < len(self._connections):
            for number in self._last_words.keys() - messages.keys():
                messages[number] = self._last_words.pop(number)
            if len(messages) == len(self._connections):
                break
            waiting = {c: n for n, c in enumerate(self._connections) if n not in messages}
            for connection in wait(list(waiting), CHECK_EVERY):
                number = waiting[connection]  # type: ignore[index]
                messages[number] = self._receive(number)
            self.check()
            if idle is not None:
                idle()
        return [messages[number] for number in range(len(self._connections))]

    def _receive(self, number: int) -> Any:
        try:
            message = self._connections[number].recv()
        except (EOFError, OSError) as error:
            raise self._dead(number) from error
        if isinstance(message, Failure):
            raise self._failed(number, message)
        return message

    def _raise_for_dead(self) -> None:
        """Raise the failure of a process that has ended or failed before it was told to.

        What a process that ended in order has sent last is kept for :meth:`gather`."""
        for number, process in enumerate(self._processes):
            if process.exitcode is None or number in self._last_words:
                continue
            connection = self._connections[number]
            message = None
            with suppress(EOFError, OSError):  # it has sent nothing more
                if connection.poll():
                    message = connection.recv()
            if isinstance(message, Failure):
                raise self._failed(number, message)
            if message is not None:
                self._last_words[number] = message
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

    def close(self, grace: float = _GRACE) -> None:
        """End all processes, by force after `grace` seconds."""
        self.counters.stop()
        for connection in self._connections:
            connection.close()
        until = monotonic() + grace
        for process in self._processes:
            process.join(max(0.0, until - monotonic()))
            if process.exitcode is None:
                process.kill()
        for process in self._processes:
            process.join()
        for end in self._life:
            os.close(end)
