"""Snakemake's side: submits jobs to PBS and reports their ends to Snakemake."""

from __future__ import annotations

import asyncio
import atexit
import os
import secrets
import shutil
import signal
import threading
import time
from collections.abc import AsyncGenerator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from snakemake_interface_common.exceptions import WorkflowError
from snakemake_interface_executor_plugins.executors.base import SubmittedJobInfo
from snakemake_interface_executor_plugins.executors.remote import RemoteExecutor

from snakemake_executor_plugin_pbs import deletion, events, script
from snakemake_executor_plugin_pbs.events import Event
from snakemake_executor_plugin_pbs.jobs import JobTable, PbsJob
from snakemake_executor_plugin_pbs.request import RequestError, request_of, unique_name
from snakemake_executor_plugin_pbs.server import Server
from snakemake_executor_plugin_pbs.status import ServerStatus
from snakemake_executor_plugin_pbs.submission import Submission, Submitter
from snakemake_executor_plugin_pbs.watch import Ended, Watch

#: Seconds for which a cancelled run waits for its jobs to end: PBS gives a job 10 s (the queue
#: attribute `kill_delay`), and often sees its end only then.
END_SECONDS = 15.0
#: Seconds for which a running qsub is waited for.
QSUB_SECONDS = 10.0
#: Seconds between two looks at the marks, and between two checks whether the run ends.
POLL_SECONDS = 1.0
CHECK_SECONDS = 0.2


