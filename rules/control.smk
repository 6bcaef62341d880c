# The run's side of its sessions, in the main Snakemake process only: lease, abort on the first
# error or on a shutdown, and a clean end. facts behind each part: docs/sessions.md.
#
# This file touches internals of Snakemake 9.27 (logging events, scheduler flags, lock files);
# pyproject.toml pins that series and tests/faults/workflow holds each part to its promise.
import _thread
import asyncio
import shutil
import time
from contextlib import ExitStack, contextmanager

from snakemake.exceptions import LockException
from snakemake.logging import logger
from snakemake.persistence import PersistenceBase
from snakemake.scheduling.job_scheduler import JobScheduler
from snakemake.utils import available_cpu_count
from snakemake_interface_executor_plugins.executors.remote import RemoteExecutor

from storewise.layout import RECORD
from storewise.schedulers.job_registry import cancel_all, remove_registry, runs
from storewise.session.coordination import run_record
from storewise.session.coordination.private import replaceable
from storewise.session.coordination.run import (
    LIVE_VARIABLE,
    RUN_VARIABLE,
    Run,
    lease_seconds,
    sweep_dead,
)
from storewise.session.coordination.run_record import measured_by

# Whatever the user's own: nothing of a run is every user's to write. In each job too.
os.umask(os.umask(0o077) | 0o002)
#: Seconds from Snakemake's lock to its lease, at most.
JUST_STARTED = 5


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


@contextmanager
def say_who_locks(persistence, lock=PersistenceBase.lock):
    """Snakemake's lock, whose refusal names the run that holds it, not `--unlock`."""
    with ExitStack() as stack:
        try:
            stack.enter_context(lock(persistence))
        except LockException:
            until = time.monotonic() + JUST_STARTED
            while not (other := measured_by(Path(R), RUN.id)):
                if time.monotonic() > until:
                    raise
                time.sleep(0.5)
            raise WorkflowError(other)
        yield


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
    from storewise.estimate.estimate import (
        amount_text,
        estimate,
        money_text,
        refuse_above,
    )

    wanted = [trial for trial in ALL_TRIALS.values() if trial.id in plan]
    try:
        cost = estimate(STUDY, wanted, HOST_CLASSES, Path(R))
        refuse_above(cost, STUDY.max_cost)
    except StorewiseError as error:
        raise WorkflowError(str(error))
    trials = "1 trial" if len(wanted) == 1 else f"{len(wanted)} trials"
    say(
        f"measuring {trials} costs about {amount_text(cost.money, money_text)} "
        f"{cost.currency}; the study allows {money_text(STUDY.max_cost)}"
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


def check_private_way(plan):
    """Refuse or tell where other users could put files of their own in the place of a run's."""
    everybody, groups = replaceable((Path(R), Path()))
    why = (
        "may put files of their own in the place of those that direct a run, and so kill its "
        "jobs and be given its servers' passwords"
    )
    if everybody and any(nodes(ALL_TRIALS[name]) for name in plan):
        raise WorkflowError(
            f"all users of this host {why}, for every user may write to {', '.join(everybody)}; "
            f"`chmod o-w` (or +t) there, or run in another directory (--directory)"
        )
    if everybody or groups:
        say(f"warning: those who may write to {', '.join(everybody + groups)} {why}")


def check_publishable(plan):
    """One clear error for a place that cannot be published to, before hours of measuring."""
    if STUDY.publish is None or not plan:
        return
    from storewise.s3.upload import check_writable as check_place
    from storewise.s3.uri import parse
    from storewise.study.publication import tags_of

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
    if lost := RUN.lost():
        say(lost)
    if reason is not None:
        cancel_jobs(RUN.id)
    elif RUN.id in runs(Path()):
        remove_registry(Path(), RUN.id)  # all its jobs have ended
    for name in RUN.end(reason):
        say(
            f"could not end {name} from here; it ends by itself when its lease runs out"
        )
    try:
        run_record.end(Path(R), RUN.id, reason)
    except OSError as error:
        say(f"{R}/{RECORD} will not say that this run has ended: {error}")


if workflow.is_main_process:
    settings = workflow.resource_settings
    if settings.cores is None and settings.nodes is None:
        # Plain `snakemake`: no number of cores, and no jobs of a cluster. profiles/default cannot
        # say it, because it wins over a user's own profile.
        settings.cores = available_cpu_count()
        workflow.register_resource("_cores", settings.cores)
    try:
        swept = sweep_dead(Path(R), say)
    except StorewiseError as error:
        raise WorkflowError(str(error))
    for dead in swept:
        if dead in runs(Path()):
            cancel_jobs(dead)
    RUN = Run(Path(R))
    RUN.tell_jobs(STUDY.live_sessions)
    logger.addHandler(Controller())
    RemoteExecutor.sleep = steady_pace
    PersistenceBase.lock = say_who_locks
else:
    logger.addHandler(Witness())


onstart:
    check_writable()
    plan = planned_trials()
    # Snakemake's lock goes with any other run of this directory, and with --nolock.
    if plan and (other := measured_by(Path(R), RUN.id)):
        raise WorkflowError(other)
    check_publishable(plan)
    check_plan(plan)
    check_cost(plan)
    if plan:
        check_private_way(plan)
        RUN.lease_seconds = lease_seconds(on_cluster=not workflow.local_exec)
        locks = getattr(workflow.persistence, "_lockfile", {}).values()
        RUN.start(locks=map(str, locks), watch=shutting_down)
        # Again, now that another one that starts at this moment sees our lease.
        if other := measured_by(Path(R), RUN.id):
            RUN.end()
            raise WorkflowError(other)
        engines = {name: trial.engine for name, trial in TRIALS.items()}
        wanted = tuple(sorted(plan, key=list(ALL_TRIALS).index))
        run_record.begin(Path(R), RUN.id, engines, wanted, STUDY.live_sessions)


onsuccess:
    finish(None)


onerror:
    finish("the run ended with an error")
