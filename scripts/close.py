"""End a trial's nodes in order."""

from pathlib import Path

from storewise.processes import clean_own_environment
from storewise.session.coordination.trial_job import trial_job
from storewise.session.jobs.close import run_close
from storewise.study.trial import Trial

clean_own_environment(snakemake.params.trial)
with trial_job(
    Path(snakemake.params.results), Path(snakemake.input.session), "close", snakemake.log[0]
) as job:
    run_close(
        Trial.model_validate(snakemake.params.trial),
        Path(snakemake.input.cluster),
        Path(snakemake.output.result),
        job,
    )
