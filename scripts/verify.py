"""Compare what a trial stored with what its inputs hold."""

from pathlib import Path

from storewise.driver.phase_job import PhaseJob, run_verification
from storewise.processes import clean_own_environment
from storewise.study.trial import Trial

params, inputs = snakemake.params, snakemake.input
clean_own_environment(params.trial)
run_verification(
    PhaseJob(
        trial=Trial.model_validate(params.trial),
        phase="verify",
        first=0,
        per_job=params.per_job,
        results=Path(inputs.session).parents[2],
        session=Path(inputs.session),
        logs=Path(snakemake.log[0]).parent,
        served=bool(inputs.get("cluster")),
        loads=False,
        shards=next(map(Path, inputs.shards), None),
        inputs=tuple(map(Path, inputs)),
    )
)
