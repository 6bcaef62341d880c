"""Form a trial's cluster of its nodes."""

from pathlib import Path

from storewise.processes import clean_own_environment
from storewise.session.coordination.trial_job import trial_job
from storewise.session.jobs.form import run_form
from storewise.study.trial import Trial

log_file = Path(snakemake.log[0])
clean_own_environment(snakemake.params.trial)
with trial_job(
    Path(snakemake.params.results), Path(snakemake.input.session), "form", log_file, defer=3.0
) as job:
    run_form(
        Trial.model_validate(snakemake.params.trial),
        Path(snakemake.output.cluster),
        log_file.parent,
        job,
    )
