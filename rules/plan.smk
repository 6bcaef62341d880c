# Which trials a run plans, and what is refused before anything of a plan starts.
#
# A trial is planned where a file of its results is missing or older than what it was made of
# (Snakemake's own rule), unless it was given up (`storewise/run/retries.py`) or its engine is left
# out.
from snakemake.logging import logger

from storewise.run.job_events import say
from storewise.run.retries import command_start, given_up, is_given_up, nothing_measured
from storewise.study.checks import too_few_repeats

SINCE = command_start()
LEFT_OUT = {}
# Only the process that plans asks: what it planned is found by each job on its own host.
if STUDY.if_missing == "leave_out" and workflow.is_main_process:
    from storewise.run.doctor import missing_engines

    LEFT_OUT = missing_engines(STUDY.engines)


def planned(trial):
    """Whether a trial is to be measured, or has been."""
    if is_given_up(STUDY, Path(RESULTS), trial.id, SINCE):
        return False
    measured = os.path.exists(f"{RESULTS}/trials/{trial.id}/verify.parquet")
    return trial.engine not in LEFT_OUT or measured


TRIALS = {name: trial for name, trial in ALL_TRIALS.items() if planned(trial)}
for name, reason in LEFT_OUT.items():
    logger.warning(f"{name} is left out: {reason}")
if LEFT_OUT and not TRIALS and not given_up(STUDY, Path(RESULTS), SINCE):
    raise WorkflowError(
        f"study {STUDY.name}: no engine of it can run on this host, and there are no results"
    )


def planned_trials():
    """The jobs of the plan by trial."""
    plan = {}
    for job in workflow.dag.needrun_jobs():
        trial = dict(job.wildcards_dict).get("trial")
        if trial in ALL_TRIALS:
            plan.setdefault(trial, []).append(job)
    return plan


def check_plan(plan):
    """Refuse, before anything starts, what would fail or wait without end."""
    from storewise.run import preflight

    results, trials = Path(RESULTS), [t for t in ALL_TRIALS.values() if t.id in plan]
    preflight.check_writable(results)
    preflight.check_private_way(results)
    if any(job.rule.name.endswith("analyse") for job in workflow.dag.needrun_jobs()):
        if not trials and (sentence := nothing_measured(STUDY, results, SINCE)):
            raise WorkflowError(sentence)
    told = []
    for trial in trials:
        made = [str(file) for job in plan[trial.id] for file in job.output]
        wanted = [RESULTS + path.removeprefix(R) for path in final_outputs(trial)]
        preflight.check_whole(trial.id, wanted, made)
    if trials:
        preflight.check_space(STUDY, results)
        preflight.check_publishable(STUDY)
        preflight.check_host_classes(trials, STUDY, HOST_CLASSES)
        at_once = ("load", "phase", "node")
        threads = {
            trial: max(j.threads for j in jobs if j.rule.name.endswith(at_once))
            for trial, jobs in plan.items()
        }
        if workflow.local_exec:
            cores = workflow.resource_settings.cores
            preflight.check_cores(trials, STUDY, cores, threads)
        else:
            preflight.check_jobs(trials, STUDY, workflow.nodes)
            preflight.check_groups(STUDY, workflow.group_settings.overwrite_groups)
        told += [
            too_few_repeats(STUDY),
            preflight.unused_scheduler(trials) if workflow.local_exec else None,
            preflight.check_cost(STUDY, trials, HOST_CLASSES, results),
        ]
    for sentence in filter(None, told):
        say(sentence)
