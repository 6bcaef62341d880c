"""A worker whose client processes are threads of this process, and a server that is a dict.

What workers and clients say to each other, measure and write is the real thing, so that a unit test
can run whole phases.
"""

from __future__ import annotations

import logging
import os
import threading
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from multiprocessing import Pipe
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, ClassVar
from zlib import crc32

import pytest

from storewise.documents import Document, Kind
from storewise.driver import client_pool, client_process
from storewise.driver.client_process import serve
from storewise.driver.loops import run_loop
from storewise.driver.worker import run_worker
from storewise.driver.worker_job import WorkerJob
from storewise.engines import registry
from storewise.engines.contract.engine import Client, Cluster, Endpoint, Engine, Flags, Mode, Schema
from storewise.engines.contract.queries import Count, Scan
from storewise.metrics.sampler import elect
from storewise.study.trial import Trial

LOG = logging.getLogger("worker")


class Server:
    """What the server of a test holds by id, what it was asked, and how it fails."""

    def __init__(self) -> None:
        self.documents: dict[bytes, Document] = {}
        self.calls: Counter[str] = Counter()
        self.before: Callable[[str, bytes], None] = lambda verb, key: None
        """Called before each verb is done, with the first id that it is about; may raise."""


class MemoryClient(Client):
    def __init__(self, server: Server) -> None:
        self._server = server

    def _asked(self, verb: str, key: bytes = b"") -> None:
        self._server.calls[verb] += 1
        self._server.before(verb, key)

    def create(self, schema: Schema) -> None:
        self._asked("create")

    def insert(self, kind: Kind, documents: Sequence[Any]) -> None:
        self._asked("insert", documents[0]["_id"])
        self._server.documents.update({d["_id"]: d for d in documents})

    def flush(self) -> None:
        self._asked("flush")

    def finish(self) -> None:
        self._asked("finish")

    def get(self, kind: Kind, document_id: bytes) -> Document | None:
        self._asked("get", document_id)
        return self._server.documents.get(document_id)

    def update(self, kind: Kind, document_id: bytes, changes: Mapping[str, Any]) -> bool:
        self._asked("update", document_id)
        self._server.documents[document_id] |= changes
        return True

    def delete(self, kind: Kind, document_id: bytes) -> bool:
        return self._server.documents.pop(document_id, None) is not None

    def scan(self, query: Scan) -> list[Document]:
        return []

    def count(self, query: Count) -> int:
        return len(self._server.documents)

    def owner(self, kind: Kind, document_id: bytes) -> str:
        return f"data{crc32(document_id) % 2}"

    def disk_bytes(self) -> int:
        return 100 * len(self._server.documents)

    def close(self) -> None:
        self._asked("close")


class MemoryEngine(Engine):
    """Two nodes that share a dict."""

    name = "memory"
    title = "Memory"
    flags = Flags(embedded=False, updates=True, deletes=True, scans=True, owner=True)
    consistencies: ClassVar[Mapping[str, str]] = {"durable": "", "relaxed": ""}
    server: ClassVar[Server]

    def connect(self, cluster: Cluster, mode: Mode) -> Client:
        return MemoryClient(self.server)


class _Thread:
    """A client process that is a thread; its end of the pipe is its own, as a process's is."""

    def __init__(self, *, target: object, args: Sequence[Any], name: str, daemon: bool) -> None:
        job, number, connection, counters, _ = args
        self.pid = os.getpid()
        self._end = Connection(os.dup(connection.fileno()))
        self._thread = threading.Thread(
            target=self._run, args=(job, number, counters), name=name, daemon=True
        )
        self.start = self._thread.start
        self.join = self._thread.join

    def _run(self, job: WorkerJob, number: int, counters: Any) -> None:
        with suppress(OSError):  # the worker has gone
            serve(job, number, self._end, counters)
        self._end.close()

    @property
    def exitcode(self) -> int | None:
        return None if self._thread.is_alive() else 0

    def kill(self) -> None:
        """It sees that the worker has gone."""


class _Threads:
    """What `Pool` needs of a context of `multiprocessing`."""

    Pipe = staticmethod(Pipe)
    Process = _Thread


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Server:
    """The engine `memory` is known, its server empty, and client processes are threads."""
    MemoryEngine.server = Server()
    monkeypatch.setitem(registry.ENGINES, "memory", f"{__name__}:MemoryEngine")
    monkeypatch.setattr(client_pool, "get_context", lambda how: _Threads())
    # In this process there is much to collect, and nothing to be gained.
    monkeypatch.setattr(client_process.gc, "collect", lambda: 0)
    monkeypatch.setattr(client_process.gc, "freeze", lambda: None)
    # An open loop waits in real time: what it waits for is tested with a clock handed in.
    waiting = partial(run_loop, sleep=threading.Event().wait)
    monkeypatch.setattr(client_process, "run_loop", waiting)
    return MemoryEngine.server


def ycsb(*phases: Any, engine: str = "memory", **changes: Any) -> Trial:
    """A trial of `ycsb` with 40 small records; phases after the load as dicts."""
    load = {"recordcount": 40, "fieldcount": 1, "fieldlength": 10}
    values = {"study": "s", "id": f"{engine}-r1", "seed": 5, "repeat": 1, **changes}
    return Trial(
        engine=engine,
        workload="ycsb",
        factors={"engine": engine},
        phases=[{"name": "load", "params": load}, *phases],
        **values,
    )


def job(trial: Trial, place: Path, phase: str, worker: int = 0, **changes: Any) -> WorkerJob:
    """A worker's job of a server's trial, as the workflow lays out its files."""
    live = place / "live"
    if not live.exists():
        live.mkdir()
        elect(live, "canary")  # has been measured
    names = [p.name for p in trial.phases]
    before = names[: names.index(phase)]
    values: dict[str, Any] = {
        "trial": trial,
        "phase": phase,
        "worker": worker,
        "shards": None,
        "live": live,
        "result": place / f"{phase}.{worker}.parquet",
        "hdr_log": place / f"{phase}.{worker}.hlog",
        "before": tuple(place / f"{p}.{k}.parquet" for p in before for k in range(trial.workers)),
        "cluster": Cluster(
            trial.engine,
            endpoints=tuple(Endpoint("data", n, "h", "127.0.0.1", 1) for n in range(2)),
            kinds=trial.kinds(),
        ),
    }
    return WorkerJob(**{**values, **changes})


def run(trial: Trial, place: Path, phase: str, worker: int = 0, **changes: Any) -> WorkerJob:
    """Run a worker's phase; its job."""
    check = changes.pop("check", lambda: None)
    its = job(trial, place, phase, worker, **changes)
    run_worker(its, check, LOG)
    return its


def arrived(live: Path, *names: str, worker: str = "1") -> None:
    """Another worker has come to these barriers already."""
    for name in names:
        directory = live / "barriers" / name
        directory.mkdir(parents=True)
        (directory / worker).touch()
