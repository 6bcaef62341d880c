# What Snakemake says of failed jobs, as reasons for which trials end: docs/sessions.md. It uses
# internals of Snakemake 9.27 (logging events), as control.smk does, which sets it to work.
import logging
import re
import sys
import threading
from contextlib import suppress

from snakemake_interface_logger_plugins.common import LogEvent

from storewise.metrics.memory_kills import MemoryKills
from storewise.schedulers import pbs, slurm
from storewise.schedulers.jobs import ClusterJob, RunJobs
from storewise.schedulers.queue import PBS, SLURM, SLURM_RUN
from storewise.session.coordination.ending import killed_job, status_of
from storewise.session.coordination.liveness import Abort, abort, members

#: Seconds between two looks at jobs that wait, or do not end.
LOOK_AT_QUEUE = 10
ENDED = threading.Event()
#: Cluster jobs of this run that have not ended.
JOBS = RunJobs()
#: Path of a file that belongs to a trial; group 1 is the trial.
OF_TRIAL = re.compile(rf"{re.escape(R)}/(?:trials|live)/([^/\s]+)/")
SHUTDOWN_MESSAGES = ("Will exit after finishing", "Terminating processes on user")


def say(text):
    # A log on a full disk takes nothing: no reason to end anything else than the trial.
    with suppress(OSError):
        print(f"storewise: {text}", file=sys.stderr, flush=True)


class Witness(logging.Handler):
    """Sees how scripts end that this Snakemake has started itself: it is their parent.

    In a job of a cluster that is the job's own Snakemake, and nobody else can tell: what is killed
    leaves no word.
    """

    def __init__(self):
        super().__init__()
        self.before = {}
        self.statuses = {}

    def emit(self, record):
        if workflow.dryrun:  # not known yet when the handler is made
            return
        try:
            self.hear(record)
        except OSError:
            # On a full disk, say. Snakemake would wait for ever for a job whose end nobody noted.
            self.handleError(record)

    def hear(self, record):
        event = getattr(record, "event", None)
        if event == LogEvent.JOB_INFO:
            self.before[record.jobid] = MemoryKills.now()
        elif event == LogEvent.ERROR:
            # The same thread says next which job has failed.
            status = status_of(str(record.msg))
            if status is not None:
                self.statuses[threading.get_ident()] = status
        elif event in (LogEvent.JOB_ERROR, LogEvent.GROUP_ERROR):
            status = self.statuses.pop(threading.get_ident(), None)
            before = self.before.pop(getattr(record, "jobid", None), MemoryKills.now())
            outputs = " ".join(map(str, getattr(record, "output", None) or []))
            logs = [str(path) for path in getattr(record, "log", None) or []]
            log = logs[0].partition(" (check log file")[0] if logs else ""
            for trial in set(OF_TRIAL.findall(outputs)):
                killed = None
                if status is not None and status < 0:
                    killed = killed_job(
                        Path(R) / "live" / trial, Path(log).stem, status, before, log
                    )
                self.failed(record, trial, log, status, killed)

    def failed(self, record, trial, log, status, killed):
        """A job of a trial has failed: its script's exit status, if this process knows it, and what
        to say where a signal has ended it."""
        if killed is not None:
            abort(Path(R) / "live" / trial, killed)


