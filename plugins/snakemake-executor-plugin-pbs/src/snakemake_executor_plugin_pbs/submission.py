"""Submits jobs in a thread of its own: a slow server does not block Snakemake's scheduler."""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from snakemake_executor_plugin_pbs.commands import NoAnswer, NoProgram, Stopped
from snakemake_executor_plugin_pbs.jobs import JobTable
from snakemake_executor_plugin_pbs.request import Request, qsub_command, refusal, too_large
from snakemake_executor_plugin_pbs.server import Refused, Server
from snakemake_executor_plugin_pbs.status import ServerStatus

#: Seconds for which to retry qsub while the server cannot be reached.
RETRY_SECONDS = 330.0
FIRST_PAUSE = 1.0
MAX_PAUSE = 30.0
RUN_STOPPED = "the run was stopped before it was submitted"


@dataclass(frozen=True, slots=True)
class Submission:
    """A job to submit. `info` is Snakemake's description of it, `name` its name in PBS."""

    info: Any
    request: Request
    name: str
    script: Path
    log: Path

    @property
    def command(self) -> list[str]:
        return qsub_command(self.request, self.name, self.log, self.script)


class Submitter(threading.Thread):
    """Submits jobs one after another. `end` lets it finish the qsub that runs, and no more.

    `accepted` gets a submission with the job's id, `refused` one with the reason. `stopping` says
    whether Snakemake starts no more jobs.
    """

    def __init__(
        self,
        server: Server,
        table: JobTable,
        status: ServerStatus,
        *,
        accepted: Callable[[Submission, str], object],
        refused: Callable[[Submission, str], object],
        stopping: Callable[[], bool],
    ) -> None:
        super().__init__(name="pbs-submitter", daemon=True)
        self._server, self._table, self._status = server, table, status
        self._accepted, self._refused, self._stopping = accepted, refused, stopping
        self._queue: queue.SimpleQueue[Submission | None] = queue.SimpleQueue()
        self._ended = threading.Event()

    def put(self, submission: Submission) -> None:
        self._queue.put(submission)

    def end(self) -> None:
        self._ended.set()
        self._queue.put(None)

    def run(self) -> None:
        while (submission := self._queue.get()) is not None and not self._ended.is_set():
            self.submit(submission)

    def submit(self, submission: Submission) -> None:
        """Submit a job and report what became of it; nothing if the run ends meanwhile."""
        try:
            job_id = self._submit_with_retries(submission)
        except Stopped:
            return
        except (Refused, NoProgram, NoAnswer) as error:
            self._refused(submission, refusal(str(error), submission.command))
        except Exception as error:  # noqa: BLE001
            # Snakemake would wait for ever for a job whose end nobody reports.
            self._refused(submission, f"{type(error).__name__}: {error}")
        else:
            self._accepted(submission, job_id)

    def _submit_with_retries(self, submission: Submission) -> str:
        """The id of the submitted job. Raises Refused, NoProgram, NoAnswer after `RETRY_SECONDS`
        without an answer, and Stopped."""
        name = submission.name
        deadline = time.monotonic() + RETRY_SECONDS
        pause, failures = FIRST_PAUSE, 0
        while True:
            if self._stopping():
                raise Refused(RUN_STOPPED)
            # Each time: a server that did not answer at first may now say which hosts it has.
            reason = too_large(submission.request, self._server.hosts())
            if reason is not None:
                raise Refused(reason)
            self._table.add_unconfirmed(name)
            # Check only now: a thread that ends the run later finds the name in the table.
            if self._ended.is_set():
                self._table.confirm(name)
                raise Stopped("qsub")
            try:
                job_id = self._server.submit(submission.command)
            except NoAnswer as error:
                last_error = error
            except (Refused, NoProgram):
                self._table.confirm(name)
                raise
            else:
                self._status.answered()
                return job_id
            # PBS may have accepted the job although its answer was lost: look for it first.
            found: list[str] | None = None
            while found is None:
                failures += 1
                if failures > 1:
                    self._status.unanswered(str(last_error))
                if time.monotonic() > deadline:
                    raise last_error
                if self._ended.wait(pause):
                    raise Stopped("qsub")
                pause = min(pause * 2, MAX_PAUSE)
                try:
                    found = self._server.find(name)
                except NoAnswer as error:
                    last_error = error
            if found:
                # A second qsub can have been accepted too.
                self._table.add_unneeded(found[1:])
                self._status.answered()
                return found[0]
            self._table.confirm(name)
