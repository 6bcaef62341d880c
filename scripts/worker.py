"""One worker of one phase of a trial."""

from pathlib import Path

from storewise.driver.worker import WorkerJob, run_worker
from storewise.session.job import trial_job
from storewise.trial import Trial

name = f"{snakemake.params.phase}.{snakemake.wildcards.worker}"
with trial_job(
    Path(snakemake.params.results), Path(snakemake.input.session), name, snakemake.log[0]
) as job:
    store = snakemake.output.get("store")
    files = snakemake.output.get("written")
    run_worker(
        WorkerJob(
            trial=Trial.model_validate(snakemake.params.trial),
            phase=snakemake.params.phase,
            worker=int(snakemake.wildcards.worker),
            shards=Path(snakemake.input.shards),
            written=tuple(map(Path, snakemake.input.get("written", []))),
            live=job.live,
            store=Path(store) if store else None,
            stores=tuple(map(Path, snakemake.input.get("stores", []))),
            result=Path(snakemake.output.result),
            hdr_log=Path(snakemake.output.hdr),
            files=Path(files) if files else None,
            conditions={"run": job.session.run, "opened": job.session.opened},
        ),
        job.check,
        job.log,
    )
