"""What one process does with an HBase cluster."""

from __future__ import annotations

import os
import socket
import time
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
from storewise.engines.hbase import health
from storewise.engines.hbase.connection import FAMILY, NAMESPACE, Connection, cells_of, idl
from storewise.engines.hbase.rows import RowFormat
from storewise.engines.hbase.settings import HbaseSettings
from storewise.engines.support.clients import ProcessState, ThreadClient
from storewise.engines.support.splits import split_points
from storewise.engines.support.table import make_tables

#: A table's attribute with its schema; HBase keeps attributes that it does not know.
_SCHEMA = b"STOREWISE"
#: Servers move regions at times: where they are is asked again after that, s.
_REGIONS_SECONDS = 10.0
_CONNECT_SECONDS = 10.0
#: Rows that one call reads.
_MAX_GETS = 500
#: For a table with all its regions.
_CREATE_SECONDS = 180.0
#: A gateway answers within its own time for an operation; its client waits a little longer, s.
_GATEWAY_SECONDS = 8.0


@dataclass(frozen=True, slots=True)
class Regions:
    """Where the regions of a table are, in the order of their first keys."""

    until: float
    """As far as `time.monotonic` this is taken for true."""
    starts: list[bytes]
    owners: list[str | None]
    """Names of the region servers' nodes."""


@dataclass(slots=True, kw_only=True, eq=False)
class Shared(ProcessState[RowFormat]):
    """What the clients of one process have in common."""

    settings: HbaseSettings
    durability: str
    """Of each put: https://hbase.apache.org/book.html#wal.durability"""
    gateways: tuple[Endpoint, ...]
    servers: tuple[Endpoint, ...]
    """Those that hold documents."""
    regions: dict[Kind, Regions] = field(default_factory=dict)
    numbers: Iterator[int] = field(default_factory=lambda: count(os.getpid()))

    def connection(self, seconds: float | None = None) -> Connection:
        """A new connection to a gateway: on this host where there is one, else in turn."""
        here = [e for e in self.gateways if e.host == socket.gethostname()] or self.gateways
        return Connection(
            here[next(self.numbers) % len(here)],
            seconds or self.settings.operation_seconds + _GATEWAY_SECONDS,
            self.durability,
            lambda: health.unreachable(self.servers),
        )


class HbaseClient(ThreadClient[Shared, RowFormat]):
    """One thread's client: a gateway takes one call at a time on each connection."""

    engine_name = "hbase"

    def __init__(self, shared: Shared) -> None:
        super().__init__(shared)
        self._connection = shared.connection()

    def _connect(self) -> None:
        self._connection.ping()

    def _disconnect(self) -> None:
        self._connection.close()

    def check_connection(self) -> None:
        """Read the schema that was created; EngineError if no server answers."""
        with closing(self._shared.connection(_CONNECT_SECONDS)) as connection:
            connection.ping()
        self._learn()

    # The schema.

    def _schemas(self) -> dict[bytes, str]:
        """The schema that is noted at each table of ours."""
        tables = self._connection.call("getTableDescriptorsByNamespace", NAMESPACE)
        notes = {t.tableName.qualifier: (t.attributes or {}).get(_SCHEMA) for t in tables}
        return {name: note.decode() for name, note in notes.items() if note is not None}

    def _read_note(self) -> str | None:
        return next(iter(self._schemas().values()), None)

    def _make_tables(self, schema: Schema) -> dict[Kind, RowFormat]:
        return {kind: RowFormat(table) for kind, table in make_tables(schema).items()}

    def create(self, schema: Schema) -> None:
        """Tables are split while they are made, and spread over the region servers."""
        shared = self._writing("create")
        note, known = self._new_note(schema), self._schemas()
        family = idl.TColumnFamilyDescriptor(
            name=FAMILY,
            compressionType=getattr(idl.TCompression, shared.settings.compression.upper()),
            maxVersions=1,
        )

        def make(kind: Kind) -> None:
            table = idl.TTableDescriptor(
                tableName=idl.TTableName(qualifier=kind.table.encode()),
                columns=[family],
                attributes={_SCHEMA: note.encode()},
            )
            regions = max(1, len(shared.servers)) * shared.settings.regions_per_server
            keys = [point.rstrip(b"\0") for point in split_points(kind, regions)]
            with closing(shared.connection(_CREATE_SECONDS)) as connection:
                connection.call("createTable", table, keys)

        missing = [kind for kind in schema.kinds if kind.table.encode() not in known]
        with ThreadPoolExecutor(len(schema.kinds)) as pool:
            list(pool.map(make, missing))
        self._use_schema(schema)

    # Writing.

    def insert(self, kind: Kind, documents: Sequence[Document]) -> None:
        self._writing("insert")
        rows = self._table(kind)
        self._connection.put(rows.name, rows.rows(documents))

    def update(self, kind: Kind, document_id: bytes, changes: Mapping[str, Any]) -> bool:
        self._writing("update")
        rows = self._table(kind)
        cells = rows.cells(changes)
        return self._connection.update(rows.name, document_id, rows.present, cells)

    def delete(self, kind: Kind, document_id: bytes) -> bool:
        self._writing("delete")
        return self._connection.delete(self._table(kind).name, document_id)

    # Reading.

    def get(self, kind: Kind, document_id: bytes) -> Document | None:
        rows = self._table(kind)
        (cells,) = self._connection.get(rows.name, [document_id])
        return None if cells is None else rows.document(document_id, cells)

    def get_many(self, kind: Kind, document_ids: Sequence[bytes]) -> list[Document | None]:
        rows = self._table(kind)
        documents: dict[bytes, Document] = {}
        unique = list(dict.fromkeys(document_ids))
        for start in range(0, len(unique), _MAX_GETS):
            ids = unique[start : start + _MAX_GETS]
            for row, cells in zip(ids, self._connection.get(rows.name, ids), strict=True):
                if cells is not None:
                    documents[row] = rows.document(row, cells)
        return [documents.get(document_id) for document_id in document_ids]

    def scan(self, query: Scan) -> list[Document]:
        rows = self._table(query.kind)
        # The first row key behind another one has a zero byte more.
        start = query.start if query.after is None else query.after + b"\0"
        results = self._connection.scan(rows.name, start, query.limit)
        return [rows.document(result.row, cells_of(result)) for result in results]

    def count(self, query: Count) -> int:
        """By a scan of the keys; with conditions it reads every document."""
        if query.where:
            return super().count(query)
        table = self._table(query.kind).name
        return sum(1 for _ in self._connection.scan(table, b"", float("inf"), keys_only=True))

    def owner(self, kind: Kind, document_id: bytes) -> str | None:
        """The region server of the id's region, as it was at most 10 s ago: each operation asks."""
        known = self._shared.regions.get(kind)
        if known is None or time.monotonic() > known.until:
            known = self._shared.regions[kind] = self._regions(kind)
        return known.owners[bisect_right(known.starts, document_id) - 1]

    def _regions(self, kind: Kind) -> Regions:
        nodes = {(e.address.encode(), e.port): e.name for e in self._shared.servers}
        until = time.monotonic() + _REGIONS_SECONDS
        found = self._connection.call("getAllRegionLocations", self._table(kind).name)
        found.sort(key=lambda region: region.regionInfo.startKey or b"")
        starts = [region.regionInfo.startKey or b"" for region in found]
        servers = [(region.serverName.hostName, region.serverName.port) for region in found]
        return Regions(until, starts, list(map(nodes.get, servers)))

    def disk_bytes(self) -> int:
        """Files of tables and write-ahead logs (`health.disk_bytes`)."""
        return health.disk_bytes(self._shared.servers)
