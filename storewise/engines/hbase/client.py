"""What one process does with an HBase cluster."""

from __future__ import annotations

import os
import socket
import time
import weakref
from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass, field
from itertools import count
from typing import Any

from storewise.documents import Document, Kind
from storewise.engines.contract.engine import Endpoint, Schema
from storewise.engines.contract.queries import Count, Scan
from storewise.engines.hbase import counters as hbase_status
from storewise.engines.hbase.connection import Cells, HappybaseLink, HappybaseRows, Link, Rows
from storewise.engines.hbase.rows import Layout, layout_of, make_layouts
from storewise.engines.hbase.settings import LEVELS, HbaseSettings
from storewise.engines.hbase.tables import About, make_table, tables_of
from storewise.engines.support.clients import ProcessClient, ProcessState
from storewise.engines.support.stores import chunks
from storewise.errors import EngineError

#: Rows of one get.
_GET_LIST = 500
#: Bytes of values of one call that puts rows, and rows at most.
_PUT_BYTES = 4 << 20
_PUT_ROWS = 5000
#: Where regions are is asked again after that, s: servers move them at times.
_LOCATIONS_SECONDS = 10.0
_UPDATE_TRIES = 50
_GREET_SECONDS = 10.0
#: For a table with all its regions.
_CREATE_SECONDS = 180.0
#: A gateway answers within its own time for an operation; its client waits a little longer.
_PATIENCE = 8.0


@dataclass(slots=True, kw_only=True, eq=False)
class Shared(ProcessState[Layout]):
    """What the clients of one process have in common."""

    settings: HbaseSettings
    level: str
    gateways: tuple[Endpoint, ...]
    """Of Thrift 2."""
    others: tuple[Endpoint, ...]
    """Of Thrift 1, for happybase."""
    servers: tuple[Endpoint, ...]
    """Those that hold documents."""
    locations: dict[Kind, tuple[float, list[bytes], list[str]]] = field(default_factory=dict)
    open: weakref.WeakSet[HbaseClient] = field(default_factory=weakref.WeakSet)
    first: HbaseClient | None = None
    """The process's own."""
    numbers: Iterator[int] = field(default_factory=lambda: count(os.getpid()))

    def link(self) -> Link:
        """A new connection to a gateway of Thrift 2: on this host, else in turn."""
        seconds = self.settings.operation_seconds + _PATIENCE
        return Link(self._one(self.gateways), seconds, self.explain)

    def rows(self, link: Link) -> Rows:
        durability = LEVELS[self.level].durability
        if self.settings.gateway == "thrift2":
            return Rows(link, durability)
        seconds = self.settings.operation_seconds + _PATIENCE
        link = HappybaseLink(self._one(self.others), seconds, self.explain)
        return HappybaseRows(link, durability)

    def explain(self) -> str:
        """Which region servers cannot be reached: gateways do not always say it."""
        return hbase_status.unreachable(self.servers)

    def _one(self, gateways: tuple[Endpoint, ...]) -> Endpoint:
        here = tuple(e for e in gateways if e.host == socket.gethostname()) or gateways
        return here[next(self.numbers) % len(here)]


