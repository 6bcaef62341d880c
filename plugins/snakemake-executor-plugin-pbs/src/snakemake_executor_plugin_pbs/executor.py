"""Snakemake's side: hands jobs to PBS and tells Snakemake how they ended."""

from __future__ import annotations

import asyncio
import atexit
import os
import secrets
import shutil
import signal
import threading
import time
from collections.abc import AsyncGenerator, Hashable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from snakemake_interface_common.exceptions import WorkflowError
from snakemake_interface_executor_plugins.executors.base import SubmittedJobInfo
from snakemake_interface_executor_plugins.executors.remote import RemoteExecutor

from snakemake_executor_plugin_pbs import arrays, handover, messages, names, script
from snakemake_executor_plugin_pbs.dialects import TORQUE
from snakemake_executor_plugin_pbs.jobs import JobTable, PbsJob
from snakemake_executor_plugin_pbs.qstat import array_of, task_of
from snakemake_executor_plugin_pbs.request import (
    Request,
    RequestError,
    ignored_resources,
    request_of,
)
from snakemake_executor_plugin_pbs.server import Hosts, Server, detect
from snakemake_executor_plugin_pbs.settings import ALL
from snakemake_executor_plugin_pbs.submission import Callbacks, Order, Submitter
from snakemake_executor_plugin_pbs.watch import Ended, Watch

#: Seconds for which a cancelled run waits for its jobs to be gone: PBS gives a job 10 s to end
#: (the queue attribute `kill_delay`), and often sees its end only then.
GONE_WITHIN = 15.0
#: Seconds for which a qsub that has begun is waited for.
QSUB_WITHIN = 10.0
#: Seconds between two looks at the marks, and the slices in which the end is heard.
LOOK_EVERY = 1.0
SLICE = 0.2