class Executor(RemoteExecutor):
    """Submits each job with qsub."""

    def __init__(self, workflow: Any, logger: Any) -> None:
        """Raises WorkflowError with --immediate-submit."""
        if workflow.remote_execution_settings.immediate_submit:
            raise WorkflowError("The executor pbs does not support --immediate-submit.")
        # All of this before the base class: its thread begins to look at jobs at once.
        settings = workflow.executor_settings
        self._settings = settings
        self._directory = Path(workflow.workdir_init)
        logdir = settings.logdir or Path(".snakemake", "pbs_logs").resolve()
        run = f"{time.strftime('%Y%m%d-%H%M%S')}-{secrets.token_hex(2)}"
        self._run_directory = (self._directory / logdir / run).resolve()
        self._marks = self._run_directory / "marks"
        self._marks.mkdir(parents=True)
        #: Set when nobody needs the states of jobs any more.
        self._stopped = threading.Event()
        self._shut_down = False
        self._table = JobTable()
        self._successful_logs: list[Path] = []
        self._environment = script.exported(os.environ)
        server = Server(self._stopped)
        status = ServerStatus(settings.status_interval, logger.info, logger.warning)
        self._watch = Watch(
            *(server, status, self._table, self._marks, settings.lost_after),
            lambda ids, force: deletion.start(self._run_directory, ids, force=force),
            self._report_waiting,
        )
        self._submitter = Submitter(
            *(server, self._table, status),
            accepted=self._accepted,
            refused=self._refused,
            stopping=self._stopping,
        )
        self._submitter.start()
        # Also for a Ctrl-C that no handler of Snakemake catches.
        atexit.register(self._at_exit)
        super().__init__(workflow, logger)

    # Submitting.

    def run_job(self, job: Any) -> None:
        """Queue one job for the thread that submits."""
        wildcards = [] if job.is_group() else map(str, job.wildcards_dict.values())
        readable = ".".join([str(job.name), *wildcards])
        info = SubmittedJobInfo(job)
        try:
            request = request_of(
                readable, int(job.threads), dict(job.resources.items()), self._settings
            )
        except RequestError as error:
            self._report_refused(info, readable, str(error))
            return
        name = unique_name(request.name)
        log = self._run_directory / f"{name}.log"
        info.aux = {"pbs_log": str(log)}
        jobscript = Path(self.get_jobscript(job))
        self.write_jobscript(job, str(jobscript))
        content = script.job_script(
            jobscript.read_text(encoding="utf-8", errors="surrogateescape"),
            *(self._marks, name, self._environment, self._directory),
        )
        path = jobscript.with_name(f"{jobscript.name}.pbs")
        _write_private(path, content)
        self._submitter.put(Submission(info, request, name, path, log))

    def _accepted(self, submission: Submission, job_id: str) -> None:
        job = PbsJob(submission.info, job_id, submission.name, submission.log, time.monotonic())
        # Add the job before the name is confirmed: an interrupt between must not lose it.
        self._table.add(job)
        self._table.confirm(submission.name)
        job.info.external_jobid = job.id
        event = _event(events.SUBMITTED, job)
        self.logger.info(event.message, extra={"pbs": event.data})
        self.report_job_submission(job.info)
        job.announced = True

    def _refused(self, submission: Submission, reason: str) -> None:
        self._report_refused(submission.info, submission.request.name, reason)

    def _report_refused(self, info: Any, name: str, reason: str) -> None:
        """A job that PBS never had is an error of the job, not of the run."""
        self.report_job_submission(info, register_job=False)
        event = Event(events.REFUSED, name, _jobid(info.job), reason=reason)
        self.report_job_error(info, msg=event.message, pbs=event.data)

    # Following jobs.

    async def check_active_jobs(self, active_jobs: Sequence[Any]) -> AsyncGenerator[Any, None]:
        """Report the jobs that are over; those that go on are yielded."""
        for ended in self._watch.poll(time.monotonic(), self._stopping()):
            self._report_end(ended)
        for info in active_jobs:
            if self._table.holds(info.external_jobid):
                yield info

    def _report_end(self, ended: Ended) -> None:
        job, ending = ended
        if ending is not None:
            event = replace(
                _event(events.FAILED, job, ending.reason), cause=ending.cause, host=ending.host
            )
            # A job that never started has no log.
            logs = [str(job.log)] if job.log.exists() else []
            self.report_job_error(job.info, msg=event.message, aux_logs=logs, pbs=event.data)
            return
        if not self._settings.keep_successful_logs:
            # PBS may write it later: it is looked for again at the end.
            job.log.unlink(missing_ok=True)
            self._successful_logs.append(job.log)
        self.report_job_success(job.info)

    def _report_waiting(self, job: PbsJob, reason: str) -> None:
        event = _event(events.WAITING, job, reason)
        self.logger.warning(event.message, extra={"pbs": event.data})

    def _stopping(self) -> bool:
        """Whether Snakemake starts no more jobs: it was told to end (SIGTERM), or a job failed
        without --keep-going. It waits for all that it has submitted then.

        No interface tells this: `_user_kill`, `_errors` and `keepgoing` are internals of
        Snakemake's scheduler (9.27). Where they are missing, waiting jobs are left as they are.
        """
        scheduler = getattr(self.workflow, "scheduler", None)
        if getattr(scheduler, "_user_kill", None):
            return True
        return bool(getattr(scheduler, "_errors", False)) and not getattr(
            scheduler, "keepgoing", True
        )

    async def sleep(self) -> None:
        """Until the next look at the marks. `ServerStatus` says when the server is queried."""
        deadline = time.monotonic() + POLL_SECONDS
        while self.wait and (left := deadline - time.monotonic()) > 0:
            await asyncio.sleep(min(CHECK_SECONDS, left))

    def print_job_error(self, job_info: Any, msg: str | None = None, **kwargs: Any) -> None:
        """Without the general sentence that remote executors append to the message."""
        if job_info.external_jobid is not None:
            kwargs["external_jobid"] = job_info.external_jobid
        if job_info.job.is_group() and msg:
            # Snakemake prints no message of a group.
            self.logger.error(msg)
        job_info.job.log_error(msg, **kwargs)

    # The end.

    def cancel(self) -> None:
        """Delete every job of the run, also those that Snakemake does not list as active."""
        self._delete_all(END_SECONDS)
        self.shutdown()

    def cancel_jobs(self, active_jobs: Sequence[Any]) -> None:
        """Delete every job of the run."""
        self._delete_all(END_SECONDS)

    def shutdown(self) -> None:
        """End the threads; delete what may be left in PBS, and the run's temporary files."""
        if self._shut_down:
            return
        self._shut_down = True
        # After a run that ended normally the table is empty.
        self._delete_all(0)
        super().shutdown()
        for log in self._successful_logs:
            log.unlink(missing_ok=True)
        shutil.rmtree(self._marks, ignore_errors=True)
        deletion.tidy(self._run_directory)

    def _start_deletion_of_all(self) -> list[deletion.Deletion]:
        """Start the deletion of all jobs that PBS may still have, except those that another
        deletion process already deletes."""
        ids, unconfirmed = self._table.to_delete()
        if not ids and not unconfirmed:
            return []
        started = deletion.start(self._run_directory, ids, unconfirmed)
        # After the start, not before: a second Ctrl-C may come between.
        self._table.hand_over(ids, unconfirmed)
        return [started]

    def _at_exit(self) -> None:
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        self._start_deletion_of_all()

    def _delete_all(self, patience: float) -> None:
        """Start the deletion of all jobs, and wait at most `patience` seconds until none of them
        runs."""
        self._stopped.set()
        self._submitter.end()
        jobs = self._table.all()
        # Start before any wait: a second Ctrl-C ends the wait, and Snakemake with it.
        deletions = self._start_deletion_of_all()
        # Let a running qsub finish: only then do we know whether PBS has its job.
        self._submitter.join(QSUB_SECONDS)
        jobs += self._table.all()
        deletions += self._start_deletion_of_all()
        deadline = time.monotonic() + patience
        while not all(one.ended or (one.requested and not self._runs(jobs)) for one in deletions):
            if time.monotonic() > deadline:
                break
            time.sleep(CHECK_SECONDS)
        else:
            return
        if patience:
            self.logger.warning(
                "PBS has not ended all jobs yet; another process goes on deleting them. "
                f"Its log: {self._run_directory / deletion.LOG}"
            )

    def _runs(self, jobs: Sequence[PbsJob]) -> bool:
        """Whether a job has written its start mark and no exit mark: PBS may notice the end of a
        job half a minute later."""
        return any(
            script.start_mark(self._marks, job.name).exists()
            and not script.exit_mark(self._marks, job.name).exists()
            for job in jobs
        )


def _event(event: str, job: PbsJob, reason: str = "") -> Event:
    return Event(event, job.name, _jobid(job.info.job), job.id, str(job.log), reason)


def _jobid(job: Any) -> str:
    return str(job.groupid if job.is_group() else job.jobid)


def _write_private(path: Path, text: str) -> None:
    """A script that only its user may read: it contains the environment."""
    with open(path, "w", encoding="utf-8", errors="surrogateescape", opener=_private) as file:
        file.write(text)


def _private(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)
