"""Notes and lists of stored files of earlier phases, read once for all workers of a phase.

If each of a thousand workers opened the files of a thousand others, a shared file system would
have a million files to open. So worker 0 reads them, and the others read what it writes into the
live directory.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from storewise.atomic import aside, holds, write_aside
from storewise.driver.worker_job import WorkerJob, notes_of
from storewise.errors import ResultError
from storewise.session.coordination.barrier import pause_of

#: Directory below the live directory.
EARLIER = "earlier"


def read_earlier(
    job: WorkerJob, check: Callable[[], None], *, sleep: Callable[[float], None] = time.sleep
) -> WorkerJob:
    """The job with the notes of earlier phases, and one list of stored files in place of many.

    `check` is called while waiting for worker 0, and may raise. ResultError for a result part or a
    list that cannot be read.
    """
    workers = job.trial.workers
    if workers == 1 or not job.before:
        return replace(job, notes=notes_of(job.before))
    directory = job.live / EARLIER
    notes_file, lists = directory / f"{job.phase}.json", directory / f"{job.phase}.parquet"
    if job.worker == 0:
        directory.mkdir(exist_ok=True)
        if job.written:
            _merge(job.written, lists)
        notes = notes_of(job.before)
        write_aside(notes_file, json.dumps(notes))
    else:
        while not holds(directory, notes_file.name):
            check()
            sleep(pause_of(workers))
        notes = tuple(json.loads(notes_file.read_text(encoding="utf-8")))
    return replace(job, notes=notes, written=(lists,) if job.written else ())


def _merge(lists: tuple[Path, ...], path: Path) -> None:
    tables = []
    for source in lists:
        try:
            tables.append(pq.ParquetFile(source).read())
        except (OSError, pa.ArrowException) as error:
            raise ResultError(f"{source}: not a list of stored files: {error}") from error
    with aside(path) as place:
        pq.write_table(pa.concat_tables(tables), place, compression="zstd")
