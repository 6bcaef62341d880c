"""Reactions to a job of a run that is submitted, ends or fails.

``rules/run.smk`` hands Snakemake's events over as plain values.
"""

from __future__ import annotations

import re
import sys
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from storewise.errors import ConfigError
from storewise.layout import LIVE
from storewise.metrics.memory_kills import MemoryKills
from storewise.run.killed import refuse_second_run
from storewise.schedulers import pbs, slurm
from storewise.schedulers.jobs import ClusterJob, RunJobs, cancel_jobs
from storewise.schedulers.queue import PBS, SLURM, SLURM_RUN
from storewise.session.coordination import run_record
from storewise.session.coordination.ending import killed_job, status_of
from storewise.session.coordination.failure import Failure
from storewise.session.coordination.lease import lease_seconds
from storewise.session.coordination.liveness import ABORT, Abort, abort, members, read_abort
from storewise.session.coordination.opening import ends_run
from storewise.session.coordination.run import Run

#: Seconds between two looks at jobs that wait, or do not end.
QUEUE_SECONDS = 10


def say(text: str) -> None:
    """Print a message for the user of a run."""
    # A log on a full disk takes nothing: no reason to end anything else than the trial.
    with suppress(OSError):
        sys.stderr.write(f"storewise: {text}\n")
        sys.stderr.flush()


@dataclass(frozen=True, slots=True)
class FailedJob:
    """A failed job, as Snakemake reports it."""

    rule_name: str
    jobid: str
    outputs: Sequence[str]
    logs: Sequence[str]
    message: str
    """The executor's reason; empty if it gives none."""
    pbs_report: pbs.Report = field(default_factory=dict)
    """The report of the executor for PBS; empty with another one."""

    @property
    def log(self) -> str:
        """The job's own log file; empty if it has none."""
        return self.logs[0].partition(" (check log file")[0] if self.logs else ""

    @property
    def name(self) -> str:
        return Path(self.log).stem if self.log else self.rule_name


class ScriptExits:
    """The exits of scripts that this process's Snakemake has started itself: it is their parent.

    In a job of a cluster that is the job's own Snakemake, and nobody else can tell: a process that
    is killed writes nothing.
    """

    def __init__(self, results: Path) -> None:
        self.results = results
        self._trial_file = re.compile(rf"{re.escape(str(results))}/(?:trials|live)/([^/\s]+)/")
        self._kills_before: dict[str, MemoryKills] = {}
        #: By thread: it reports an error and then the job that failed.
        self._statuses: dict[int, int] = {}

    def job_started(self, jobid: str, trial: str) -> None:
        self._kills_before[jobid] = MemoryKills.now()

    def error(self, text: str) -> None:
        """Take the exit status of a script from an error message of Snakemake."""
        if (status := status_of(text)) is not None:
            self._statuses[threading.get_ident()] = status

    def job_failed(self, job: FailedJob) -> None:
        status = self._statuses.pop(threading.get_ident(), None)
        before = self._kills_before.pop(job.jobid, MemoryKills.now())
        trials = set(self._trial_file.findall(" ".join(job.outputs)))
        for trial in trials:
            live, killed = self.results / LIVE / trial, None
            if status is not None and status < 0:
                killed = killed_job(live, job.name, status, before, job.log)
            self.trial_job_failed(job, trial, status, killed)
        if not trials:
            self.other_job_failed(job)

    def trial_job_failed(
        self, job: FailedJob, trial: str, status: int | None, killed: Abort | None
    ) -> None:
        """Abort the trial of a failed job; `killed` has the signal that ended its script."""
        if killed is not None:
            abort(self.results / LIVE / trial, killed)

    def other_job_failed(self, job: FailedJob) -> None:
        """Handle a failed job outside of trials."""


