"""No database: every read reads the SSEARCH outputs again, in parallel.

This is what a user has today, and the baseline against which a store must pay. Nothing is stored:
the list of the files that the load went through (`Cluster.sources`) is the whole store, and an
insert only notes that the documents of a file count as stored from now on.

A question is one pass over the files that can hold its answer, by the parser that also loads the
other stores; conditions are applied in the processes that parse. Nothing is kept between two
questions but what the operating system caches.
"""

from __future__ import annotations

import json
import os
import pickle
import queue
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from importlib.metadata import version
from itertools import chain, islice
from pathlib import Path
from typing import Any, ClassVar

from pydantic import Field as Setting

from storewise.documents import DIGEST_BYTES, KINDS, Document, Kind, split_id
from storewise.engines.contract.engine import (
    Client,
    Cluster,
    Engine,
    EngineSettings,
    Flags,
    Mode,
    Schema,
    SourceFile,
)
from storewise.engines.contract.queries import Count, Find, Histogram, Scan, Top
from storewise.engines.files.worker import Task, command, send
from storewise.engines.sql.histogram import checked_classes
from storewise.engines.support.checks import (
    consistency_of,
    parse_settings,
    store_directories,
)
from storewise.engines.support.conditions import conditions
from storewise.engines.support.table import Table, make_table
from storewise.errors import EngineError
from storewise.processes import dies_with_parent

#: What a store directory of this engine holds.
_SCHEMA_FILE = "schema.json"


class FilesSettings(EngineSettings):
    """Settings of reading the files again."""

    processes: int | None = Setting(
        default=None,
        ge=1,
        description="processes that parse, for each client process; the host's cores by default",
    )


class _Parsers:
    """Processes that parse, shared by the client threads of one process."""

    def __init__(self, count: int) -> None:
        self._processes: list[subprocess.Popen[bytes]] = []
        self._idle: queue.SimpleQueue[subprocess.Popen[bytes]] = queue.SimpleQueue()
        # Started before there are threads: the kernel ends them with the thread that starts them.
        tie = dies_with_parent()
        for _ in range(count):
            process = subprocess.Popen(
                command(), stdin=subprocess.PIPE, stdout=subprocess.PIPE, preexec_fn=tie
            )
            self._processes.append(process)
            self._idle.put(process)
        self._threads = ThreadPoolExecutor(count, thread_name_prefix="parser")
        self.count = count

    def run(self, tasks: Sequence[Task]) -> Iterator[Any]:
        """The answers in the order of the tasks; what is no longer asked for is left out."""
        futures = [self._threads.submit(self._one, task) for task in tasks]
        try:
            for future in futures:
                yield future.result()
        finally:
            for future in futures:
                future.cancel()

    def _one(self, task: Task) -> Any:
        process = self._idle.get()
        try:
            assert process.stdin is not None and process.stdout is not None
            try:
                send(task, process.stdin)
                good, answer = pickle.load(process.stdout)
            except (OSError, EOFError, pickle.UnpicklingError) as error:
                raise EngineError(
                    f"files: the process that read {task.path} ended (status {process.poll()}); "
                    "if nobody ended it, the kernel did for lack of memory: set `files: "
                    "{processes: ...}` lower"
                ) from error
        finally:
            self._idle.put(process)
        if not good:
            raise EngineError(f"files: {answer}")
        return answer

    def close(self) -> None:
        self._threads.shutdown(cancel_futures=True)
        for process in self._processes:
            assert process.stdin is not None and process.stdout is not None
            try:
                process.stdin.close()
            except OSError:
                process.kill()  # it has ended already, or will not hear of it
            process.wait()
            process.stdout.close()
        self._processes.clear()


