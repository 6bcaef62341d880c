"""A dictionary in memory, and a log of its changes on disk."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from io import BufferedWriter
from pathlib import Path
from typing import Any, ClassVar

from storewise.documents import Document, Kind
from storewise.engines.contract.engine import Client, Cluster, Engine, Flags, Mode, Schema
from storewise.engines.contract.queries import Scan
from storewise.engines.support.clients import ProcessClient, ProcessState
from storewise.engines.support.table import Row, Table, make_tables
from storewise.metrics.host import tree_bytes


@dataclass(slots=True, kw_only=True, eq=False)
class Shared(ProcessState[Table]):
    """The state that all threads of a process share."""

    stores: tuple[Path, ...]
    sync: bool
    rows: dict[str, dict[bytes, Row]] = field(default_factory=dict)
    note: str | None = None


class DictionaryClient(ProcessClient[Shared, Table]):
    """The client of a process, shared by all its threads."""

    engine_name = "dictionary"

    def __init__(self, shared: Shared) -> None:
        super().__init__(shared)
        self._log: BufferedWriter | None = None
        for store in shared.stores:
            size = self._replay(store / "log")
        if shared.mode == "write":
            self._log = (shared.stores[0] / "log").open("ab")
            self._log.truncate(size)

    def _make_tables(self, schema: Schema) -> dict[Kind, Table]:
        return make_tables(schema)

    def _read_note(self) -> str | None:
        return self._shared.note

    def create(self, schema: Schema) -> None:
        self._write({"note": self._new_note(schema)})

    def insert(self, kind: Kind, documents: Sequence[Document]) -> None:
        table = self._table(kind)
        self._write({"table": kind.table, "rows": table.rows(documents)})

    def get(self, kind: Kind, document_id: bytes) -> Document | None:
        table = self._table(kind)
        row = self._shared.rows.get(kind.table, {}).get(document_id)
        return None if row is None else table.document(row)

    def update(self, kind: Kind, document_id: bytes, changes: Mapping[str, Any]) -> bool:
        self._writing("update")
        self._table(kind).check_changes(changes)
        with self._shared.lock:
            old = self.get(kind, document_id)
            if old is not None:
                self.insert(kind, [{**old, **changes}])
        return old is not None

    def delete(self, kind: Kind, document_id: bytes) -> bool:
        with self._shared.lock:
            there = document_id in self._shared.rows.get(kind.table, ())
            self._write({"table": kind.table, "deleted": document_id})
        return there

    def scan(self, query: Scan) -> list[Document]:
        table = self._table(query.kind)
        with self._shared.lock:
            rows = self._shared.rows.get(query.kind.table, {})
            return query.answer(table.document(rows[i]) for i in sorted(rows))

    def disk_bytes(self) -> int:
        return tree_bytes(self._shared.stores)

    def close(self) -> None:
        self._closed = True
        if self._log is not None:
            self._log.close()

    def _write(self, entry: dict[str, Any]) -> None:
        """Add a line to the log, and its content to the dictionary; acknowledged on return."""
        line = json.dumps(entry, default=bytes.hex)
        with self._writing("a change").lock:
            assert self._log is not None
            self._log.write(f"{line}\n".encode())
            self._log.flush()
            if self._shared.sync:
                os.fsync(self._log.fileno())
            self._take(json.loads(line))

    def _replay(self, path: Path) -> int:
        """Take in a log; the bytes of its whole lines, because a kill may tear the last one."""
        size = 0
        for line in path.open("rb") if path.exists() else ():
            if line.endswith(b"\n"):
                self._take(json.loads(line))
                size += len(line)
        return size

    def _take(self, entry: dict[str, Any]) -> None:
        if "note" in entry:
            self._shared.note = entry["note"]
            self._learn()
            return
        rows = self._shared.rows.setdefault(entry["table"], {})
        if "deleted" in entry:
            rows.pop(bytes.fromhex(entry["deleted"]), None)
        (table,) = (t for t in self._shared.tables.values() if t.name == entry["table"])
        is_bytes = [column.type in ("id", "key") for column in table.columns]
        for stored in entry.get("rows", ()):
            pairs = zip(stored, is_bytes, strict=True)
            row = tuple(bytes.fromhex(v) if b and v is not None else v for v, b in pairs)
            rows[row[0]] = row


class DictionaryEngine(Engine):
    """An engine: a dictionary in the client's process."""

    name = "dictionary"
    title = "Dictionary"
    flags = Flags(embedded=True, updates=True, deletes=True, scans=True, count="scan")
    consistencies: ClassVar[Mapping[str, str]] = {
        "durable": "a batch is a line of the log, on disk (fsync) when acknowledged",
        "relaxed": "a batch is a line of the log, with the operating system when acknowledged",
    }

    def connect(self, cluster: Cluster, mode: Mode) -> Client:
        sync = self.level_of(cluster) == "durable"
        stores = self.stores_of(cluster, mode)
        return DictionaryClient(Shared(mode=mode, kinds=cluster.kinds, stores=stores, sync=sync))
