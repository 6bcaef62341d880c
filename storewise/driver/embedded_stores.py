"""Store directories of embedded engines, and the placement of documents in them.

A loading worker makes one directory ``p<process>`` per process; a reading client sees those of all
workers in shard order, so that a shard's number is its store's place.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from storewise.driver.worker_job import ClientJob, WorkerJob
from storewise.engines.contract.engine import Cluster, SourceFile
from storewise.engines.registry import engine
from storewise.errors import StorewiseError
from storewise.metrics.host import file_system, is_network
from storewise.metrics.inodes import Inodes, inodes_of_paths
from storewise.s3.uri import is_remote
from storewise.workloads.registry import workload

#: Notes of clients of earlier phases.
Notes = Sequence[Mapping[str, Any]]


def process_store(worker_store: Path, process: int) -> Path:
    """The store directory of one process of a loading worker."""
    return worker_store / f"p{process}"


def make_stores(worker_store: Path, processes: int) -> None:
    """Make the empty store directories of a loading worker; no other user can enter them.

    StorewiseError where one of them has content already.
    """
    for process in range(processes):
        path = process_store(worker_store, process)
        worker_store.mkdir(parents=True, mode=0o700, exist_ok=True)
        path.mkdir(mode=0o700, exist_ok=True)
        if any(path.iterdir()):
            raise StorewiseError(f"{path}: a load needs an empty directory; remove this one")


def writing_cluster(job: WorkerJob, process: int, notes: Notes) -> Cluster:
    """The cluster for a process that loads or changes its own store of an embedded engine."""
    store = process_store(job.store or job.stores[job.worker], process)
    number = job.worker * job.trial.processes + process
    sources = tuple(source for source in _sources(job, notes) if source.store == number)
    return _cluster(job, (store,), sources)


def reading_cluster(job: ClientJob, notes: Notes) -> Cluster:
    """The cluster for a reading process: the stores of all workers, in shard order."""
    trial = job.trial
    stores = tuple(process_store(s, p) for s in job.stores for p in range(trial.processes))
    for path in stores:
        if not path.is_dir():
            raise StorewiseError(
                f"{path}: the store is not here; phases after the load must see the directory "
                "that the load wrote to (a shared file system, or `embedded: one_host`)"
            )
    placement = workload(trial.workload).placement(len(stores), job.written)
    return replace(_cluster(job, stores, _sources(job, notes)), placement=placement)


def _cluster(job: ClientJob, stores: tuple[Path, ...], sources: tuple[SourceFile, ...]) -> Cluster:
    trial = job.trial
    return Cluster(
        trial.engine,
        stores=stores,
        settings=trial.settings,
        consistency=trial.consistency,
        network_file_system=any(is_network(file_system(path)) for path in stores),
        kinds=trial.kinds(),
        sources=sources,
    )


def _sources(job: ClientJob, notes: Notes) -> tuple[SourceFile, ...]:
    """The list of input files for an engine that reads them again; else empty (it is long)."""
    if not engine(job.trial.engine).flags.rereads:
        return ()
    return workload(job.trial.workload).sources(job.shards, job.written, notes)


def inputs_kept(job: WorkerJob) -> Inodes | None:
    """The inodes of the input files that belong to a store: of engines that answer from them, and
    there all of the trial for its first worker. None where some lie on S3, which has no inodes."""
    # Of the whole trial: workers' files lie in the same directories.
    paths = [file.path for file in _sources(job, ())]
    if any(map(is_remote, paths)):
        return None
    return inodes_of_paths(paths) if job.worker == 0 else Inodes()
