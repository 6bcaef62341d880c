"""Where the stores of an embedded engine are and which one holds a document.

A loading worker makes one directory ``p<process>`` per process; a reading client sees those of all
workers in shard order, so that a shard's number is its store's place.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from storewise.engines.contract.engine import Cluster, SourceFile
from storewise.engines.registry import engine
from storewise.errors import StorewiseError
from storewise.metrics.host import file_system, is_network
from storewise.study.trial import Trial
from storewise.workloads.registry import workload

#: Of clients: plain values.
Notes = Sequence[Mapping[str, Any]]


def process_store(worker_store: Path, process: int) -> Path:
    """The store directory of one process of a loading worker."""
    return worker_store / f"p{process}"


def make_stores(worker_store: Path, processes: int) -> None:
    """Make the empty store directories of a loading worker; no other user can enter them.

    Raises StorewiseError where that cannot be done or one of them has content already.
    """
    for process in range(processes):
        path = process_store(worker_store, process)
        try:
            worker_store.mkdir(parents=True, mode=0o700, exist_ok=True)
            path.mkdir(mode=0o700, exist_ok=True)
        except OSError as error:
            raise StorewiseError(f"{path}: cannot make the store: {error.strerror}") from error
        if any(path.iterdir()):
            raise StorewiseError(f"{path}: a load needs an empty directory; remove this one")


def writing_cluster(
    trial: Trial,
    store: Path,
    worker: int,
    process: int,
    shards: Path | None,
    written: Sequence[Path] = (),
    notes: Notes = (),
) -> Cluster:
    """What a process of an embedded engine connects to that loads or changes its own store."""
    mine = process_store(store, process)
    own = worker * trial.processes + process
    return Cluster(
        trial.engine,
        stores=(mine,),
        settings=trial.settings,
        consistency=trial.consistency,
        network_file_system=is_network(file_system(mine)),
        kinds=trial.kinds(),
        sources=tuple(s for s in _sources(trial, shards, written, notes) if s.store == own),
    )


def reading_cluster(
    trial: Trial,
    stores: Sequence[Path],
    shards: Path | None,
    written: Sequence[Path],
    notes: Notes = (),
) -> Cluster:
    """What a reading process connects to: the stores of all workers, in shard order.

    `written` are the lists of the files that the loading workers stored, `notes` those of all
    clients of earlier phases."""
    found = tuple(process_store(s, p) for s in stores for p in range(trial.processes))
    for path in found:
        if not path.is_dir():
            raise StorewiseError(
                f"{path}: the store is not here; phases after the load must see the directory "
                "that the load wrote to (a shared file system, or `embedded: one_host`)"
            )
    return Cluster(
        trial.engine,
        stores=found,
        settings=trial.settings,
        consistency=trial.consistency,
        network_file_system=any(is_network(file_system(path)) for path in found),
        placement=workload(trial.workload).placement(len(found), written),
        kinds=trial.kinds(),
        sources=_sources(trial, shards, written, notes),
    )


def _sources(
    trial: Trial, shards: Path | None, written: Sequence[Path], notes: Notes
) -> tuple[SourceFile, ...]:
    """A study can have a million files: only an engine that reads them again gets the list."""
    if not engine(trial.engine).flags.rereads:
        return ()
    return workload(trial.workload).sources(shards, written, notes)
