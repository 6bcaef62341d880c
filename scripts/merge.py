"""Merge the parts of the manifest and name what cannot be used."""

from pathlib import Path

from storewise.session.coordination.trial_job import plain_job
from storewise.ssearch.inputs.manifest import merge_parts

with plain_job(snakemake.log[0]) as log:
    found = merge_parts(
        [Path(path) for path in snakemake.input.parts],
        Path(snakemake.output.manifest),
        on_bad_input=snakemake.params.on_bad_input,
        quarantine=Path(snakemake.output.quarantine),
    )
    log.info("%d files, %s documents", found.files, found.documents or "not yet counted")
    for bad in found.bad:
        log.warning("quarantined: %s", bad.reason)
    for path, warning in found.warnings:
        log.warning("%s: %s", path, warning)
    for path, equal in found.duplicates:
        log.warning("left out, equal to %s: %s", equal, path)
