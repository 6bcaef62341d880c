# The run's side of its sessions, in the main Snakemake process only: lease, abort on the first
# error or on a shutdown, and a clean end. facts behind each part: docs/sessions.md.
#
# This file touches internals of Snakemake 9.27, which pyproject.toml pins: docs/architecture.md lists
# them, with the tests that hold each to its promise.
import _thread
import time
from contextlib import ExitStack, contextmanager

from snakemake.exceptions import LockException
from snakemake.logging import logger
from snakemake.persistence import PersistenceBase
from snakemake.scheduling.job_scheduler import JobScheduler
from snakemake.utils import available_cpu_count

from storewise.layout import RECORD
from storewise.run.killed import clean_up_killed_runs
from storewise.schedulers.jobs import cancel_jobs
from storewise.schedulers.queue import present as in_queue
from storewise.session.coordination import run_record
from storewise.session.coordination.run import (
    LIVE_VARIABLE,
    RUN_VARIABLE,
    Run,
    lease_seconds,
)
from storewise.session.coordination.run_record import lock_holder, measuring_run
from storewise.study.kept import keep_study

#: Seconds from Snakemake's lock to its lease, at most.
JUST_STARTED = 5


@contextmanager
def say_who_locks(persistence, lock=PersistenceBase.lock):
    """Snakemake's lock, whose refusal names the run that holds it, not `--unlock`."""
    with ExitStack() as stack:
        try:
            stack.enter_context(lock(persistence))
        except LockException:
            clean_up_killed_runs(Path(R), say)
            # Snakemake has looked for files before: what was removed now would count as there, and
            # as write-protected. It does this itself in a moment.
            workflow.iocache.deactivate()
            if not persistence.locked:
                stack.enter_context(lock(persistence))
                yield
                return
            until = time.monotonic() + JUST_STARTED
            while not (other := measuring_run(Path(R), RUN.id)):
                if time.monotonic() > until:
                    raise WorkflowError(lock_holder(Path()))
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


def finish(reason):
    ENDED.set()
    for failure in RUN.unrecorded():
        tell(failure)
    if lost := RUN.lost():
        say(lost)
    if reason is not None:
        # Those that the executor did not know yet when it cancelled its own.
        for sentence in cancel_jobs(JOBS.ids()):
            say(sentence)
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
    RUN = Run(Path(R), ask=in_queue, jobs=JOBS.ids)
    RUN.tell_jobs(STUDY.live_sessions)
    logger.addHandler(Controller())
    PersistenceBase.lock = say_who_locks
else:
    logger.addHandler(Witness())


onstart:
    check_private_way()
    check_writable()
    plan = planned_trials()
    if plan:
        try:
            clean_up_killed_runs(Path(R), say)
        except StorewiseError as error:
            raise WorkflowError(str(error))
    # Snakemake's lock goes with any other run of this directory, and with --nolock.
    if plan and (other := measuring_run(Path(R), RUN.id)):
        raise WorkflowError(other)
    check_publishable(plan)
    check_plan(plan)
    check_cost(plan)
    if plan:
        RUN.lease_seconds = lease_seconds(on_cluster=not workflow.local_exec)
        locks = getattr(workflow.persistence, "_lockfile", {}).values()
        RUN.start(locks=map(str, locks), watch=shutting_down)
        if not workflow.local_exec:
            in_background(cancel_overdue_jobs)
        # Again, now that another one that starts at this moment sees our lease.
        if other := measuring_run(Path(R), RUN.id):
            RUN.end()
            raise WorkflowError(other)
        # Already now: a run that is stopped later must still get a report.
        keep_study(Path(R), STUDY.model_dump(mode="json"), LEFT_OUT, REFERENCES)
        engines = {name: trial.engine for name, trial in TRIALS.items()}
        wanted = tuple(sorted(plan, key=list(ALL_TRIALS).index))
        run_record.begin(Path(R), RUN.id, engines, wanted, STUDY.live_sessions)


onsuccess:
    finish(None)


onerror:
    finish("the run ended with an error")