class RunEvents(ScriptExits):
    """Ends trials of which a job failed, and knows the cluster jobs of a run."""

    def __init__(self, run: Run, jobs: RunJobs, stop: Callable[[], None]) -> None:
        super().__init__(run.results)
        self._run, self._jobs = run, jobs
        self._stop = stop
        """Has Snakemake start no more jobs."""
        self.ended = threading.Event()
        #: By Snakemake's id of a job: its trial (a group's, for those in it), and its group's id.
        self._trials: dict[str, str] = {}
        self._groups: dict[str, str] = {}

    def start(
        self,
        locks: Iterable[str],
        *,
        trials: Mapping[str, str],
        measuring: Sequence[str],
        live_sessions: int,
        on_cluster: bool,
    ) -> None:
        """Take the run's lease and record it (`RunRecord`); `locks` are Snakemake's lock files.
        ConfigError where another run measures the study."""
        run = self._run
        run.lease_seconds = lease_seconds(on_cluster=on_cluster)
        run.start(locks=map(str, locks))
        try:
            # One that starts at this moment sees our lease now, or we see its.
            refuse_second_run(self.results, run.id)
        except ConfigError:
            run.end()
            raise
        if on_cluster:
            self.cancel_overdue_jobs()
        run_record.begin(self.results, run.id, trials, tuple(measuring), live_sessions)

    def finish(self, reason: str | None) -> None:
        """End the run; `reason` says why it ended with an error, if it did."""
        self.ended.set()
        for failure in self._run.unrecorded():
            tell(failure)
        if lost := self._run.lost():
            say(lost)
        if reason is not None:
            # Those that the executor did not know yet when it cancelled its own.
            for sentence in cancel_jobs(self._jobs.ids()):
                say(sentence)
        for name in self._run.end(reason):
            say(f"could not end {name} from here; it ends by itself when its lease runs out")

    def record_end(self, reason: str | None) -> None:
        """Record that no other pass follows."""
        try:
            run_record.end(self.results, reason)
        except OSError as error:
            say(f"{self.results} will not say that this run has ended: {error}")

    def group_started(self, group: str, jobids: Sequence[str]) -> None:
        self._groups |= dict.fromkeys(jobids, group)

    def job_started(self, jobid: str, trial: str) -> None:
        super().job_started(jobid, trial)
        # A group's jobs are reported after it, and belong to one trial.
        self._trials[self._groups.get(jobid, jobid)] = trial

    def job_finished(self, jobid: str) -> None:
        self._jobs.ended(self._groups.get(jobid, jobid))

    def message(self, text: str, report: pbs.Report) -> None:
        """Take the ids of cluster jobs from a message of an executor (or PBS's report with it)."""
        if name := slurm.run_name(text):
            self._jobs.submitted(name, ClusterJob(name, SLURM_RUN))
            self._in_background(lambda: self._watch_queue(slurm.Waiting(name)))
        elif report.get("event") == "submitted":
            self._submitted(report["jobid"], report["id"], PBS)
        elif job := slurm.submitted_job(text):
            self._submitted(*job, SLURM)

    def _submitted(self, jobid: str, job_id: str, kind: str) -> None:
        self._jobs.submitted(jobid, ClusterJob(job_id, kind, self._trials.get(jobid, "")))
        self._run.record_jobs()

    def other_job_failed(self, job: FailedJob) -> None:
        if refused := pbs.refusal(job.pbs_report) or slurm.refusal(job.message):
            say(f"the job `{job.rule_name}` was refused: {refused}")
        elif cause := pbs.cause(job.pbs_report):
            say(f"the job `{job.rule_name}` failed; {cause}; its log is {job.pbs_report['log']}")
        else:
            say(
                f"the job `{job.rule_name}` failed" + (f"; its log is {job.log}" if job.log else "")
            )

    def trial_job_failed(
        self, job: FailedJob, trial: str, status: int | None, killed: Abort | None
    ) -> None:
        live = self.results / LIVE / trial
        process = members(live).get(job.name)
        host = job.pbs_report.get("host", "")
        if process and slurm.host_was_lost(job.message):
            host = process.host
        in_slurm, by_slurm = slurm.end_of_job(job.message)
        self.job_finished(job.jobid)
        why = reason_of(killed, job, status, host)
        cause = pbs.cause(job.pbs_report) or (in_slurm if by_slurm else "")
        failure = self._run.job_failed(trial, why, job=job.name, scheduler=cause)
        if failure is not None:
            tell(failure)
        if host and (failure is None or why.reason not in failure.reason):
            # Others saw its silence first, and did not know.
            self._run.explain(trial, why.reason)
            say(why.reason)
        if (live / ABORT).exists() and ends_run(read_abort(live / ABORT)):
            self._stop()

    def cancel_overdue_jobs(self) -> None:
        """Start to cancel jobs that remain of trials that were aborted a while ago."""

        def watch() -> None:
            while not self.ended.wait(QUEUE_SECONDS):
                aborted = [live.name for live in self._run.aborted()]
                for sentence in self._jobs.cancel_overdue(aborted):
                    say(sentence)

        self._in_background(watch)

    def _watch_queue(self, waiting: slurm.Waiting) -> None:
        """Take jobs that Slurm would never start out of its queue, with a sentence each."""
        while not self.ended.wait(QUEUE_SECONDS):
            for job_id, sentence in waiting.never_starting().items():
                # Not by the sentence, which has the trial's name: `a-r1` is also in `a-r10`.
                trials = {job.id: job.trial for job in self._jobs.unfinished()}
                live = self.results / LIVE / (trials.get(job_id) or ".")
                if live in self._run.live():  # said when the trial ends
                    abort(live, Abort(sentence, failure=True))
                else:
                    say(sentence)
            waiting.cancel()

    def _in_background(self, watch: Callable[[], None]) -> None:
        """Run `watch` in a thread: a scheduler may be slow to answer."""
        threading.Thread(target=watch, daemon=True).start()


def tell(failure: Failure) -> None:
    say(f"trial {failure.trial} ended: {failure.reason}")


def reason_of(killed: Abort | None, job: FailedJob, status: int | None, host: str) -> Abort:
    """Why a job of a trial failed: `status` is its script's exit status, `host` the one that the
    scheduler has lost."""
    name, log, message, report = job.name, job.log, job.message, job.pbs_report
    if slurm.host_was_lost(message):
        return Abort(
            f"{job.rule_name} lost its host{f' {host}' if host else ''}: Slurm says that it is "
            "gone (NODE_FAIL), as an instance that was taken back or could not be started",
            True,
            log,
        )
    if refused := slurm.refusal(message) or pbs.refusal(report):
        # It never ran: a log that is there is of an earlier run.
        return Abort(f"{job.rule_name} was refused: {refused}", True)
    if killed is not None:
        return killed
    if report:
        own = log if Path(log).is_file() else report["log"]
        return Abort(f"{name} {report['reason']}; PBS's log of it: {report['log']}", True, own)
    in_slurm, _ = slurm.end_of_job(message)
    if in_slurm:
        return Abort(f"{name} ended early: {in_slurm}", True, log)
    if status is None:
        return Abort(
            f"{name} failed without a message of its own: was it killed with all of its processes, "
            "or out of memory?",
            True,
            log,
        )
    return Abort(f"{name} ended with status {status} and without a message of its own", True, log)
