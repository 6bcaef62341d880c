# The run's side of its sessions, in the main Snakemake process only: lease, abort on the first
# error or on a shutdown, and a clean end. facts behind each part: docs/sessions.md.
#
# This file touches internals of Snakemake 9.27 (logging events, scheduler flags, lock files);
# pyproject.toml pins that series and tests/test_faults.py holds each part to its promise.
import _thread
import asyncio
import logging
import re
import shutil
import sys
import threading
import time

from snakemake.logging import logger
from snakemake.scheduling.job_scheduler import JobScheduler
from snakemake.utils import available_cpu_count
from snakemake_interface_executor_plugins.executors.remote import RemoteExecutor
from snakemake_interface_logger_plugins.common import LogEvent

from storewise.session.cluster_jobs import cancel_all, register, remove_registry, runs
from storewise.session import record
from storewise.session.live import Abort, abort, lose_host
from storewise.session.run import (
    LIVE_VARIABLE,
    RUN_VARIABLE,
    Run,
    lease_seconds,
    sweep_dead,
)
from storewise.session.slurm_run import KIND as SLURM_RUN
from storewise.session.slurm_run import Waiting, host_of, lost_job, refusal, run_name

#: Seconds between two looks at jobs that wait.
LOOK_AT_QUEUE = 10
ENDED = threading.Event()
SHUTDOWN_MESSAGES = ("Will exit after finishing", "Terminating processes on user")


def say(text):
    print(f"storewise: {text}", file=sys.stderr, flush=True)


class Controller(logging.Handler):
    """Ends live trials as soon as Snakemake reports a failed job or a shutdown."""

    def emit(self, record):
        event = getattr(record, "event", None)
        if event in (LogEvent.JOB_ERROR, LogEvent.GROUP_ERROR):
            outputs = " ".join(map(str, getattr(record, "output", None) or []))
            logs = [str(path) for path in getattr(record, "log", None) or []]
            rule_name = getattr(record, "rule_name", "a job")
            for trial in set(re.findall(rf"{R}/(?:trials|live)/([^/\s]+)/", outputs)):
                log = logs[0].split(" (")[0] if logs else ""
                message = str(getattr(record, "rule_msg", "") or "")
                refused, lost = refusal(message), lost_job(message)
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
                else:
                    why = Abort(
                        f"{rule_name} failed without a message of its own: was it "
                        "killed, or out of memory?",
                        True,
                        log,
                    )
                failure = RUN.job_failed(trial, why)
                if failure is not None:
                    say(f"trial {trial} ended: {failure.reason}")
        elif str(record.msg).startswith(SHUTDOWN_MESSAGES):
            RUN.abort_live(Abort("the run was stopped", own=False))
        elif name := run_name(str(record.msg)):
            register(Path(), RUN.id, name, SLURM_RUN)
            threading.Thread(
                target=watch_queue, args=[Waiting(name)], daemon=True
            ).start()


def watch_queue(waiting):
    """Takes jobs that Slurm would never start out of its queue, with a sentence each."""
    while not ENDED.wait(LOOK_AT_QUEUE):
        for job_id, sentence in waiting.never_starting().items():
            trials = [live for live in RUN.live() if live.name in sentence]
            for live in trials:
                abort(live, Abort(sentence, own=True))
            if not trials:  # else it is said when the trial ends
                say(sentence)
            waiting.cancel(job_id)


async def steady_pace(executor):
    """Waiting between two looks at cluster jobs.

    The Slurm plugin looks ever more seldom, every 3 minutes in the end, and is deaf meanwhile:
    each phase, each failure and Ctrl-C would wait for that. So its first pace is kept, and a
    shutdown is heard.
    """
    pace = getattr(
        executor.workflow.executor_settings, "init_seconds_before_status_checks", None
    )
    end = time.monotonic() + (pace or executor.next_seconds_between_status_checks)
    while executor.wait and time.monotonic() < end:
        await asyncio.sleep(0.5)


