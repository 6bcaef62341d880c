"""List the input files of a study."""

from pathlib import Path

from storewise.session.coordination.trial_job import plain_job
from storewise.ssearch.inputs.paths import write_listing

with plain_job(snakemake.log[0]) as log:
    specs = [*snakemake.params.paths, *(f"@{path}" for path in snakemake.input)]
    paths = write_listing(specs, snakemake.params.sample, Path(snakemake.output.files))
    log.info("%d input files%s", len(paths), ", a sample" if snakemake.params.sample else "")
