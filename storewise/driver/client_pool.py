"""The client processes of a worker: start them, send commands, collect answers, end them."""

from __future__ import annotations

import logging
from collections.abc import Callable
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
from storewise.processes import dies_with_parent, end_processes
from storewise.session.coordination.ending import how_it_ended

#: Seconds between two checks whether the trial was aborted: each reads files on a shared disk.
CHECK_EVERY = 0.5
#: Seconds that clients have to stop between two operations before they are killed.
_GRACE_SECONDS = 2.0
_TRACE_LINES = 30


class Pool:
    """The client processes of a worker; `close` leaves none of them behind.

    They are forked at once, so the worker must not have threads yet. They die with the worker
    (`dies_with_parent`). `check` raises when the trial is to end.
    """

    def __init__(
        self, job: WorkerJob, threads: int, check: Callable[[], None], log: logging.Logger
    ) -> None:
        self._check_trial, self._log = check, log
        self._next_check = 0.0
        self._kills_before = MemoryKills.now()
        nodes = [] if job.cluster is None else [e.name for e in job.cluster.endpoints]
        self.counters = SharedCounters(job.trial.processes, threads, list(dict.fromkeys(nodes)))
        self._processes: list[ForkProcess] = []
        self._connections: list[Connection] = []
        #: Answers that have come and were not gathered yet, by process number.
        self._answers: dict[int, Any] = {}
        context = get_context("fork")
        tie = dies_with_parent()
        try:
            for number in range(job.trial.processes):
                ours, theirs = context.Pipe()
                process = context.Process(
                    target=client_process,
                    args=(job, number, theirs, self.counters, tie),
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
        """Check the clients while the worker waits for something other than their messages.

        Raises when the trial is to end, or one of the clients has failed or died.
        """
        self._receive(0.0)
        if monotonic() >= self._next_check:
            self._check_trial()
            self._next_check = monotonic() + CHECK_EVERY

    def send(self, message: object, to: int | None = None) -> None:
        """Send a message to every process, or to one."""
        for number, connection in enumerate(self._connections):
            if to is not None and to != number:
                continue
            try:
                connection.send(message)
            except OSError as error:
                self._receive(_GRACE_SECONDS)  # its failure says more
                raise self._death(number) from error

    def gather(self, idle: Callable[[], None] | None = None, of: int | None = None) -> list[Any]:
        """The next answer of each process (or of one), in process order.

        `check` and `idle` are called at least every half second meanwhile. Raises the first
        failure of a client.
        """
        expected = range(len(self._connections)) if of is None else [of]
        while not self._answers.keys() >= set(expected):
            self._receive(CHECK_EVERY)
            self.check()
            if idle is not None:
                idle()
        return [self._answers.pop(number) for number in expected]

    def _receive(self, seconds: float) -> None:
        """Take in answers, waiting up to so long for the first; raises the failure of a process
        or StorewiseError for one that died."""
        silent = {c: n for n, c in enumerate(self._connections) if n not in self._answers}
        for connection in wait(list(silent), seconds):
            number = silent[connection]  # type: ignore[index]
            try:
                message = self._connections[number].recv()
            except (EOFError, OSError) as error:
                raise self._death(number) from error
            if isinstance(message, Failure):
                trace = "\n".join(message.trace.rstrip().splitlines()[-_TRACE_LINES:])
                self._log.error("client process %d failed: %s", number, trace)
                raise message.error
            self._answers[number] = message

    def _death(self, number: int) -> StorewiseError:
        process = self._processes[number]
        process.join(_GRACE_SECONDS)
        code = process.exitcode
        if code is None:
            how = "closed its pipe and still runs"
        else:
            how = how_it_ended(code, self._kills_before, process.pid)
            how += "" if code < 0 else " without a message"
        return StorewiseError(f"client process {number} (pid {process.pid}) {how}")

    def join(self) -> None:
        """Wait until all processes have ended; raises for one with another status than 0."""
        for number, process in enumerate(self._processes):
            process.join()
            if process.exitcode != 0:
                raise self._death(number)

    def close(self, grace: float = _GRACE_SECONDS) -> None:
        """End all processes, by SIGKILL after `grace` seconds."""
        self.counters.stop()
        for connection in self._connections:
            connection.close()
        end_processes(self._processes, grace)
