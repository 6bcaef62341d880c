"""No database: every read parses the SSEARCH outputs again, in parallel.

This is the baseline that stores are compared with. Nothing is stored: the list of loaded files
(`Cluster.sources`) is the whole store, and an insert only marks documents of a file as stored.
A query is one pass over the files that can contain its answer, with the parser that also loads the
stores; conditions are applied in the parsing processes. Between queries, only the operating system
caches.
"""

from __future__ import annotations

import json
import os
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar

from pydantic import Field as Setting

from storewise.atomic import write_aside
from storewise.documents import DIGEST_BYTES, KINDS, Document, Kind, split_id
from storewise.engines.contract.engine import (
    Cluster,
    Engine,
    EngineSettings,
    Flags,
    Mode,
    Schema,
    SourceFile,
)
from storewise.engines.contract.queries import Count, Find, Histogram, Scan, Top
from storewise.engines.files.worker import Task, answer
from storewise.engines.support.batches import ids_of
from storewise.engines.support.clients import ProcessClient, ProcessState
from storewise.engines.support.table import Table, make_table
from storewise.errors import EngineError, StorewiseError
from storewise.processes import Pool, processors

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
        self._pool = Pool(count)
        # The kernel ends the processes with the thread that starts them: one that stays.
        self._starter = ThreadPoolExecutor(1, thread_name_prefix="parser")
        for _ in range(count):
            self._submit(os.getpid)

    def _submit(self, work: Callable[..., Any], *arguments: Any) -> Future[Any]:
        return self._starter.submit(self._pool.submit, work, *arguments).result()

    def run(self, tasks: Sequence[Task]) -> Iterator[Any]:
        """The answers in the order of the tasks; what is no longer asked for is left out."""
        futures: list[Future[Any]] = []
        done = 0
        try:
            futures.extend(self._submit(answer, task) for task in tasks)
            for future in futures:
                yield future.result()
                done += 1
        except BrokenProcessPool as error:
            raise EngineError(
                f"files: the process that read {tasks[done].path} ended; if nobody ended it, the "
                "kernel did for lack of memory: set `files: {processes: ...}` lower"
            ) from error
        except (StorewiseError, OSError) as error:
            raise EngineError(f"files: {error}") from error
        finally:
            for future in futures:
                future.cancel()

    def close(self) -> None:
        # The pool first: a process that is killed at its queue keeps the lock that others wait for.
        self._pool.shutdown(cancel_futures=True)
        self._starter.shutdown(cancel_futures=True)


class FilesClient(ProcessClient[ProcessState[Table], Table]):
    """One process's view of the files; may be shared between threads."""

    engine_name = "files"

    def __init__(self, cluster: Cluster, mode: Mode, stores: Sequence[Path], count: int) -> None:
        super().__init__(ProcessState(mode=mode, kinds=cluster.kinds))
        self._stores = stores
        self._sources: dict[bytes, SourceFile] = {
            source.digest[:DIGEST_BYTES]: source
            for source in sorted(cluster.sources, key=lambda s: s.digest)
        }
        schema = stores[0] / _SCHEMA_FILE
        self._study_fields = schema.exists() and json.loads(schema.read_text())["study_fields"]
        self._parsers = _Parsers(count)

    def create(self, schema: Schema) -> None:
        self._writing("create")
        if unknown := [kind.table for kind in schema.kinds if kind not in KINDS]:
            raise EngineError(f"files: SSEARCH outputs hold no {', '.join(unknown)}")
        text = json.dumps({"study_fields": schema.study_fields})
        write_aside(self._stores[0] / _SCHEMA_FILE, text)
        self._study_fields = schema.study_fields

    def insert(self, kind: Kind, documents: Sequence[Any]) -> None:
        """Store nothing; mark the files' documents up to these as stored."""
        self._writing("insert")
        last: dict[bytes, int] = {}
        for document_id in ids_of(documents):
            prefix, _, ordinal = split_id(document_id)
            last[prefix] = max(last.get(prefix, 0), ordinal + 1)
        with self._shared.lock:
            for prefix, count in last.items():
                source = self._sources.get(prefix)
                if source is None:
                    raise EngineError(
                        f"files: {kind.table} documents of digest {prefix.hex()} belong to no "
                        "input file; this engine answers from the inputs only"
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
            _, of, ordinal = split_id(document_id)
            stored = self._sources[prefix].documents if prefix in self._sources else None
            if stored is not None and of is kind and ordinal < stored[kind.number]:
                by_file.setdefault(prefix, set()).add(document_id)
        tasks = [
            self._task(Find(kind, limit=len(ids)), self._sources[prefix], frozenset(ids))
            for prefix, ids in by_file.items()
        ]
        by_id = {d["_id"]: d for documents in self._run(tasks) for d in documents}
        return [by_id.get(document_id) for document_id in document_ids]

    def scan(self, query: Scan) -> list[Document]:
        return query.merged(list(self._all(query)))

    def find(self, query: Find) -> list[Document]:
        if query.order_by is not None:
            self._table(query.kind).column(query.order_by)
        return query.merged(self._all(query))

    def count(self, query: Count) -> int:
        return sum(self._all(query))

    def top(self, query: Top) -> list[tuple[Any, int]]:
        self._table(query.kind).column(query.field)
        # A value that is rare in one file may be frequent in all.
        return query.merged(self._all(replace(query, limit=sys.maxsize)))

    def histogram(self, query: Histogram) -> dict[int, int]:
        self._table(query.kind).column(query.field)
        return dict(sum(map(Counter, self._all(query)), Counter[int]()))

    def disk_bytes(self) -> int:
        """Size of the input files on disk."""
        return sum(source.size for source in self._sources.values() if any(source.documents))

    def close(self) -> None:
        self._closed = True
        self._parsers.close()

    def _table(self, kind: Kind) -> Table:
        return make_table(kind, study_fields=self._study_fields)

    def _task(self, query: Any, source: SourceFile, ids: frozenset[bytes] | None = None) -> Task:
        number = source.documents[query.kind.number]
        return Task(
            source.path, source.digest, number, self._study_fields, query, ids, source.format
        )

    def _all(self, query: Scan | Find | Count | Top | Histogram) -> Iterator[Any]:
        """The answers of all files; the largest are read first, so that none is waited for."""
        if isinstance(query, Find | Count):
            self._table(query.kind).conditions(query.where)  # refuses fields beyond the study's
        sources = sorted(self._sources.values(), key=lambda s: -s.size)
        return self._run([self._task(query, s) for s in sources if s.documents[query.kind.number]])

    def _run(self, tasks: Sequence[Task]) -> Iterator[Any]:
        self._check_open()
        return self._parsers.run(tasks)


class FilesEngine(Engine):
    """The SSEARCH outputs themselves."""

    name = "files"
    title = "Plain files"
    in_first_study = True
    encoding = "arrow"
    # Nothing is written, so nothing can be lost.
    lossy_levels = frozenset()
    flags = Flags(
        embedded=True,
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
    Settings = FilesSettings

    def connect(self, cluster: Cluster, mode: Mode) -> FilesClient:
        settings: FilesSettings = self.settings_of(cluster.settings)
        stores = self.stores_of(cluster, mode)
        count = settings.processes or processors()
        sources = len(cluster.sources)
        return FilesClient(cluster, mode, stores, max(1, min(count, sources or count)))
