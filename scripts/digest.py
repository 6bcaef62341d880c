"""Digest one part of the input files."""

from pathlib import Path

from storewise.session.coordination.trial_job import plain_job, progress_to
from storewise.ssearch.inputs.manifest import build_part
from storewise.ssearch.inputs.paths import read_list, slice_paths

with plain_job(snakemake.log[0]) as log:
    part = int(snakemake.wildcards.part)
    paths = slice_paths(read_list(snakemake.input.files), part, snakemake.params.parts)
    build_part(
        paths,
        Path(snakemake.output.part),
        input_format=snakemake.params.input_format,
        processes=snakemake.threads,
        cache_dir=Path(snakemake.params.cache) / f"part.{part}.of.{snakemake.params.parts}",
        progress=progress_to(log),
    )
