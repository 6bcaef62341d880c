"""Whether another run measures a study already, and which: two would remove each other's trials."""

from __future__ import annotations

import time
from pathlib import Path

from storewise.session.coordination.liveness import LEASES, Process
from storewise.session.coordination.run import Lease, dead_leases
from storewise.session.coordination.run_record import RunRecord, door, read_record


def measured_by(results: Path, own: str | None = None) -> str | None:
    """A sentence about the run that measures this study now; None where none does.

    `own` is the id of the asking run. A `storewise run` counts between two of its Snakemakes too.
    """
    record = read_record(results)
    dead = {path.name for path, _ in dead_leases(results)}
    for path in sorted((results / LEASES).glob("[!.]*")):
        if path.name in dead or path.name == own:
            continue
        try:
            process = Lease.read(path).process
        except (OSError, ValueError):  # it ended meanwhile, or its host crashed
            continue
        return _sentence(results, process, record if record and record.run == path.name else None)
    if record is not None and record.door is not None and record.door != door():
        return _sentence(results, record.door, record) if record.door.alive() else None
    return None


def _sentence(results: Path, process: Process, record: RunRecord | None) -> str:
    since = ""
    if record is not None:
        since = time.strftime(" since %Y-%m-%d %H:%M:%S", time.localtime(record.started))
    return (
        f"study {results.name} is measured here already, by process {process.pid} on host "
        f"{process.host}{since}. It goes on undisturbed; wait for its end (`storewise watch "
        f"{results.name}` shows it), or stop that process and start again"
    )
