# The phases of a trial: its load, what follows on the same data, and the verification.
# All workers of a phase start together at a barrier, so they must all run at once; profiles/local
# gives them no core of their own.
# `embedded: one_host` puts a trial's phases into one cluster job, where a store on node-local
# disk would otherwise not be seen by the next phase.
PHASES_GROUP = "phases" if STUDY.embedded == "one_host" else None

# What each worker's job asks for.
WORKER = {
    # Of each host.
    "mem_mb": per_trial(lambda trial: 1000 * (1 + trial.processes)),
    "runtime": 720,
    "node_class": "work",
}
if not ONE_EACH:
    # Slurm's executor wants `mpi` where a job starts processes of its own on its hosts.
    WORKER |= {
        "nodes": hosts_of_job,
        "tasks": hosts_of_job,
        "mpi": lambda wildcards: hosts_of_job(wildcards) and "srun",
    }


rule load:
    input:
        cluster=per_trial(cluster),
        session=f"{R}/live/{{trial}}/session.json",
        shards=per_trial(shards_of),
    output:
        **phase_outputs(LOAD),
        **({"written": f"{T}/written.{{worker}}.parquet"} if ONE_EACH else {}),
        store=store_output(f"{T}/store.{{worker}}"),
    log:
        f"{R}/logs/{{trial}}/{LOAD}.{{worker}}{'' if ONE_EACH else '.workers'}.log",
    priority: 100
    group:
        PHASES_GROUP
    conda:
        "../envs/storewise.yaml"
    # Threads of one client process share one interpreter.
    threads: per_trial(lambda trial: trial.processes)
    resources:
        **WORKER,
        **named("load", PHASES_GROUP or f"{LOAD}.{{worker}}"),
    params:
        phase=LOAD,
        loads=True,
        per_job=STUDY.workers_per_job,
        trial=TRIAL,
    message:
        "Trial {wildcards.trial}: loading, worker {wildcards.worker}"
    script:
        "../scripts/worker.py"


use rule load as phase with:
    input:
        before=before_phase,
        session=f"{R}/live/{{trial}}/session.json",
        cluster=per_trial(cluster),
        shards=per_trial(shards_of),
    output:
        **phase_outputs("{phase}"),
    log:
        f"{R}/logs/{{trial}}/{{phase}}.{{worker}}{'' if ONE_EACH else '.workers'}.log",
    wildcard_constraints:
        phase="|".join(AFTER_LOAD) or "none",
    resources:
        **WORKER,
        **named("phase", PHASES_GROUP or "{phase}.{worker}"),
    params:
        phase="{phase}",
        loads=False,
    message:
        "Trial {wildcards.trial}: {wildcards.phase}, worker {wildcards.worker}"


# One file for all workers of a phase. If each worker of the next phase named the files of all those
# before, a plan would have N x N edges a phase: 512 workers took 540 s and 10 GB.
rule gather:
    input:
        results=lambda wildcards: phase_results(trial_of(wildcards), wildcards.phase),
    output:
        temp(f"{R}/live/{{trial}}/{{phase}}.gathered"),
    log:
        f"{R}/logs/{{trial}}/{{phase}}.gathered.log",
    priority: 100
    group:
        PHASES_GROUP
    localrule: PHASES_GROUP is None
    conda:
        "../envs/storewise.yaml"
    threads: 0
    resources:
        **named("gather", PHASES_GROUP or "gather"),
    message:
        "Trial {wildcards.trial}: {wildcards.phase} done"
    shell:
        "touch {output:q} 2> {log:q}"


rule verify:
    input:
        before=per_trial(lambda trial: gathered(trial, trial.phases[-1].name)),
        cluster=per_trial(cluster),
        session=f"{R}/live/{{trial}}/session.json",
        shards=per_trial(shards_of),
        stores=per_trial(stores),
    output:
        result=f"{R}/trials/{{trial}}/verify.parquet",
    log:
        f"{R}/logs/{{trial}}/verify.log",
    priority: 200
    group:
        PHASES_GROUP
    conda:
        "../envs/storewise.yaml"
    threads: 1
    resources:
        **named("verify", PHASES_GROUP or "verify"),
        mem_mb=2000,
        runtime=240,
        node_class="work",
    params:
        trial=TRIAL,
        per_job=STUDY.workers_per_job,
    message:
        "Trial {wildcards.trial}: verifying what was stored"
    script:
        "../scripts/verify.py"