def on_sigterm(scheduler, *args, graceful=JobScheduler.exit_gracefully):
    """Snakemake's handler of SIGTERM takes a lock that the interrupted thread may hold.

    Slurm sends the signal to each process of a job, and again with each scancel: a job's own
    Snakemake would wait for itself for ever. In a thread of its own the handler only waits its turn
    (not of `threading`, which takes locks too when it starts one).
    """
    _thread.start_new_thread(graceful, (scheduler, *args))


# In each job too.
JobScheduler.exit_gracefully = on_sigterm


def shutting_down():
    scheduler = getattr(workflow, "scheduler", None)
    if scheduler is not None and getattr(scheduler, "_user_kill", None):
        return "the run was stopped"
    return None


def planned_trials():
    """Jobs of the plan by trial."""
    plan = {}
    for job in workflow.dag.needrun_jobs():
        trial = dict(job.wildcards_dict).get("trial")
        if trial is not None:
            plan.setdefault(trial, []).append(job)
    return plan


def check_plan(plan):
    """Refuse, before anything starts, what would only wait without end."""
    for trial_id, jobs in plan.items():
        trial = ALL_TRIALS[trial_id]
        planned = {str(f) for job in jobs for f in job.output}
        missing = [f for f in final_outputs(trial) if f not in planned]
        if missing:
            raise WorkflowError(
                f"the targets ask for a part of trial {trial_id} only; a trial is measured whole "
                f"(missing in the plan: {', '.join(missing)}). Ask for {REPORT} instead."
            )
    if not plan:
        return
    check_host_classes([ALL_TRIALS[name] for name in sorted(plan)])
    # Sessions that are live at the same time must all fit: each would hold what another waits for.
    widest, *others = sorted(
        (ALL_TRIALS[name] for name in plan),
        key=lambda trial: len(nodes(trial)) + trial.workers,
        reverse=True,
    )[: STUDY.live_sessions]
    needed = sum(len(nodes(trial)) + trial.workers for trial in (widest, *others))
    together = [
        job
        for trial in (widest, *others)
        for job in plan[trial.id]
        if job.rule.name in {"load", "phase", "node"}
    ]
    if workflow.local_exec:
        cores = workflow.resource_settings.cores or 1
        threads = max(job.threads for job in together)
        # Snakemake's local executor keeps five places beyond its cores for jobs without threads;
        # one of them may be taken by the next trial, which waits to be opened.
        slots = cores // threads if threads else cores + 4
        advice = f"use --cores {needed * threads or max(1, needed - 4)} or more" + (
            ""
            if threads == 0
            else ", or --profile profiles/local, where they take no core"
        )
    else:
        slots = workflow.nodes
        advice = f"use --jobs {needed} or more"
    if slots < needed:
        parts = f"{len(nodes(widest))} nodes and " if nodes(widest) else ""
        more = (
            f" ({needed} jobs with those of {len(others)} more, by `live_sessions`)"
            if others
            else ""
        )
        raise WorkflowError(
            f"trial {widest.id} has {parts}{widest.workers} workers that run together{more}, but "
            f"only {slots} jobs can run at once here: they would wait for each other for ever; "
            f"{advice}"
        )
    submit = {"sbatch": "slurm", "qsub": "pbs"}
    here = [program for program in submit if shutil.which(program)]
    if workflow.local_exec and here and any(map(nodes, TRIALS.values())):
        say(
            f"all nodes and workers will run on this host, although it has {here[0]}; use "
            f"--profile profiles/{submit[here[0]]} to give them hosts of their own"
        )


def check_host_classes(trials):
    """Refuse classes of hosts that the profile does not know."""
    asked_for = "node_class" in STUDY.factors
    for trial in trials:
        if nodes(trial) and (asked_for or HOST_CLASSES):
            try:
                class_named(trial.node_class, HOST_CLASSES)
            except StorewiseError as error:
                raise WorkflowError(
                    f"trial {trial.id}: {error}. The factor node_class needs a profile that maps "
                    "classes to partitions or queues, such as profiles/aws (docs/clusters.md)"
                )


