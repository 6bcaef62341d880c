# Opening a trial. Trials are measured one after another (`live_sessions` at a time): a benchmark
# wants the machine for itself. One job at a time may open, and it waits until it is the trial's
# turn; the order is the study's seeded random one. Edges between trials would not do: see
# docs/decisions.md.
workflow.register_resource("opening", 1)

PLACE = {trial: place for place, trial in enumerate(ALL_TRIALS)}


localrules:
    open_session,


rule open_session:
    input:
        shards=lambda wildcards: f"{R}/inputs/shards/{trial_of(wildcards).shards}.parquet",
    output:
        session=temp(f"{R}/live/{{trial}}/session.json"),
    log:
        f"{R}/logs/{{trial}}/open.log",
    # Below that of any job of an open trial.
    priority: lambda wildcards: -PLACE[wildcards.trial]
    conda:
        "../envs/storewise.yaml"
    # It mostly waits, and must not take the place of a worker it waits for.
    threads: 0
    resources:
        opening=1,
    params:
        results=lambda wildcards: R,
    message:
        "Trial {wildcards.trial}"
    script:
        "../scripts/open_session.py"
