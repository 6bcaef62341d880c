# What belongs to a run and not to one of its rules: its lease, the end of trials of which a job failed
# or that the user stops, and the next pass. It hands Snakemake's events to `storewise.run`;
# docs/sessions.md says what follows from each.
#
# tests/e2e/test_snakemake.py names each thing of Snakemake's insides that is used here.
import _thread
import atexit
import logging
import signal
import sys
import threading
import time
from contextlib import suppress

from snakemake.utils import available_cpu_count
from snakemake_interface_logger_plugins.common import LogEvent

from storewise.run.job_events import FailedJob, RunEvents, ScriptExits, say
from storewise.run.killed import clean_up_killed_runs, refuse_second_run
from storewise.run.retries import (
    SINCE_VARIABLE,
    end_pass,
    lost_trials,
    next_pass_command,
)
from storewise.schedulers import pbs
from storewise.schedulers.jobs import RunJobs
from storewise.schedulers.queue import present as in_queue
from storewise.session.coordination.liveness import Abort
from storewise.session.coordination.run import Run
from storewise.study.kept import keep_study

STOPPED = threading.Event()
# Targets that look at results, while a run may go on elsewhere.
LOOKS_ONLY = ("analysis", "report", "publish")


class Events(logging.Handler):
    """Snakemake's log records with an event, as calls. A cluster job has its own Snakemake, which
    knows how its scripts end; the rest is for the main process."""

    def __init__(self, jobs):
        super().__init__()
        self.jobs, self.started = jobs, False

    def emit(self, record):
        if workflow.dryrun:
            return
        event = getattr(record, "event", None)
        if event == LogEvent.WORKFLOW_STARTED:
            self.started = True
        # Before it makes its plan, and only where that is carried out.
        elif self.started and workflow.executor_plugin:
            self.started = False
            if workflow.is_main_process:
                before_plan()
        try:
            self.handle_event(event, record)
        except OSError:
            # A full disk, say. Snakemake would wait for ever for a job of this thread.
            self.handleError(record)

    def handle_event(self, event, record):
        jobs = self.jobs
        if event == LogEvent.RESOURCES_INFO:
            handle_signals()  # Snakemake has just set its own handler
        elif event == LogEvent.JOB_INFO:
            trial = dict(record.wildcards or {}).get("trial", "")
            jobs.job_started(str(record.jobid), trial)
        elif event == LogEvent.ERROR:
            jobs.error(str(record.msg))
            if record.exception == "LockException":
                say(
                    f"another Snakemake works in {os.getcwd()}; where its results were removed "
                    "meanwhile, it ends by itself: wait for that, and start again"
                )
        elif event == LogEvent.JOB_ERROR:
            jobs.job_failed(failed_job(vars(record)))
        elif event == LogEvent.GROUP_ERROR:
            for job in record.job_error_info:
                jobs.job_failed(failed_job(job))
        elif not isinstance(jobs, RunEvents):
            pass
        elif event == LogEvent.GROUP_INFO:
            ids = [str(job.jobid) for job in record.jobs]
            jobs.group_started(str(record.group_id), ids)
        elif event == LogEvent.JOB_FINISHED:
            jobs.job_finished(str(record.job_id))
        elif event is None:
            jobs.message(str(record.msg), pbs.report_of(vars(record)))


def failed_job(report):
    return FailedJob(
        rule_name=report["rule_name"],
        jobid=str(report["jobid"]),
        outputs=[str(path) for path in report["output"] or []],
        logs=[str(path) for path in report["log"] or []],
        message=str(report["rule_msg"] or ""),
        pbs_report=pbs.report_of(report),
    )


def handle_signals():
    """End trials before their jobs see the signal themselves, and never wait for Snakemake's lock.

    Its handler of SIGTERM takes a lock that the interrupted thread may hold, and Slurm sends the
    signal to each process of a job and again with each scancel: a job's own Snakemake would wait for
    itself. In a thread of its own (not of `threading`, which takes locks too) it only waits its turn.
    """
    global graceful_exit
    current = signal.getsignal(signal.SIGTERM)
    if current is terminate or not callable(current):
        return
    graceful_exit = current
    signal.signal(signal.SIGTERM, terminate)
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        if workflow.is_main_process:
            # Where it is installed, Snakemake imports it for the parameters of a script; it replaces
            # the handler of SIGINT by one after which Ctrl-C ends no wait. So it must come first.
            with suppress(ImportError):
                import polars
        signal.signal(signal.SIGINT, interrupt)


