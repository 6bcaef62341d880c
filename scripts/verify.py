"""Compare what a trial stored with what its inputs hold."""

from pathlib import Path

from storewise.driver.verify import VerifyJob, run_verify
from storewise.session.job import trial_job
from storewise.session.live import FINISHED
from storewise.trial import Trial

with trial_job(
    Path(snakemake.params.results), Path(snakemake.input.session), "verify", snakemake.log[0]
) as job:
    run_verify(
        VerifyJob(
            trial=Trial.model_validate(snakemake.params.trial),
            shards=Path(snakemake.input.shards),
            stores=tuple(map(Path, snakemake.input.stores)),
            written=tuple(map(Path, snakemake.input.written)),
            result=Path(snakemake.output.result),
            conditions={"run": job.session.run, "opened": job.session.opened},
        ),
        job.check,
        job.log,
    )
    (job.live / FINISHED).touch()