class Executor(RemoteExecutor):
    """Submits each job with qsub, or several as an array."""

    def __init__(self, workflow: Any, logger: Any) -> None:
        """Raises WorkflowError where the run cannot work like this."""
        if workflow.remote_execution_settings.immediate_submit:
            raise WorkflowError("The executor pbs does not know --immediate-submit.")
        # All of this before the base class: its thread begins to look at jobs at once.
        settings = workflow.executor_settings
        self._settings = settings
        self._directory = Path(workflow.workdir_init)
        logdir = settings.logdir or Path(".snakemake", "pbs_logs").resolve()
        run = f"{time.strftime('%Y%m%d-%H%M%S')}-{secrets.token_hex(2)}"
        self._run_directory = (self._directory / logdir / run).resolve()
        self._marks = self._run_directory / "marks"
        self._tasks = self._run_directory / "tasks"
        self._marks.mkdir(parents=True)
        dialect, warning = (settings.dialect, None) if settings.dialect else detect()
        if warning is not None:
            logger.warning(warning)
        #: Set when nobody wants to know any more how jobs are.
        self._over = threading.Event()
        self._ended = False
        self._server = Server(dialect, self._over)
        self._table = JobTable()
        self._spent_logs: list[Path] = []
        self._ignored_resources: set[str] = set()
        self._environment = script.exported(os.environ)
        self._watch = Watch(
            self._server,
            self._table,
            self._marks,
            settings.status_interval,
            settings.lost_after,
            self._start_deletion,
            logger.info,
            logger.warning,
        )
        self._submitter = Submitter(
            self._server,
            Hosts(self._server),
            settings.status_interval,
            Callbacks(
                accepted=self._accepted,
                refused=self._refused,
                submitting=self._table.add_unconfirmed,
                not_queued=self._table.confirm,
                duplicates=self._table.add_unneeded,
                server_answered=lambda: self._watch.answered(time.monotonic()),
                server_silent=lambda words: self._watch.unanswered(words, time.monotonic()),
                stopping=self._stopping,
                lost_hosts=lambda: self._watch.lost,
            ),
        )
        self._submitter.start()
        # Also for a Ctrl-C that no handler of Snakemake catches.
        atexit.register(self._at_exit)
        super().__init__(workflow, logger)

    # Submitting.

    def run_jobs(self, jobs: Sequence[Any]) -> None:
        """Submit jobs that are ready, those of rules in the setting `arrays` together."""
        for job in jobs:
            self.run_job_pre(job)
        single, several = arrays.chunks(
            ((job, self._array_key(job)) for job in jobs), self._settings.array_limit
        )
        for job in single:
            self.run_job(job)
        for group in several:
            self._run_array(group)

    def run_job(self, job: Any) -> None:
        """Hand one job over to the thread that submits."""
        request = self._request(job)
        if request is None:
            return
        name = self._name(request.name)
        log = self._run_directory / f"{name}.log"
        path = Path(f"{self._jobscript(job)}.pbs")
        content = script.single(
            self._content(job), self._marks, name, self._environment, self._directory
        )
        _write_private(path, content)
        info = SubmittedJobInfo(job, aux={"pbs_log": str(log)})
        self._submitter.order(Order(request, name, path, log, (info,), (name,), (log,)))

    def _run_array(self, jobs: Sequence[Any]) -> None:
        """Hand jobs over that ask for the same, as one array."""
        requests = [request for job in jobs if (request := self._request(job)) is not None]
        readable = names.common([request.name for request in requests], jobs[0].rule.name)
        name = self._name(readable)
        tasks = self._tasks / name
        tasks.mkdir(parents=True, mode=0o700)
        torque = self._server.dialect == TORQUE
        keys = tuple(f"{name}.{index}" for index in range(len(jobs)))
        logs = tuple(self._run_directory / f"{key}.log" for key in keys)
        infos = []
        for index, (job, key, log) in enumerate(zip(jobs, keys, logs, strict=True)):
            content = script.task(self._content(job), self._marks, key, log if torque else None)
            _write_private(tasks / f"task.{index}", content)
            infos.append(SubmittedJobInfo(job, aux={"pbs_log": str(log)}))
        path = tasks / "array"
        _write_private(
            path,
            script.array(tasks, self._server.dialect, self._environment, self._directory),
        )
        # qsub(1B): PBS puts the task's number in the place of this word.
        log = self._run_directory / (f"{name}.log" if torque else f"{name}.^array_index^.log")
        self._submitter.order(
            Order(replace(requests[0], name=readable), name, path, log, tuple(infos), keys, logs)
        )

    def _array_key(self, job: Any) -> Hashable | None:
        """What jobs of an array have in common, None for a job that is submitted alone."""
        # While lost hosts are avoided, each job is given its host.
        if job.is_group() or self._watch.lost:
            return None
        if not {ALL, job.rule.name} & self._settings.array_rules:
            return None
        try:
            request = request_of("", int(job.threads), _plain(job.resources), self._settings)
        except RequestError:
            return None  # told when it is submitted
        return job.rule.name, replace(request, name="")

    def _request(self, job: Any) -> Request | None:
        """What a job asks for; None, and Snakemake is told, where that cannot be said."""
        values = [] if job.is_group() else [str(value) for value in job.wildcards_dict.values()]
        readable = names.readable(str(job.name), values)
        for name in set(ignored_resources(_plain(job.resources))) - self._ignored_resources:
            # Warn once per run.
            self._ignored_resources.add(name)
            self.logger.warning(messages.ignored_resource(name, readable))
        try:
            return request_of(readable, int(job.threads), _plain(job.resources), self._settings)
        except RequestError as error:
            self._report_refused(SubmittedJobInfo(job), str(error))
            return None

    def _name(self, readable: str) -> str:
        return names.clean(readable, secrets.token_hex(names.TOKEN_BYTES), self._server.dialect)

    def _jobscript(self, job: Any) -> str:
        return str(self.get_jobscript(job))

    def _content(self, job: Any) -> str:
        """Snakemake's script of a job."""
        path = self._jobscript(job)
        self.write_jobscript(job, path)
        return Path(path).read_text(encoding="utf-8", errors="surrogateescape")

    def _accepted(self, order: Order, job_id: str, host: str | None) -> None:
        now = time.monotonic()
        ids = [task_of(job_id, n) for n in range(order.tasks)] if order.tasks else [job_id]
        jobs = [
            PbsJob(info, one, order.name, key, log, now, host)
            for info, one, key, log in zip(order.infos, ids, order.keys, order.logs, strict=True)
        ]
        # Add the jobs before the name is confirmed: an interrupt between must not lose them.
        self._table.add(jobs)
        self._table.confirm(order.name)
        for job in jobs:
            job.info.external_jobid = job.id
            self.logger.info(
                messages.submitted(_jobid(job.info.job), job.id, job.name, str(job.log))
            )
            self.report_job_submission(job.info)
            job.announced = True

    def _refused(self, order: Order, message: str) -> None:
        for info in order.infos:
            self._report_refused(info, message)

    def _report_refused(self, info: Any, message: str) -> None:
        """A job that PBS never had is an error of the job, not of the run."""
        self.report_job_submission(info, register_job=False)
        self.report_job_error(info, msg=message)

    # Seeing how jobs are.

    async def check_active_jobs(self, active_jobs: Sequence[Any]) -> AsyncGenerator[Any, None]:
        """Look at all jobs and tell Snakemake of those that are over; those that go on are
        yielded."""
        for ended in self._watch.look(time.monotonic(), self._stopping()):
            self._report(ended)
        for info in active_jobs:
            if self._table.holds(info.external_jobid):
                yield info

    def _report(self, ended: Ended) -> None:
        job = ended.job
        if ended.what is not None:
            message = messages.failed(job.id, job.name, ended.what, str(job.log))
            # Of a job that never started there is none.
            logs = [str(job.log)] if job.log.exists() else []
            self.report_job_error(job.info, msg=message, aux_logs=logs)
            return
        if not self._settings.keep_successful_logs:
            # Without direct writing it comes only now: it is looked for again at the end.
            job.log.unlink(missing_ok=True)
            self._spent_logs.append(job.log)
        self.report_job_success(job.info)

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
        """Until the next look. The server's pace is kept by what looks."""
        deadline = time.monotonic() + LOOK_EVERY
        while self.wait and (left := deadline - time.monotonic()) > 0:
            await asyncio.sleep(min(SLICE, left))

    def print_job_error(self, job_info: Any, msg: str | None = None, **kwargs: Any) -> None:
        """Without the general sentence that remote executors append: the message says it all."""
        if job_info.external_jobid is not None:
            kwargs["external_jobid"] = job_info.external_jobid
        if job_info.job.is_group() and msg:
            # A group's error has no room for a message.
            self.logger.error(msg)
        job_info.job.log_error(msg, **kwargs)

    # The end.

    def cancel(self) -> None:
        """Delete every job of the run, whether Snakemake still thinks of it or not."""
        self._delete_all(GONE_WITHIN)
        self.shutdown()

    def cancel_jobs(self, active_jobs: Sequence[Any]) -> None:
        """Delete every job of the run."""
        self._delete_all(GONE_WITHIN)

    def shutdown(self) -> None:
        """End the threads; delete what may be left in PBS, and what only served the run."""
        if self._ended:
            return
        self._ended = True
        # After a run that ended normally the table is empty.
        self._delete_all(0)
        super().shutdown()
        for log in self._spent_logs:
            log.unlink(missing_ok=True)
        for directory in (self._marks, self._tasks):
            shutil.rmtree(directory, ignore_errors=True)
        handover.tidy(self._run_directory)

    def _start_deletion(
        self, ids: Sequence[str], names: Sequence[str] = (), *, force: bool = False
    ) -> handover.Handover:
        """Start the process that deletes these jobs and waits until they are gone."""
        return handover.start(self._run_directory, self._server.dialect, ids, names, force=force)

    def _start_deletion_of_all(self) -> list[handover.Handover]:
        """Start the deletion of all jobs that PBS may still have, except those that another
        deletion process already deletes."""
        ids, names = self._table.to_delete()
        if not ids and not names:
            return []
        handed = [self._start_deletion(self._table.whole_arrays(ids), names)]
        # After the start, not before: a second Ctrl-C may come between.
        self._table.mark_handed_over(ids, names)
        return handed

    def _at_exit(self) -> None:
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        self._start_deletion_of_all()

    def _delete_all(self, patience: float) -> None:
        """Start the deletion of all jobs, and wait at most `patience` seconds until none of them
        runs."""
        self._over.set()
        self._submitter.end()
        jobs = self._table.all()
        # Start before any wait: a second Ctrl-C ends the wait, and Snakemake with it.
        handed = self._start_deletion_of_all()
        # Let a running qsub finish: only then do we know whether PBS has its job.
        self._submitter.join(QSUB_WITHIN)
        jobs += self._table.all()
        handed += self._start_deletion_of_all()
        deadline = time.monotonic() + patience
        while not all(self._gone(one, jobs) for one in handed):
            if time.monotonic() > deadline:
                break
            time.sleep(SLICE)
        else:
            return
        if patience:
            self.logger.warning(
                "PBS has not ended all jobs yet; a process of its own goes on deleting them. "
                f"Its log: {self._run_directory / handover.LOG}"
            )

    def _gone(self, handed: handover.Handover, jobs: Sequence[PbsJob]) -> bool:
        """Whether no job can be at work any more: PBS has ended it or the job has said so itself,
        which PBS may notice half a minute later."""
        left = handed.remaining()
        if left is None:
            return False
        unsure = left - (set(handed.names) - self._table.unconfirmed_names())
        for job in jobs:
            array = array_of(job.id)
            if not {job.id, array} & left:
                continue
            unsure -= {job.id, array}
            if script.exit_mark(self._marks, job.key).exists():
                continue
            # Tasks that wait went with their array.
            if array not in left or script.start_mark(self._marks, job.key).exists():
                return False
        return not unsure


def _jobid(job: Any) -> str:
    return str(job.groupid if job.is_group() else job.jobid)


def _plain(resources: Mapping[str, Any]) -> dict[str, Any]:
    return dict(resources.items())


def _write_private(path: Path, text: str) -> None:
    """A script that only its user may read: it holds the environment."""
    with open(path, "w", encoding="utf-8", errors="surrogateescape", opener=_private) as file:
        file.write(text)


def _private(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)