class FilesClient(Client):
    """One process's view of the files; may be shared between threads."""

    def __init__(self, cluster: Cluster, mode: Mode, stores: Sequence[Path], count: int) -> None:
        self._mode, self._stores = mode, stores
        self._sources: dict[bytes, SourceFile] = {
            source.digest[:DIGEST_BYTES]: source
            for source in sorted(cluster.sources, key=lambda s: s.digest)
        }
        self._lock = threading.Lock()
        self._study_fields = _read_schema(stores[0])
        self._parsers = _Parsers(count)
        self._closed = False

    def create(self, schema: Schema) -> None:
        self._check_writing("create")
        if unknown := [kind.table for kind in schema.kinds if kind not in KINDS]:
            raise EngineError(f"files: SSEARCH outputs hold no {', '.join(unknown)}")
        text = json.dumps({"study_fields": schema.study_fields})
        (self._stores[0] / _SCHEMA_FILE).write_text(text, encoding="utf-8")
        self._study_fields = schema.study_fields

    def _check_writing(self, verb: str) -> None:
        if self._mode != "write":
            raise EngineError(f"files: {verb} needs a client that is connected to write")

    def insert(self, kind: Kind, documents: Sequence[Any]) -> None:
        """Nothing is stored: what the files hold counts as stored up to these documents."""
        self._check_writing("insert")
        last: dict[bytes, int] = {}
        for document in documents:
            prefix, _, ordinal = split_id(document["_id"])
            last[prefix] = max(last.get(prefix, 0), ordinal + 1)
        with self._lock:
            for prefix, count in last.items():
                source = self._sources.get(prefix)
                if source is None:
                    raise EngineError(
                        f"files: {kind.table} documents of digest {prefix.hex()} are of no input "
                        "file; this engine answers from the inputs only"
                    )
                counts = list(source.documents)
                counts[kind.number] = max(counts[kind.number], count)
                self._sources[prefix] = replace(source, documents=tuple(counts))

    def get(self, kind: Kind, document_id: bytes) -> Document | None:
        return self.get_many(kind, [document_id])[0]

    def get_many(self, kind: Kind, document_ids: Sequence[bytes]) -> list[Document | None]:
        by_file: dict[bytes, set[bytes]] = {}
        for document_id in document_ids:
            prefix = document_id[:DIGEST_BYTES]
            source = self._sources.get(prefix)
            if source is None or split_id(document_id)[1] is not kind:
                continue
            if split_id(document_id)[2] < source.documents[kind.number]:
                by_file.setdefault(prefix, set()).add(document_id)
        tasks = [
            self._task(Find(kind, limit=len(ids)), self._sources[prefix], frozenset(ids))
            for prefix, ids in by_file.items()
        ]
        by_id = {d["_id"]: d for documents in self._run(tasks) for d in documents}
        return [by_id.get(document_id) for document_id in document_ids]

    def scan(self, query: Scan) -> list[Document]:
        """In the order of the files' digests, which ids begin with; only as many as are needed."""
        tasks: list[Task] = []
        first = query.start[:DIGEST_BYTES]
        most = 0
        for prefix, source in self._sources.items():
            # Of the first file an unknown part lies before the start.
            if most >= query.limit:
                break
            if prefix < first or not source.documents[query.kind.number]:
                continue
            tasks.append(self._task(query, source))
            most += source.documents[query.kind.number] if prefix > first else 0
        return list(islice(chain.from_iterable(self._run(tasks)), query.limit))

    def find(self, query: Find) -> list[Document]:
        if query.order_by is not None:
            self._table(query.kind).column(query.order_by)
        return query.merged(self._all(query)) if query.limit != 0 else []

    def count(self, query: Count) -> int:
        return sum(self._all(query))

    def top(self, query: Top) -> list[tuple[Any, int]]:
        self._table(query.kind).column(query.field)
        # A value that is rare in one file may be frequent in all.
        return query.merged(self._all(replace(query, limit=sys.maxsize)))

    def histogram(self, query: Histogram) -> dict[int, int]:
        checked_classes(self._table(query.kind), query)
        total: Counter[int] = Counter()
        for part in self._all(query):
            total.update(part)
        return dict(total)

    def disk_bytes(self) -> int:
        """Of the input files, as they lie on disk."""
        return sum(source.size for source in self._sources.values() if any(source.documents))

    def close(self) -> None:
        if not self._closed:
            self._closed = True
            self._parsers.close()

    def _table(self, kind: Kind) -> Table:
        return make_table(kind, study_fields=self._study_fields)

    def _task(self, query: Any, source: SourceFile, ids: frozenset[bytes] | None = None) -> Task:
        number = source.documents[query.kind.number]
        return Task(source.path, source.digest, number, self._study_fields, query, ids)

    def _all(self, query: Find | Count | Top | Histogram) -> Iterator[Any]:
        """The answers of all files; the largest are read first, so that none is waited for."""
        if not isinstance(query, Top):
            conditions(self._table(query.kind), query.where)  # refuses what cannot be compared
        sources = sorted(self._sources.values(), key=lambda s: -s.size)
        return self._run([self._task(query, s) for s in sources if s.documents[query.kind.number]])

    def _run(self, tasks: Sequence[Task]) -> Iterator[Any]:
        if self._closed:
            raise EngineError("files: the client is closed")
        return self._parsers.run(tasks)


def _cores() -> int:
    """Cores that this process may use; all of the host where the system does not tell."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _read_schema(store: Path) -> bool:
    """Whether a store has the study's fields only; a new one is told by `create`."""
    path = store / _SCHEMA_FILE
    if not path.exists():
        return False
    try:
        return bool(json.loads(path.read_text(encoding="utf-8"))["study_fields"])
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise EngineError(f"files: {path} cannot be read: {error}") from error


class FilesEngine(Engine):
    """The SSEARCH outputs themselves."""

    name: ClassVar[str] = "files"
    title: ClassVar[str] = "SSEARCH files"
    flags: ClassVar[Flags] = Flags(
        embedded=True,
        durable=True,
        scans=True,
        ranges=True,
        server_aggregation=True,
        count="scan",
        finds=True,
        rereads=True,
    )
    consistencies: ClassVar[Mapping[str, str]] = {
        "durable": "nothing is written: the input files are as durable as they were",
        "relaxed": "nothing is written; the level only lets it stand beside stores that have it",
    }
    Settings: ClassVar[type[EngineSettings]] = FilesSettings

    def versions(self) -> dict[str, str]:
        return {"storewise": version("storewise")}

    def connect(self, cluster: Cluster, mode: Mode) -> FilesClient:
        settings = parse_settings(FilesSettings, self, cluster)
        consistency_of(self, cluster)
        stores = store_directories(self, cluster, mode)
        count = settings.processes or _cores()
        sources = len(cluster.sources)
        return FilesClient(cluster, mode, stores, max(1, min(count, sources or count)))
