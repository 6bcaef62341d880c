# Opening a trial. Trials go one after another (`live_sessions` at a time): a benchmark wants the
# machine for itself. The order is: trials that are complete, then those still to be measured, so
# that a new trial is never waited for by one that is complete and adding an engine, a level or a
# repeat plans only what is new.


def is_complete(trial):
    return all(os.path.exists(path) for path in final_outputs(trial))


LANE = sorted(TRIALS.values(), key=lambda trial: not is_complete(trial))
LANE_PLACE = {trial.id: place for place, trial in enumerate(LANE)}


def before_in_lane(wildcards):
    place = LANE_PLACE.get(wildcards.trial, 0) - STUDY.live_sessions
    return (
        [ancient(f"{R}/trials/{LANE[place].id}/verify.parquet")] if place >= 0 else []
    )


localrules:
    open_session,


rule open_session:
    input:
        before_in_lane,
        shards=lambda wildcards: f"{R}/inputs/shards/{trial_of(wildcards).shards}.parquet",
    output:
        session=temp(f"{R}/live/{{trial}}/session.json"),
    log:
        f"{R}/logs/{{trial}}/open.log",
    params:
        results=R,
    message:
        "Trial {wildcards.trial}"
    script:
        "../scripts/open_session.py"
