"""What earlier phases left for this one, read once for all of its workers.

Each worker needs the notes of all clients before it and the lists of all stored files. If each
opened the parts of all, a thousand workers would open a million files on a file system that they
share. So the first worker reads them, and the others read what it leaves in the live directory.
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

#: Below the live directory.
EARLIER = "earlier"


def read_earlier(
    job: WorkerJob, check: Callable[[], None], *, sleep: Callable[[float], None] = time.sleep
) -> WorkerJob:
    """The job with the notes of earlier phases, and with one list of stored files in place of many.

    `check` is called while the first worker is waited for, and ends that by raising. ResultError
    where a part or a list is none.
    """
    workers = job.trial.workers
    if workers == 1 or not job.before:
        return replace(job, notes=notes_of(job.before))
    directory = job.live / EARLIER
    told, lists = directory / f"{job.phase}.json", directory / f"{job.phase}.parquet"
    if job.worker == 0:
        directory.mkdir(exist_ok=True)
        if job.written:
            _merge(job.written, lists)
        notes = notes_of(job.before)
        write_aside(told, json.dumps(notes))
    else:
        while not holds(directory, told.name):
            check()
            sleep(pause_of(workers))
        notes = tuple(json.loads(told.read_text(encoding="utf-8")))
    return replace(job, notes=notes, written=(lists,) if job.written else ())


def _merge(lists: tuple[Path, ...], path: Path) -> None:
    tables = []
    for one in lists:
        try:
            tables.append(pq.ParquetFile(one).read())
        except (OSError, pa.ArrowException) as error:
            raise ResultError(f"{one}: not a list of stored files: {error}") from error
    with aside(path) as place:
        pq.write_table(pa.concat_tables(tables), place, compression="zstd")
