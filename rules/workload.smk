# The phases of a trial: its load, what follows on the same data, and the verification.
# All workers of a phase start together at a barrier, so they must all run at once; profiles/local
# gives them no core of their own.
# `embedded: one_host` puts a trial's phases into one cluster job, where a store on node-local
# disk would otherwise not be seen by the next phase.
PHASES_GROUP = "phases" if STUDY.embedded == "one_host" else None


rule load:
    input:
        cluster=cluster_of,
        session=f"{R}/live/{{trial}}/session.json",
        shards=shards_of,
    output:
        result=f"{R}/trials/{{trial}}/{LOAD}.{{worker}}.parquet",
        hdr=f"{R}/trials/{{trial}}/{LOAD}.{{worker}}.hlog",
        written=f"{R}/trials/{{trial}}/written.{{worker}}.parquet",
        store=store_output(f"{R}/trials/{{trial}}/store.{{worker}}"),
    log:
        f"{R}/logs/{{trial}}/{LOAD}.{{worker}}.log",
    priority: 100
    group:
        PHASES_GROUP
    conda:
        "../envs/storewise.yaml"
    # Threads of one client process share one interpreter.
    threads: lambda wildcards: trial_of(wildcards).processes
    resources:
        mem_mb=lambda wildcards: 1000 * (1 + trial_of(wildcards).processes),
        runtime=720,
        node_class="work",
    params:
        phase=LOAD,
        trial=trial_param,
        results=lambda wildcards: R,
    message:
        "Trial {wildcards.trial}: loading, worker {wildcards.worker}"
    script:
        "../scripts/worker.py"


use rule load as phase with:
    input:
        before=before_phase,
        session=f"{R}/live/{{trial}}/session.json",
        cluster=cluster_of,
        shards=shards_of,
        written=lambda wildcards: written(trial_of(wildcards)),
        stores=lambda wildcards: stores(trial_of(wildcards)),
    output:
        result=f"{R}/trials/{{trial}}/{{phase}}.{{worker}}.parquet",
        hdr=f"{R}/trials/{{trial}}/{{phase}}.{{worker}}.hlog",
    log:
        f"{R}/logs/{{trial}}/{{phase}}.{{worker}}.log",
    wildcard_constraints:
        phase="|".join(AFTER_LOAD) or "none",
    params:
        phase=lambda wildcards: wildcards.phase,
        trial=trial_param,
        results=lambda wildcards: R,
    message:
        "Trial {wildcards.trial}: {wildcards.phase}, worker {wildcards.worker}"


rule verify:
    input:
        before=lambda wildcards: [
            part
            for phase in trial_of(wildcards).phases
            for part in phase_results(trial_of(wildcards), phase.name)
        ],
        cluster=cluster_of,
        session=f"{R}/live/{{trial}}/session.json",
        shards=shards_of,
        written=lambda wildcards: written(trial_of(wildcards)),
        stores=lambda wildcards: stores(trial_of(wildcards)),
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
        mem_mb=2000,
        runtime=240,
        node_class="work",
    params:
        trial=trial_param,
        results=lambda wildcards: R,
    message:
        "Trial {wildcards.trial}: verifying what was stored"
    script:
        "../scripts/verify.py"