class HbaseClient(ProcessClient[Shared, Layout]):
    """One thread's connections: a gateway takes one call at a time on each."""

    engine_name = "hbase"

    def __init__(self, shared: Shared) -> None:
        super().__init__(shared)
        self._link = shared.link()
        self._rows = shared.rows(self._link)
        self._buffers: dict[Kind, dict[bytes, Cells]] = {}
        # Threads end with their step, and each connection holds a thread of its gateway.
        self._end = weakref.finalize(self, _shut, self._link, self._rows.link)
        with shared.lock:
            shared.first = shared.first or self
            shared.open.add(self)

    def open_thread(self) -> HbaseClient:
        self._check_open()
        client = HbaseClient(self._shared)
        try:
            for link in {client._link, client._rows.link}:
                with link.words("connect"):
                    link.client("connect")
        except EngineError:
            client.close_thread()
            raise
        return client

    def close_thread(self) -> None:
        if self is not self._shared.first:
            self._end()

    def check_connection(self) -> None:
        """Read the schema that was created; EngineError if no server answers."""
        with closing(Link(self._link.endpoint, _GREET_SECONDS)) as link:
            link.call("connect", lambda c: c.getThriftServerType())
        self._learn()

    def create(self, schema: Schema) -> None:
        shared = self._writing("create")
        if schema.indexes and schema.index_time != "none":
            raise EngineError("hbase has no secondary indexes: its flags say so")
        layouts = make_layouts(schema, shared.settings.layout)
        known = tables_of(self._link, shared.kinds)
        for kind in schema.kinds:
            wanted = About(layout_of(kind, shared.settings.layout), schema.study_fields)
            if kind in known and known[kind] != wanted:
                about = known[kind]
                raise EngineError(
                    f"hbase: {kind.table} was created with study_fields: "
                    f"{str(about.study_fields).lower()} in layout {about.layout}"
                )
        missing = [kind for kind in schema.kinds if kind not in known]

        def make(kind: Kind) -> None:
            with closing(Link(self._link.endpoint, _CREATE_SECONDS, shared.explain)) as link:
                make_table(link, kind, schema, shared.settings, shared.level, len(shared.servers))

        with ThreadPoolExecutor(len(schema.kinds)) as pool:
            list(pool.map(make, missing))
        with shared.lock:
            shared.tables = layouts

    def _learn(self) -> None:
        """Take the schema of the tables that there are."""
        notes = tables_of(self._link, self._shared.kinds)
        layouts = {
            kind: make_layouts(Schema((kind,), study_fields=about.study_fields), about.layout)[kind]
            for kind, about in notes.items()
        }
        with self._shared.lock:
            self._shared.tables = layouts

    def insert(self, kind: Kind, documents: Sequence[Document]) -> None:
        shared = self._writing("insert")
        rows = self._table(kind).rows(documents)
        size = shared.settings.buffer
        if not size:
            self._put(kind, rows)
            return
        self._link.client("insert")  # a closed client says so at once
        buffer = self._buffers.setdefault(kind, {})
        buffer |= rows
        if len(buffer) >= size:
            self._send(kind)

    def _send(self, kind: Kind) -> None:
        self._put(kind, self._buffers[kind])
        del self._buffers[kind]

    def _put(self, kind: Kind, rows: Mapping[bytes, Cells]) -> None:
        part: dict[bytes, Cells] = {}
        size = 0
        for row, cells in rows.items():
            part[row] = cells
            size += sum(map(len, cells.values()))
            if size >= _PUT_BYTES or len(part) >= _PUT_ROWS:
                self._rows.put(_name(kind), part)
                part, size = {}, 0
        if part:
            self._rows.put(_name(kind), part)

    def flush(self) -> None:
        for kind in list(self._buffers):
            self._send(kind)

    def finish(self) -> None:
        self._writing("finish")
        self.flush()

    def get(self, kind: Kind, document_id: bytes) -> Document | None:
        layout = self._reading(kind)
        (cells,) = self._rows.get(_name(kind), [document_id])
        return None if cells is None else layout.document(document_id, cells)

    def get_many(self, kind: Kind, document_ids: Sequence[bytes]) -> list[Document | None]:
        layout = self._reading(kind)
        documents: dict[bytes, Document] = {}
        for ids in chunks(list(dict.fromkeys(document_ids)), _GET_LIST):
            for row, cells in zip(ids, self._rows.get(_name(kind), ids), strict=True):
                if cells is not None:
                    documents[row] = layout.document(row, cells)
        return [documents.get(document_id) for document_id in document_ids]

    def _reading(self, kind: Kind) -> Layout:
        """How the kind is kept; what this thread has buffered is sent first."""
        if kind in self._buffers:
            self._send(kind)
        return self._table(kind)

    def update(self, kind: Kind, document_id: bytes, changes: Mapping[str, Any]) -> bool:
        """Update in one request if the new cells do not depend on the stored ones; else read, then
        compare and set, which is repeated if another client has changed the row meanwhile."""
        self._writing("update")
        layout = self._reading(kind)
        layout.table.check_changes(changes)
        if (update := layout.unconditional_update(changes)) is not None:
            done = self._rows.update_existing(_name(kind), document_id, *update)
            if done is not None:
                return done
        for _ in range(_UPDATE_TRIES):
            (old,) = self._rows.get(_name(kind), [document_id])
            if old is None:
                return False
            new = layout.changed(document_id, old, changes)
            guard = layout.guard(new)
            if self._rows.replace(_name(kind), document_id, guard, old[guard], new):
                return True
        raise EngineError(
            f"hbase: update of {kind.table}: other clients changed the document "
            f"{_UPDATE_TRIES} times meanwhile"
        )

    def delete(self, kind: Kind, document_id: bytes) -> bool:
        """Deletes what there is now: a delete of HBase's own time would hide a document that is
        inserted again in the same millisecond."""
        self._writing("delete")
        self._reading(kind)
        until = self._rows.written(_name(kind), document_id)
        if until is None:
            return False
        self._rows.delete(_name(kind), document_id, until)
        return True

    def scan(self, query: Scan) -> list[Document]:
        layout = self._reading(query.kind)
        if query.limit == 0:
            return []
        # The first row key behind another one has a zero byte more.
        start = query.start if query.after is None else query.after + b"\0"
        rows = self._rows.scan(_name(query.kind), start, query.limit)
        return [layout.document(row, cells) for row, cells in rows]

    def count(self, query: Count) -> int:
        """By the region servers; with conditions it reads every document."""
        if query.where:
            return super().count(query)
        self._reading(query.kind)
        return self._rows.count(_name(query.kind))

    def owner(self, kind: Kind, document_id: bytes) -> str | None:
        """The region server of the id's region, as the master knew at most 10 s ago."""
        self._table(kind)
        known = self._shared.locations.get(kind)
        if known is None or time.monotonic() - known[0] > _LOCATIONS_SECONDS:
            known = self._shared.locations[kind] = self._locations(kind)
        _, starts, names = known
        return names[bisect_right(starts, document_id) - 1] or None

    def _locations(self, kind: Kind) -> tuple[float, list[bytes], list[str]]:
        """Now, the first keys of all regions, and the nodes that hold them."""
        nodes = {(e.address, e.port): e.name for e in self._shared.servers}
        now = time.monotonic()
        places = self._link.call("owner", lambda c: c.getAllRegionLocations(_name(kind)))
        regions = sorted((r.regionInfo.startKey or b"", r.serverName) for r in places)
        return (
            now,
            [start for start, _ in regions],
            [nodes.get((_text(s.hostName), s.port), "") for _, s in regions],
        )

    def disk_bytes(self) -> int:
        """Files of tables and write-ahead logs (`hbase_status.disk_bytes`)."""
        return hbase_status.disk_bytes(self._shared.servers)

    def close(self) -> None:
        """Closes the connections of all threads."""
        with self._shared.lock:
            self._shared.closed = True
            clients = list(self._shared.open)
        for client in clients:
            client._end()


def _shut(*links: Link) -> None:
    for link in links:
        link.close()


def _name(kind: Kind) -> bytes:
    return kind.table.encode()


def _text(value: str | bytes) -> str:
    return value.decode() if isinstance(value, bytes) else value
