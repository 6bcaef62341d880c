# What Snakemake says of failed jobs, as reasons for which trials end: docs/sessions.md. It uses
# internals of Snakemake 9.27 (logging events), as control.smk does, which sets it to work.
import logging
import re
import sys
import threading
from contextlib import suppress

from snakemake_interface_logger_plugins.common import LogEvent

from storewise.metrics.memory_kills import MemoryKills
from storewise.schedulers.pbs.request import refusal as pbs_refusal
from storewise.schedulers.job_registry import register
from storewise.session.coordination.ending import killed_job, status_of
from storewise.session.coordination.liveness import Abort, abort, lose_host
from storewise.schedulers.slurm import KIND as SLURM_RUN
from storewise.schedulers.slurm import (
    Waiting,
    ended_job,
    host_of,
    lost_job,
    run_name,
)
from storewise.schedulers.slurm import refusal as slurm_refusal

#: Seconds between two looks at jobs that wait.
LOOK_AT_QUEUE = 10
ENDED = threading.Event()
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
            log = logs[0].split(" (")[0] if logs else ""
            for trial in set(re.findall(rf"{R}/(?:trials|live)/([^/\s]+)/", outputs)):
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
    """Ends live trials as soon as Snakemake reports a failed job or a shutdown."""

    def hear(self, record):
        super().hear(record)
        if str(record.msg).startswith(SHUTDOWN_MESSAGES):
            RUN.abort_live(Abort("the run was stopped", failure=False))
        elif name := run_name(str(record.msg)):
            register(Path(), RUN.id, name, SLURM_RUN)
            threading.Thread(
                target=watch_queue, args=[Waiting(name)], daemon=True
            ).start()

    def failed(self, record, trial, log, status, killed):
        rule_name = getattr(record, "rule_name", "a job")
        message = str(getattr(record, "rule_msg", "") or "")
        refused = slurm_refusal(message) or pbs_refusal(message)
        lost, ended = lost_job(message), ended_job(message)
        if lost is not None:
            host = host_of(lost)
            lose_host(Path(R) / "live" / trial, host)
            why = Abort(
                f"{rule_name} lost its host{f' {host}' if host else ''}: Slurm says that "
                "it is gone (NODE_FAIL), as an instance that was taken back or could not "
                "be started",
                True,
                log,
            )
        elif refused is not None:
            # It never ran: a log that is there is of an earlier run.
            why = Abort(f"{rule_name} was refused: {refused}", True)
        elif killed is not None:
            why = killed
        else:
            name = Path(log).stem if log else rule_name
            how = ended or (
                "failed without a message of its own: was it killed with all of its processes, "
                "or out of memory?"
                if status is None
                else f"ended with status {status} and without a message of its own"
            )
            why = Abort(f"{name} {how}", True, log)
        failure = RUN.job_failed(trial, why)
        if failure is not None:
            say(f"trial {trial} ended: {failure.reason}")


def watch_queue(waiting):
    """Takes jobs that Slurm would never start out of its queue, with a sentence each."""
    while not ENDED.wait(LOOK_AT_QUEUE):
        for job_id, sentence in waiting.never_starting().items():
            trials = [live for live in RUN.live() if live.name in sentence]
            for live in trials:
                abort(live, Abort(sentence, failure=True))
            if not trials:  # else it is said when the trial ends
                say(sentence)
            waiting.cancel(job_id)
