"""Balance the input files over a number of shards."""

from pathlib import Path

from storewise.session.coordination.trial_job import plain_job
from storewise.ssearch.inputs.shards import write_shards

with plain_job(snakemake.log[0]) as log:
    # `N`, or `NofSHARE` for a share of the files.
    number, _, share = snakemake.wildcards.shards.partition("of")
    loads = write_shards(
        Path(snakemake.input.manifest),
        int(number),
        Path(snakemake.output.shards),
        state=Path(snakemake.params.state),
        share=float(share) if share else None,
        seed=snakemake.params.seed,
    )
    log.info("bytes per shard: %s", loads)
