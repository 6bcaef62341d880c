"""A Valkey server that keeps each document as a JSON text."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from valkey import Valkey
from valkey.exceptions import AuthenticationError, ValkeyError

from storewise.documents import Document, Kind
from storewise.engines.contract.engine import Client, Cluster, Endpoint, Flags, Mode, Schema
from storewise.engines.contract.queries import Scan
from storewise.engines.contract.server import Credentials, NodeSpec, Topology
from storewise.engines.support.clients import ProcessState, ThreadClient
from storewise.engines.support.json_documents import from_json, to_json
from storewise.engines.support.server_spec import ConfigSettings, ServerSpec, SpecEngine
from storewise.engines.support.servers import numbered_nodes
from storewise.engines.support.table import Table, make_tables
from storewise.errors import EngineError


class KeyvalueSettings(ConfigSettings):
    spec = ServerSpec.read(__package__)


@dataclass(slots=True, kw_only=True, eq=False)
class Shared(ProcessState[Table]):
    endpoint: Endpoint
    password: str


def driver(endpoint: Endpoint, password: str) -> Any:
    return Valkey(host=endpoint.address, port=endpoint.port, password=password, socket_timeout=10)


class KeyvalueClient(ThreadClient[Shared, Table]):
    """One thread's client; it has a connection of its own."""

    engine_name = "keyvalue"
    failures = (ValkeyError,)

    def __init__(self, shared: Shared) -> None:
        super().__init__(shared)
        self._valkey = driver(shared.endpoint, shared.password)

    def _connect(self) -> None:
        self._ask(lambda: self._valkey.ping())

    def _disconnect(self) -> None:
        self._valkey.close()

    def _ask(self, request: Callable[[], Any]) -> Any:
        self._check_open()
        with self._errors(str(self._shared.endpoint)):
            return request()

    def create(self, schema: Schema) -> None:
        self._writing("create")
        note = self._new_note(schema)
        self._ask(lambda: self._valkey.set(":schema", note))
        self._use_schema(schema)

    def _make_tables(self, schema: Schema) -> dict[Kind, Table]:
        return make_tables(schema)

    def _read_note(self) -> str | None:
        note = self._ask(lambda: self._valkey.get(":schema"))
        return None if note is None else note.decode()

    def insert(self, kind: Kind, documents: Sequence[Document]) -> None:
        self._writing("insert")
        rows, name = to_json(self._table(kind), documents), kind.table.encode()
        if rows:
            with self._valkey.pipeline() as pipe:
                pipe.mset({b"%b:%b" % (name, key): text for key, text in rows.items()})
                pipe.zadd(name, dict.fromkeys(rows, 0))
                self._ask(pipe.execute)

    def get(self, kind: Kind, document_id: bytes) -> Document | None:
        table, key = self._table(kind), b"%b:%b" % (kind.table.encode(), document_id)
        text = self._ask(lambda: self._valkey.get(key))
        return None if text is None else from_json(table, document_id, text)

    def update(self, kind: Kind, document_id: bytes, changes: Mapping[str, Any]) -> bool:
        """Read, changed, written: an update of another client between the two is lost."""
        self._writing("update")
        self._table(kind).check_changes(changes)
        old = self.get(kind, document_id)
        if old is not None:
            self.insert(kind, [{**old, **changes}])
        return old is not None

    def delete(self, kind: Kind, document_id: bytes) -> bool:
        self._writing("delete")
        name = self._table(kind).name.encode()
        self._ask(lambda: self._valkey.zrem(name, document_id))
        return bool(self._ask(lambda: self._valkey.delete(b"%b:%b" % (name, document_id))))

    def scan(self, query: Scan) -> list[Document]:
        name, limit = self._table(query.kind).name, query.limit
        first = b"[" + query.start if query.after is None else b"(" + query.after
        ids = self._ask(
            lambda: self._valkey.zrange(name, first, "+", bylex=True, offset=0, num=limit)
        )
        return [d for d in self.get_many(query.kind, ids) if d is not None]

    def disk_bytes(self) -> int:
        return int(self._ask(lambda: self._valkey.info("persistence"))["aof_current_size"])


class KeyvalueEngine(SpecEngine):
    name = "keyvalue"
    flags = Flags(
        embedded=False, authentication=True, updates=True, deletes=True, scans=True, count="scan"
    )
    Settings = KeyvalueSettings
    packages = ("valkey",)

    def roles(self, topology: Topology, settings: Mapping[str, Any]) -> tuple[NodeSpec, ...]:
        if topology.nodes > 1:
            raise EngineError("keyvalue is one server: leave nodes at 1")
        return super().roles(topology, settings)

    def not_ready_reason(self, endpoint: Endpoint, credentials: Credentials) -> str | None:
        try:
            with driver(endpoint, credentials.password) as valkey:
                valkey.ping()
        except AuthenticationError as error:
            raise EngineError(f"keyvalue: {endpoint} refuses the password: {error}") from error
        except ValkeyError as error:
            return str(error)
        return None

    def connect(self, cluster: Cluster, mode: Mode) -> Client:
        self.settings_of(cluster.settings)
        (endpoint,) = numbered_nodes(cluster)
        password = Credentials.of(cluster).password
        shared = Shared(mode=mode, kinds=cluster.kinds, endpoint=endpoint, password=password)
        return KeyvalueClient(shared).connected()