class Controller(Witness):
    """Ends live trials as soon as Snakemake reports a failed job or a shutdown, and registers what
    executors submit."""

    def __init__(self):
        super().__init__()
        #: By Snakemake's id of a job: its trial (a group's, for those in it), and its group's id.
        self.trials, self.groups = {}, {}
        #: By thread, what it has last said of a failed job.
        self.said = {}
        self.any_failed = False

    def hear(self, record):
        super().hear(record)
        event, message = getattr(record, "event", None), str(record.msg)
        if message.startswith(SHUTDOWN_MESSAGES):
            RUN.abort_live(Abort("the run was stopped", failure=False))
        elif event == LogEvent.GROUP_INFO:
            self.groups |= {str(job.jobid): record.group_id for job in record.jobs}
        elif event == LogEvent.JOB_INFO:
            # A group's jobs are told after it, and are of one trial.
            job = self.cluster_job(record.jobid)
            self.trials[job] = dict(record.wildcards or {}).get("trial", "")
        elif event == LogEvent.JOB_FINISHED:
            JOBS.ended(self.cluster_job(record.job_id))
            self.let_others_end()
        elif event in (LogEvent.JOB_ERROR, LogEvent.GROUP_ERROR):
            self.any_failed = True
            self.let_others_end()
        elif name := slurm.run_name(message):
            JOBS.submitted(name, ClusterJob(name, SLURM_RUN))
            in_background(watch_queue, slurm.Waiting(name))
        elif pbs.failed_job(message) or pbs.refusal(message):
            # Of a group. The same thread says next which jobs it had.
            self.said[threading.get_ident()] = message
        elif job := pbs.submitted_job(message):
            self.submitted(*job, PBS)
        elif job := slurm.submitted_job(message):
            self.submitted(*job, SLURM)

    def let_others_end(self):
        """After an error Snakemake starts no more jobs. Trials that are measured beside the failed
        one (`live_sessions`) need theirs, so it goes on until they have ended. No other trial is
        opened."""
        scheduler = getattr(workflow, "scheduler", None)
        if self.any_failed and scheduler is not None:
            keep_going = workflow.execution_settings.keep_going
            scheduler.keepgoing = keep_going or bool(RUN.active())

    def cluster_job(self, jobid):
        return self.groups.get(str(jobid), str(jobid))

    def submitted(self, jobid, job_id, kind):
        JOBS.submitted(jobid, ClusterJob(job_id, kind, self.trials.get(jobid, "")))
        RUN.record_jobs()

    def failed(self, record, trial, log, status, killed):
        live = Path(R) / "live" / trial
        rule_name = getattr(record, "rule_name", "a job")
        message = str(
            getattr(record, "rule_msg", None)
            or self.said.get(threading.get_ident(), "")
        )
        name = Path(log).stem if log else rule_name
        refused = slurm.refusal(message) or pbs.refusal(message)
        in_pbs, lost = pbs.failed_job(message), slurm.host_was_lost(message)
        job = members(live).get(name)
        host = in_pbs.lost_host if in_pbs else job.host if job and lost else ""
        in_slurm, by_slurm = slurm.end_of_job(message)
        JOBS.ended(self.cluster_job(getattr(record, "jobid", None)))
        if lost:
            why = Abort(
                f"{rule_name} lost its host{f' {host}' if host else ''}: Slurm says that "
                "it is gone (NODE_FAIL), as an instance that was taken back or could not "
                "be started",
                True,
                log,
            )
        elif refused:
            # It never ran: a log that is there is of an earlier run.
            why = Abort(f"{rule_name} was refused: {refused}", True)
        elif killed is not None:
            why = killed
        elif in_pbs:
            own = log if Path(log).is_file() else in_pbs.log
            why = Abort(
                f"{name} {in_pbs.what}; PBS's log of it: {in_pbs.log}", True, own
            )
        else:
            how = (
                f"ended early: {in_slurm}"
                if in_slurm
                else (
                    "failed without a message of its own: was it killed with all of its "
                    "processes, or out of memory?"
                    if status is None
                    else f"ended with status {status} and without a message of its own"
                )
            )
            why = Abort(f"{name} {how}", True, log)
        cause = in_pbs.cause if in_pbs else in_slurm if by_slurm else ""
        failure = RUN.job_failed(trial, why, job=name, scheduler=cause)
        if failure is not None:
            tell(failure)
        if host and (failure is None or why.reason not in failure.reason):
            # Others saw its silence first, and did not know.
            RUN.explain(trial, why.reason)
            say(why.reason)


def tell(failure):
    say(f"trial {failure.trial} ended: {failure.reason}")


def in_background(look, *arguments):
    """Looks at the scheduler while the run goes on, beside it: it may be slow to answer."""
    threading.Thread(target=look, args=arguments, daemon=True).start()


def watch_queue(waiting):
    """Takes jobs that Slurm would never start out of its queue, with a sentence each."""
    while not ENDED.wait(LOOK_AT_QUEUE):
        for job_id, sentence in waiting.never_starting().items():
            # Not by the sentence, which has the trial's name: `a-r1` is also in `a-r10`.
            trials = {job.id: job.trial for job in JOBS.unfinished()}
            live = Path(R) / "live" / (trials.get(job_id) or ".")
            if live in RUN.live():  # said when the trial ends
                abort(live, Abort(sentence, failure=True))
            else:
                say(sentence)
        waiting.cancel()


def cancel_overdue_jobs():
    """Cancels what a scheduler still has of trials that were aborted a while ago."""
    while not ENDED.wait(LOOK_AT_QUEUE):
        for sentence in JOBS.cancel_overdue([live.name for live in RUN.aborted()]):
            say(sentence)
