"""Merge small files of a study's data set, and say what it holds."""

import json
from dataclasses import asdict
from pathlib import Path

from storewise.atomic import write_aside
from storewise.dataset.conversion import check_inputs, merge
from storewise.dataset.storage import storage_of
from storewise.session.coordination.trial_job import plain_job
from storewise.ssearch.inputs.paths import read_list

with plain_job(snakemake.log[0]) as log:
    place = storage_of(snakemake.params.place)
    check_inputs(place, read_list(snakemake.input.files))
    done = merge(place, processes=snakemake.threads)
    log.info("%d documents in %d files, %d bytes", done.documents, done.files, done.bytes)
    write_aside(Path(snakemake.output.summary), json.dumps(asdict(done), indent=1) + "\n")
