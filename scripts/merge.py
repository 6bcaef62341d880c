"""Merge the parts of the manifest and name what cannot be used."""

from pathlib import Path

from storewise.errors import END_NOT_VISIBLE, NOT_VISIBLE
from storewise.session.coordination.trial_job import plain_job
from storewise.ssearch.inputs.manifest import merge_parts

with plain_job(snakemake.log[0]) as log:
    merged = merge_parts(
        [Path(path) for path in snakemake.input.parts],
        Path(snakemake.output.manifest),
        on_bad_input=snakemake.params.on_bad_input,
        quarantine=Path(snakemake.output.quarantine),
    )
    log.info("%d files, %d documents", merged.files, merged.documents)
    for bad in merged.bad:
        log.warning("quarantined: %s", bad.reason)
    for path, warning in merged.warnings:
        log.warning("%s: %s", path, warning)
    if merged.end == NOT_VISIBLE:
        log.warning("%s", END_NOT_VISIBLE)
    for path, equal in merged.duplicates:
        log.warning("left out, equal to %s: %s", equal, path)
