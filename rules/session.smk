# Opening a trial. Trials are measured one after another (`live_sessions` at a time): a benchmark
# wants the machine for itself. One job at a time may open (the resource `opening`), and it waits
# until it is the trial's turn; the order is the study's: round by round, each in a seeded random
# order. Edges between trials would not do: see docs/decisions/runs.md.
PLACE = {trial: place for place, trial in enumerate(ALL_TRIALS)}


rule open_session:
    input:
        shards=per_trial(shards_of),
    output:
        session=temp(f"{R}/live/{{trial}}/session.json"),
    log:
        f"{R}/logs/{{trial}}/open.log",
    # Below that of any job of an open trial.
    priority: lambda wildcards: -PLACE[wildcards.trial]
    localrule: True
    conda:
        "../envs/storewise.yaml"
    # It mostly waits, and must not take the place of a worker it waits for.
    threads: 0
    resources:
        opening=1,
    params:
        results=lambda wildcards: RESULTS,
        servers=per_trial(lambda trial: bool(nodes(trial))),
    message:
        "Trial {wildcards.trial}"
    script:
        "../scripts/open_session.py"


# Servers are ordinary jobs: the executor runs, cancels and accounts for them. A node publishes where
# it listens, and ends when its session is closed or aborted, or its run's lease has expired.


rule node:
    input:
        session=f"{R}/live/{{trial}}/session.json",
    output:
        result=f"{R}/trials/{{trial}}/node.{{node}}.parquet",
    log:
        f"{R}/logs/{{trial}}/{{node}}.log",
    priority: 150
    conda:
        per_trial(engine_environment)
    threads: lambda wildcards: node_of(wildcards).threads
    resources:
        **named("node", "{node}"),
        # Where the profile knows classes of hosts, each has its partition or queue.
        **(
            {"slurm_partition": queue_of_node, "pbs_queue": queue_of_node}
            if HOST_CLASSES
            else {}
        ),
        **(
            {
                "pbs_select": lambda wildcards: NODE_SELECTS.get(
                    trial_of(wildcards).node_class, ""
                )
            }
            if NODE_SELECTS
            else {}
        ),
        # The node's own, and what Storewise's process beside the server takes.
        mem_mb=lambda wildcards: node_of(wildcards).memory_mb + 256,
        runtime=720,
        disk_mb=10000,
        node_class=lambda wildcards: trial_of(wildcards).node_class,
        # What only a profile can know: node-local directory, network, range of ports.
        scratch="",
        interface="lo",
        ports="",
    params:
        trial=TRIAL,
        results=lambda wildcards: RESULTS,
    message:
        "Trial {wildcards.trial}: node {wildcards.node}"
    script:
        "../scripts/node.py"


# `form` and `close` are jobs of the cluster too (a login node may not reach the database network),
# unless the profile says `set-resources: form: {run_local: 1}`.
rule form:
    input:
        session=f"{R}/live/{{trial}}/session.json",
    output:
        cluster=temp(f"{R}/live/{{trial}}/cluster.json"),
    log:
        f"{R}/logs/{{trial}}/form.log",
    priority: 140
    localrule: run_local("form")
    conda:
        per_trial(engine_environment)
    threads: 1
    resources:
        **named("form", "form"),
        mem_mb=1000,
        runtime=720,
        node_class="work",
    params:
        trial=TRIAL,
        results=lambda wildcards: RESULTS,
    message:
        "Trial {wildcards.trial}: forming its cluster"
    script:
        "../scripts/form.py"


rule close:
    input:
        f"{R}/trials/{{trial}}/verify.parquet",
        session=f"{R}/live/{{trial}}/session.json",
        cluster=f"{R}/live/{{trial}}/cluster.json",
    output:
        result=f"{R}/trials/{{trial}}/session.parquet",
    log:
        f"{R}/logs/{{trial}}/close.log",
    priority: 200
    localrule: run_local("close")
    conda:
        "../envs/storewise.yaml"
    threads: 1
    resources:
        **named("close", "close"),
        mem_mb=1000,
        runtime=30,
        node_class="work",
    params:
        trial=TRIAL,
        results=lambda wildcards: RESULTS,
    message:
        "Trial {wildcards.trial}: closing its cluster"
    script:
        "../scripts/close.py"