def check_cost(plan):
    """Refuse what would cost more than the study's `max_cost`, before anything starts."""
    if STUDY.max_cost is None or not plan:
        return
    from storewise.estimate import amount_text, estimate, money_text, refuse_above

    wanted = [trial for trial in ALL_TRIALS.values() if trial.id in plan]
    try:
        found = estimate(STUDY, wanted, HOST_CLASSES, Path(R))
        refuse_above(found, STUDY.max_cost)
    except StorewiseError as error:
        raise WorkflowError(str(error))
    trials = "1 trial" if len(wanted) == 1 else f"{len(wanted)} trials"
    say(
        f"measuring {trials} costs about {amount_text(found.money, money_text)} "
        f"{found.currency}; the study allows {money_text(STUDY.max_cost)}"
    )


def check_writable():
    """One clear error for a results directory that cannot be written, before anything starts."""
    probe = Path(R) / f".writable.{os.getpid()}"
    try:
        probe.parent.mkdir(parents=True, exist_ok=True)
        probe.write_bytes(b"x" * 65536)
        probe.unlink()
    except OSError as error:
        if os.access(R, os.W_OK):
            probe.unlink(missing_ok=True)
        raise WorkflowError(
            f"results cannot be written to {os.path.abspath(R)}: {error.strerror}; "
            "free space, change its rights, or run from another directory (--directory)"
        )


def check_publishable(plan):
    """One clear error for a place that cannot be published to, before hours of measuring."""
    if STUDY.publish is None or not plan:
        return
    from storewise.objects.upload import check_writable as check_place
    from storewise.objects.uri import parse
    from storewise.publication import tags_of

    place = parse(STUDY.publish.to).folder()
    try:
        check_place(place, tags_of(STUDY.publish, STUDY.name, time.time()))
    except StorewiseError as error:
        raise WorkflowError(
            f"the results cannot be published when they are there: {error}"
        )


def cancel_jobs(run):
    """Cancel what a run has submitted and Snakemake has not cancelled itself."""
    if cancel_all(Path(), run):
        say(f"cancelling the cluster jobs of run {run} that may be left")


def finish(reason):
    ENDED.set()
    if reason is not None:
        cancel_jobs(RUN.id)
    elif RUN.id in runs(Path()):
        remove_registry(Path(), RUN.id)  # all its jobs have ended
    for name in RUN.end(reason):
        say(
            f"could not end {name} from here; it ends by itself when its lease runs out"
        )
    try:
        record.end(Path(R), RUN.id, reason)
    except OSError as error:
        say(f"{R}/{record.RECORD} will not say that this run has ended: {error}")


if workflow.is_main_process:
    settings = workflow.resource_settings
    if settings.cores is None and settings.nodes is None:
        # Plain `snakemake`: no number of cores, and no jobs of a cluster. profiles/default cannot
        # say it, because it wins over a user's own profile.
        settings.cores = available_cpu_count()
        workflow.register_resource("_cores", settings.cores)
    for dead in sweep_dead(Path(R), say):
        if dead in runs(Path()):
            cancel_jobs(dead)
    RUN = Run(Path(R))
    RUN.tell_jobs(STUDY.live_sessions, library=workflow.basedir)
    logger.addHandler(Controller())
    RemoteExecutor.sleep = steady_pace


onstart:
    check_writable()
    plan = planned_trials()
    check_publishable(plan)
    check_plan(plan)
    check_cost(plan)
    if plan:
        RUN.lease_seconds = lease_seconds(on_cluster=not workflow.local_exec)
        locks = getattr(workflow.persistence, "_lockfile", {}).values()
        RUN.start(locks=map(str, locks), watch=shutting_down)
        engines = {name: trial.engine for name, trial in TRIALS.items()}
        wanted = tuple(sorted(plan, key=list(ALL_TRIALS).index))
        record.begin(Path(R), RUN.id, engines, wanted, STUDY.live_sessions)


onsuccess:
    finish(None)


onerror:
    finish("the run ended with an error")
