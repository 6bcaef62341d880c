"""Where the stores of an embedded engine are and which one holds a document.

A loading worker makes one directory ``p<process>`` per process; a reading client sees those of all
workers in shard order, so that a shard's number is its store's place.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from storewise.engines.base import Cluster
from storewise.errors import StorewiseError
from storewise.metrics.host import file_system, is_network
from storewise.trial import Trial
from storewise.workloads.registry import workload


def process_store(worker_store: Path, process: int) -> Path:
    """The store directory of one process of a loading worker."""
    return worker_store / f"p{process}"


def make_stores(worker_store: Path, processes: int) -> None:
    """Make the empty store directories of a loading worker.

    Raises StorewiseError where that cannot be done or one of them has content already.
    """
    for process in range(processes):
        path = process_store(worker_store, process)
        try:
            path.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise StorewiseError(f"{path}: cannot make the store: {error.strerror}") from error
        if any(path.iterdir()):
            raise StorewiseError(f"{path}: a load needs an empty directory; remove this one")


def writing_cluster(trial: Trial, store: Path, process: int) -> Cluster:
    """What a loading process of an embedded engine connects to: its own store."""
    mine = process_store(store, process)
    return Cluster(
        trial.engine,
        stores=(mine,),
        settings=trial.settings,
        consistency=trial.consistency,
        network_file_system=is_network(file_system(mine)),
        kinds=trial.kinds(),
    )


def reading_cluster(trial: Trial, stores: Sequence[Path], written: Sequence[Path]) -> Cluster:
    """What a reading process connects to: the stores of all workers, in shard order.

    `written` are the lists of the files that the loading workers stored."""
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
    )