# Snakemake's handler of SIGTERM: it starts no more jobs, and ends when those that run have ended.
graceful_exit = None


def terminate(number, frame):
    stop_trials()
    _thread.start_new_thread(graceful_exit, (number, frame))


def interrupt(number, frame):
    stop_trials()
    signal.default_int_handler(number, frame)


def stop_trials():
    STOPPED.set()
    if workflow.is_main_process:
        why = Abort("the run was stopped", failure=False)
        _thread.start_new_thread(RUN.abort_live, (why,))


def start_no_more():
    graceful_exit(signal.SIGTERM, None)


def before_plan():
    """Remove what killed runs have left, which Snakemake would take for results; refuse to measure
    a study that another run measures."""
    if all(t.endswith(LOOKS_ONLY) for t in workflow.dag_settings.targets or [""]):
        return
    with user_errors():
        clean_up_killed_runs(Path(RESULTS), say)
        refuse_second_run(Path(RESULTS))


def finish(reason):
    """The end of a pass; `reason` says why it ended with an error, if it did."""
    JOBS.finish(reason)
    again = False
    if reason is not None and not STOPPED.is_set():
        on_cluster = not workflow.local_exec
        end = end_pass(STUDY, Path(RESULTS), RUN.id, SINCE, on_cluster=on_cluster)
        for sentence in end.sentences:
            say(sentence)
        # A scheduler gives jobs to a host until it is gone.
        if end.again and (left := end.host_gone - time.time()) > 0:
            say(f"waiting {left:.0f} s, until the host that is taken back is gone")
            STOPPED.wait(left)
        again = end.again and not STOPPED.is_set() and start_again()
    if not again:
        JOBS.record_end(reason)


def start_again():
    """Start this command once more when Snakemake has ended, for the next pass; False where it is
    part of another program or workflow."""
    command = next_pass_command(sys.argv[0], sys.orig_argv)
    if command is None or IS_MODULE:
        say("start it again: failed trials are tried again, or left out of the report")
        return False
    os.environ[SINCE_VARIABLE] = f"{SINCE!r}"
    atexit.register(os.execv, command[0], command)
    return True


if workflow.is_main_process:
    settings = workflow.resource_settings
    if settings.cores is None and settings.nodes is None:
        # Plain `snakemake`: no number of cores, and no jobs of a cluster. profiles/default cannot
        # say it, because it wins over a user's own profile.
        settings.cores = available_cpu_count()
        workflow.register_resource("_cores", settings.cores)
    cluster_jobs = RunJobs()
    RUN = Run(Path(RESULTS), ask=in_queue, jobs=cluster_jobs.ids)
    RUN.tell_jobs(STUDY.live_sessions)
    JOBS = RunEvents(RUN, cluster_jobs, start_no_more)
else:
    JOBS = ScriptExits(Path(RESULTS))
logger.addHandler(Events(JOBS))


onstart:
    results, plan = Path(RESULTS), planned_trials()
    with user_errors():
        check_plan(plan)
        if plan:
            JOBS.start(
                getattr(workflow.persistence, "_lockfile", {}).values(),
                trials={name: trial.engine for name, trial in TRIALS.items()},
                measuring=[name for name in ALL_TRIALS if name in plan],
                live_sessions=STUDY.live_sessions,
                on_cluster=not workflow.local_exec,
            )
            # Already now: a run that is stopped later must still get a report.
            keep_study(results, STUDY.model_dump(mode="json"), LEFT_OUT, REFERENCES)


onsuccess:
    finish(None)
    if sentence := lost_trials(STUDY, Path(RESULTS), SINCE):
        raise WorkflowError(sentence)


onerror:
    finish("the run ended with an error")
