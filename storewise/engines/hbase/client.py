"""The client of HBase."""

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
from storewise.engines.hbase.connection import NAMESPACE, Connection, idl
from storewise.engines.hbase.rows import RowFormat
from storewise.engines.support.clients import ProcessState, ThreadClient
from storewise.engines.support.splits import split_points
from storewise.engines.support.table import make_tables

#: The one column family.
_FAMILY = b"d"
#: A table's attribute with its schema; HBase keeps attributes that it does not know.
_SCHEMA = b"STOREWISE"
#: Rows of one request.
_MAX_ROWS = 2000
_KEYS_ONLY = b"FirstKeyOnlyFilter() AND KeyOnlyFilter()"
#: A value that no cell has: neither UTF-8 nor a number, and not the mark for null.
_NEVER_STORED = b"\xff\xff"
#: Servers move regions at times: where they are is asked again after that, s.
_REGIONS_SECONDS = 10.0
_CONNECT_SECONDS = 10.0
#: For a table with all its regions.
_CREATE_SECONDS = 180.0
#: A gateway answers within its own time for an operation; its client waits a little longer, s.
_GATEWAY_SECONDS = 8.0


@dataclass(slots=True, kw_only=True, eq=False)
class Shared(ProcessState[RowFormat]):
    """The shared state of a process."""

    durability: str
    """Durability of each put: https://hbase.apache.org/book.html#wal.durability"""
    seconds: float
    """Seconds for which the gateways try a request."""
    regions_per_server: int
    gateways: tuple[Endpoint, ...]
    servers: tuple[Endpoint, ...]
    """The servers that hold documents."""
    regions: dict[Kind, tuple[float, list[bytes], list[str | None]]] = field(default_factory=dict)
    """Cached regions: expiry (`time.monotonic`), first keys in order, names of their nodes."""
    numbers: Iterator[int] = field(default_factory=lambda: count(os.getpid()))

    def connection(self, seconds: float | None = None) -> Connection:
        """A new connection to a gateway: on this host where there is one, else in turn."""
        here = [e for e in self.gateways if e.host == socket.gethostname()] or self.gateways
        gateway = here[next(self.numbers) % len(here)]
        patience = seconds or self.seconds + _GATEWAY_SECONDS
        return Connection(gateway, patience, lambda: health.unreachable(self.servers))


