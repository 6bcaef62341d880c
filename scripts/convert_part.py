"""Convert one part of the input files into the study's data set."""

import json
from dataclasses import asdict
from pathlib import Path

from storewise.atomic import write_aside
from storewise.cli.progress import lines
from storewise.dataset.conversion import Options, convert
from storewise.dataset.storage import storage_of
from storewise.session.coordination.trial_job import plain_job
from storewise.ssearch.inputs.paths import read_list, slice_paths

with plain_job(snakemake.log[0]) as log:
    part = int(snakemake.wildcards.part)
    paths = slice_paths(read_list(snakemake.input.files), part, snakemake.params.parts)
    options = Options(
        processes=snakemake.threads,
        update=True,
        quarantine=snakemake.params.on_bad_input == "quarantine",
        share=f"s{part}",
    )
    place = storage_of(snakemake.params.place)
    done = convert(paths, place, options, lines(log.info, "converted", size=True))
    for reason in done.bad:
        log.warning("left out: %s", reason)
    for path, warning in done.warnings:
        log.warning("%s: %s", path, warning)
    for path, equal in done.equal:
        log.warning("left out, equal to %s: %s", equal, path)
    log.info("%d inputs, %d bytes of text, %.1f s", done.inputs, done.text, done.seconds)
    write_aside(Path(snakemake.output.part), json.dumps(asdict(done), indent=1) + "\n")
