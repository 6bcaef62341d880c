"""Balance the input files over a number of shards."""

from pathlib import Path

from storewise.session.job import plain_job
from storewise.ssearch.shards import write_shards

with plain_job(snakemake.log[0]) as log:
    loads = write_shards(
        Path(snakemake.input.manifest),
        int(snakemake.wildcards.shards),
        Path(snakemake.output.shards),
        state=Path(snakemake.params.state),
    )
    log.info("bytes per shard: %s", loads)
