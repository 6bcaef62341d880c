"""Begin the data set of a study: how many partitions it has follows from all inputs."""

from pathlib import Path

from storewise.atomic import write_aside
from storewise.dataset.conversion import describe
from storewise.dataset.rounds import text_of
from storewise.dataset.settings import Wanted, dump
from storewise.dataset.storage import storage_of
from storewise.session.coordination.trial_job import plain_job
from storewise.ssearch.inputs.paths import read_list
from storewise.ssearch.inputs.scan import status_of

with plain_job(snakemake.log[0]) as log:
    files, _ = status_of(list(read_list(snakemake.input.files)))
    storage = storage_of(snakemake.params.place)
    storage.root.mkdir(parents=True, exist_ok=True)
    params = snakemake.params
    wanted = Wanted(study_fields=params.study_fields, input_format=params.input_format)
    settings = describe(storage, wanted, text_of(files))
    log.info("%d inputs, %d partitions by %s", len(files), settings.partitions, settings.by)
    write_aside(Path(snakemake.output.begun), dump(settings))