class HbaseClient(ThreadClient[Shared, RowFormat]):
    """One thread's client: a gateway takes one call at a time on each connection."""

    engine_name = "hbase"

    def __init__(self, shared: Shared) -> None:
        super().__init__(shared)
        self._connection = shared.connection()
        self._call = self._connection.call
        self._durability = getattr(idl.TDurability, shared.durability)

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
        """The schema note of each table of Storewise."""
        tables = self._call("getTableDescriptorsByNamespace", NAMESPACE)
        notes = {t.tableName.qualifier: (t.attributes or {}).get(_SCHEMA) for t in tables}
        return {name: note.decode() for name, note in notes.items() if note is not None}

    def _read_note(self) -> str | None:
        return next(iter(self._schemas().values()), None)

    def _make_tables(self, schema: Schema) -> dict[Kind, RowFormat]:
        return {kind: RowFormat(table) for kind, table in make_tables(schema).items()}

    def create(self, schema: Schema) -> None:
        """Tables are split while they are made, and spread over the region servers."""
        shared = self._writing("create")
        note, known = self._new_note(schema).encode(), self._schemas()
        family = idl.TColumnFamilyDescriptor(name=_FAMILY, maxVersions=1)
        regions = max(1, len(shared.servers)) * shared.regions_per_server

        def make(kind: Kind) -> None:
            name = idl.TTableName(qualifier=kind.table.encode())
            table = idl.TTableDescriptor(name, [family], {_SCHEMA: note})
            keys = [point.rstrip(b"\0") for point in split_points(kind, regions)]
            with closing(shared.connection(_CREATE_SECONDS)) as connection:
                connection.call("createTable", table, keys)

        missing = [kind for kind in schema.kinds if kind.table.encode() not in known]
        with ThreadPoolExecutor(len(schema.kinds)) as pool:
            list(pool.map(make, missing))
        self._use_schema(schema)

    # Writing.

    def _put(self, row: bytes, cells: Mapping[bytes, bytes]) -> Any:
        values = [idl.TColumnValue(_FAMILY, name, value) for name, value in cells.items()]
        return idl.TPut(row, values, self._durability)

    def insert(self, kind: Kind, documents: Sequence[Document]) -> None:
        self._writing("insert")
        rows = self._table(kind)
        puts = [self._put(row, cells) for row, cells in rows.rows(documents).items()]
        for start in range(0, len(puts), _MAX_ROWS):
            self._call("putMultiple", rows.name, puts[start : start + _MAX_ROWS])

    def update(self, kind: Kind, document_id: bytes, changes: Mapping[str, Any]) -> bool:
        """Update in one request, on the condition that the row is there: it has a certain cell."""
        self._writing("update")
        rows = self._table(kind)
        put = idl.TMutation(put=self._put(document_id, rows.cells(changes)))
        mutations = idl.TRowMutations(document_id, [put])
        there = (_FAMILY, rows.present, idl.TCompareOperator.NOT_EQUAL, _NEVER_STORED)
        done: bool = self._call("checkAndMutate", rows.name, document_id, *there, mutations)
        return done

    def delete(self, kind: Kind, document_id: bytes) -> bool:
        """Delete what a row has now, by its timestamp; returns whether there was a row.

        A delete without a timestamp would hide a row that is put again in the same millisecond.
        """
        self._writing("delete")
        table = self._table(kind).name
        (result,) = self._call("getMultiple", table, [idl.TGet(document_id)])
        if result.row is None:
            return False
        until = max(cell.timestamp for cell in result.columnValues)
        self._call("deleteSingle", table, idl.TDelete(document_id, until, self._durability))
        return True

    # Reading.

    def get(self, kind: Kind, document_id: bytes) -> Document | None:
        return self.get_many(kind, [document_id])[0]

    def get_many(self, kind: Kind, document_ids: Sequence[bytes]) -> list[Document | None]:
        rows = self._table(kind)
        documents: dict[bytes, Document] = {}
        gets = [idl.TGet(document_id) for document_id in dict.fromkeys(document_ids)]
        for start in range(0, len(gets), _MAX_ROWS):
            for result in self._call("getMultiple", rows.name, gets[start : start + _MAX_ROWS]):
                if result.row is not None:
                    documents[result.row] = rows.document(result)
        return [documents.get(document_id) for document_id in document_ids]

    def scan(self, query: Scan) -> list[Document]:
        rows = self._table(query.kind)
        # The first row key after another one has a zero byte more.
        start = query.start if query.after is None else query.after + b"\0"
        return list(map(rows.document, self._results(rows.name, start, query.limit)))

    def count(self, query: Count) -> int:
        """Count by a scan of the keys; with conditions every document is read."""
        if query.where:
            return super().count(query)
        table = self._table(query.kind).name
        return sum(1 for _ in self._results(table, b"", float("inf"), _KEYS_ONLY))

    def _results(
        self, table: bytes, start: bytes, limit: float, only: bytes | None = None
    ) -> Iterator[Any]:
        """Up to `limit` rows (``TResult``) from `start`, in the order of keys."""
        while limit > 0:
            number = int(min(limit, _MAX_ROWS))
            scan = idl.TScan(start, number, only)
            results = self._call("getScannerResults", table, scan, number)
            yield from results
            if len(results) < number:
                return
            limit -= number
            start = results[-1].row + b"\0"

    def owner(self, kind: Kind, document_id: bytes) -> str | None:
        """The region server of the id's region, cached for 10 s."""
        until, starts, owners = self._shared.regions.get(kind, (0.0, [], []))
        if time.monotonic() > until:
            until, starts, owners = self._shared.regions[kind] = self._regions(kind)
        return owners[bisect_right(starts, document_id) - 1]

    def _regions(self, kind: Kind) -> tuple[float, list[bytes], list[str | None]]:
        nodes = {(e.address.encode(), e.port): e.name for e in self._shared.servers}
        until = time.monotonic() + _REGIONS_SECONDS
        found = self._call("getAllRegionLocations", self._table(kind).name)
        found.sort(key=lambda region: region.regionInfo.startKey or b"")
        starts = [region.regionInfo.startKey or b"" for region in found]
        servers = [(region.serverName.hostName, region.serverName.port) for region in found]
        return until, starts, list(map(nodes.get, servers))

    def disk_bytes(self) -> int:
        """Files of tables and write-ahead logs (`health.disk_bytes`)."""
        return health.disk_bytes(self._shared.servers)
