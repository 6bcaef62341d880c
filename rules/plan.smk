# Which trials a run plans, and plans again, and what is refused before anything of a plan starts.
#
# A trial is planned where a file of its results is missing or older than what it was made of
# (Snakemake's own rule), unless it was given up (`storewise/run/retries.py` counts its attempts) or
# its engine is left out. Where only the analysis is asked for, no trial is.
import shutil
import time

from snakemake.logging import logger

from storewise.layout import FAILED
from storewise.run.doctor import missing_engines
from storewise.session.coordination.private import (
    restrict_snakemake_directory,
    unsafe_parents,
)
from storewise.study.checks import too_few_repeats
from storewise.study.host_classes import class_named


def failed_for_good(trial_id):
    """Whether `storewise run` has given a trial up after its retries."""
    return os.path.exists(f"{R}/trials/{trial_id}/{FAILED}")


def engines_left_out():
    """Engines that this host does not have, with the reason, where the study leaves those out.

    Only the process that plans asks: what it planned is found by each job on its own host.
    """
    if STUDY.if_missing != "leave_out" or not workflow.is_main_process:
        return {}
    return missing_engines(STUDY.engines)


LEFT_OUT = engines_left_out()


def planned(trial):
    """Whether a trial is to be measured, or has been."""
    if failed_for_good(trial.id):
        return False
    return trial.engine not in LEFT_OUT or os.path.exists(
        f"{R}/trials/{trial.id}/verify.parquet"
    )


TRIALS = {name: trial for name, trial in ALL_TRIALS.items() if planned(trial)}
for name, reason in LEFT_OUT.items():
    logger.warning(f"{name} is left out: {reason}")
if LEFT_OUT and not TRIALS and not any(map(failed_for_good, ALL_TRIALS)):
    raise WorkflowError(
        f"study {STUDY.name}: no engine of it can run on this host, and there are no results"
    )


def only_analysis():
    """Whether just analysis, report or publish was asked for: stored results are source files then.

    In a job's own process the question does not arise (its rule is the only one allowed).
    """
    if not workflow.is_main_process:
        return True
    targets = set(workflow.dag_settings.targets)
    return bool(targets) and targets <= {"analysis", "report", "publish"}


def make_anew(*files):
    """Have files made again, however new they are, as `--forcerun` does.

    For functions of inputs. Nothing is changed while a plan is made: who only looks at it may look
    at the results of a run that is going on.
    """
    if workflow.is_main_process:
        workflow.dag.forcefiles.update(map(str, files))


def measured(wildcards):
    if only_analysis():
        make_anew(REPORT)  # the user asked for it: run it even if it is up to date
        return []
    return [part for trial in TRIALS.values() for part in last_outputs(trial)]


def to_publish(wildcards):
    """What comes before a publication: the report, made anew only where that was asked for too."""
    if not workflow.is_main_process:
        return []
    targets = set(workflow.dag_settings.targets)
    if "publish" not in targets:
        return [REPORT]
    if STUDY.publish is None:
        raise WorkflowError(
            f"study {STUDY.name} does not say where its results go: give it the key "
            "`publish: s3://BUCKET/PREFIX`, or use `storewise publish STUDY s3://BUCKET/PREFIX`"
        )
    make_anew(f"{R}/published.json")
    made = (
        not only_analysis()
        or targets & {"analysis", "report"}
        or not os.path.exists(REPORT)
    )
    return [REPORT] if made else []


def to_open(wildcards):
    """What comes before a trial. What a killed run has left of it is made anew: its session, and an
    index (the results of workers that share a job) that names a result which is not there.
    """
    trial = ALL_TRIALS[wildcards.trial]
    session = f"{R}/live/{trial.id}/session.json"
    if os.path.exists(session) and not all(map(os.path.exists, final_outputs(trial))):
        make_anew(session)
    for index in [] if ONE_EACH else lost_indexes(share(trial).directory):
        logger.warning(f"{index} names a result that is not there: it is made anew")
        make_anew(index)
    return shards_of(trial)


def planned_trials():
    """Jobs of the plan by trial."""
    plan = {}
    for job in workflow.dag.needrun_jobs():
        trial = dict(job.wildcards_dict).get("trial")
        if trial is not None:
            plan.setdefault(trial, []).append(job)
    return plan


def jobs_at_once(trial):
    """The jobs of a trial that run together: its nodes, and those of all workers of a phase."""
    return len(nodes(trial)) + len(share(trial).firsts)


def check_plan(plan):
    """Refuse, before anything starts, what would only wait without end."""
    for trial_id, jobs in plan.items():
        trial = ALL_TRIALS[trial_id]
        planned = {str(f) for job in jobs for f in job.output}
        missing = [f for f in final_outputs(trial) if f not in planned]
        if missing:
            more = f" and {len(missing) - 3} more" if len(missing) > 3 else ""
            raise WorkflowError(
                f"the targets ask for a part of trial {trial_id} only; a trial is measured whole "
                f"(not asked for: {', '.join(missing[:3])}{more}). Run snakemake without a target: "
                "it measures every trial that is not complete."
            )
    if not plan:
        return
    if few := too_few_repeats(STUDY):
        say(few)
    check_host_classes([ALL_TRIALS[name] for name in sorted(plan)])
    # Sessions that are live at the same time must all fit: each would hold what another waits for.
    widest, *others = sorted(
        (ALL_TRIALS[name] for name in plan), key=jobs_at_once, reverse=True
    )[: STUDY.live_sessions]
    needed = sum(map(jobs_at_once, (widest, *others)))
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
        jobs = len(share(widest).firsts)
        shared = "" if jobs == widest.workers else f" in {jobs} jobs"
        more = (
            f" ({needed} jobs with those of {len(others)} more, by `live_sessions`)"
            if others
            else ""
        )
        raise WorkflowError(
            f"trial {widest.id} has {parts}{widest.workers} workers{shared} that run together"
            f"{more}, but "
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
    by_factor = "node_class" in STUDY.factors
    for trial in trials:
        if nodes(trial) and (by_factor or HOST_CLASSES):
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
    from storewise.estimate.estimate import estimate, money_text, refuse_above

    wanted = [trial for trial in ALL_TRIALS.values() if trial.id in plan]
    try:
        cost = estimate(STUDY, wanted, HOST_CLASSES, Path(R))
        refuse_above(cost, STUDY.max_cost)
    except StorewiseError as error:
        raise WorkflowError(str(error))
    trials = "1 trial" if len(wanted) == 1 else f"{len(wanted)} trials"
    say(
        f"measuring {trials} costs about {cost.money.text(money_text)} "
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


def check_private_way():
    """Refuse or tell where other users could put files of their own in the place of a run's."""
    work = Path()
    try:
        restrict_snakemake_directory(work)
    except StorewiseError as error:
        raise WorkflowError(str(error))
    places = (Path(R), *Path(R).glob("*/"), *work.glob(".snakemake/*/"))
    everybody, groups = unsafe_parents((work, *places))
    why = (
        "may put files of their own in the place of those that direct a run: the scripts of its "
        "jobs, what kills them, its servers' passwords"
    )
    if everybody:
        raise WorkflowError(
            f"all users of this host {why}: every user may write to {', '.join(everybody)}; "
            f"`chmod o-w` (or +t) there, or run in another directory (--directory)"
        )
    if groups:
        say(f"warning: those who may write to {', '.join(groups)} {why}")


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
