"""List the input files of a study."""

from pathlib import Path

from storewise.atomic import write_aside
from storewise.layout import SAMPLED_OF
from storewise.session.coordination.trial_job import plain_job
from storewise.ssearch.inputs.paths import list_inputs, sample_paths

with plain_job(snakemake.log[0]) as log:
    paths = list_inputs([*snakemake.params.paths, *(f"@{path}" for path in snakemake.input)])
    log.info("%d input files", len(paths))
    if snakemake.params.sample:
        of = Path(snakemake.output.files).with_name(Path(SAMPLED_OF).name)
        write_aside(of, f"{len(paths)}\n")
        paths = sample_paths(paths, **snakemake.params.sample)
        log.info("%d of them are the sample", len(paths))
    write_aside(Path(snakemake.output.files), "".join(f"{path}\n" for path in paths))
