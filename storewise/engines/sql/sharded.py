"""Independent SQL servers that share the documents by a hash of their ids.

The servers know nothing of each other: the client sends each document to the server that its id
belongs to, asks that one for it, and asks all of them what concerns all documents. This is how
published comparisons spread PostgreSQL and MySQL over several hosts. A batch is one transaction
on each server that gets a part of it; there is no transaction over several servers.
"""

from __future__ import annotations

import random
import re
import time
from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain
from typing import Any, ClassVar, NoReturn, TypeVar

from storewise.documents import Field, FieldType, Kind
from storewise.engines.contract.engine import Cluster, Endpoint, Mode, Schema, hash_placement
from storewise.engines.contract.queries import Count, Find
from storewise.engines.contract.server import Credentials
from storewise.engines.sql.reads import FLAGS, Request, SqlReads, SqlState
from storewise.engines.support.batches import ids_of, is_batch, prepare, rows_of, taken
from storewise.engines.support.server_spec import SpecEngine
from storewise.engines.support.servers import numbered_nodes
from storewise.engines.support.table import (
    SCHEMA_TABLE,
    Row,
    Table,
    create_table,
    make_tables,
    quoted,
)
from storewise.errors import EngineError

#: Most attempts for a transaction that the server rolls back because of another one.
_TRIES = 20
_Result = TypeVar("_Result")


@dataclass(slots=True, kw_only=True, eq=False)
class Shared(SqlState):
    """The shared state of a process; `stores` are the servers."""

    settings: Any
    credentials: Any
    """The session's `Credentials`."""
    consistency: str


class ShardedClient(SqlReads[Shared]):
    """One thread's connections to the servers; a lost connection is reopened when needed.

    A subclass implements the driver's part: class variables and abstract methods. Exceptions in
    `failures` become EngineErrors.
    """

    mark = "%s"
    types: Mapping[FieldType, str]
    """SQL types of columns."""
    note_table: str = SCHEMA_TABLE
    """The table that holds the note of the schema."""
    analyze_statement: str = "ANALYZE"
    """Followed by a table's name, it collects the planner's statistics."""
    loads_batches: ClassVar[bool] = False
    """Whether `_load` takes record batches as they are."""

    def __init__(self, shared: Shared) -> None:
        super().__init__(shared)
        self._cursors: dict[int, Any] = {}
        """One of PEP 249 for each server; its `connection` commits each statement by itself."""
        # Its threads start when they are first needed.
        self._threads = ThreadPoolExecutor(len(self._stores), "storewise-server")

    # What the driver does.

    @abstractmethod
    def _open(self, server: Endpoint) -> Any:
        """Connect and sign in; returns the cursor."""

    @abstractmethod
    def _lost(self, cursor: Any, error: Exception) -> bool:
        """Whether a connection cannot be used again after an error."""

    @abstractmethod
    def _undone(self, error: Exception) -> bool:
        """Whether the server has rolled back a transaction because of another one."""

    @abstractmethod
    def _load(self, cursor: Any, table: Table, documents: Any) -> None:
        """Insert rows (of `Table.rows`, in the order of ids) or a record batch in one transaction.

        Rows that exist are overwritten; of equal ids the last one counts."""

    def _make_index(self, store: int, name: str, table: Table, column: Field) -> None:
        """Make a secondary index where there is none of this name."""
        on = f"{quoted(table.name)} ({quoted(column.name)})"
        self._run(store, f"CREATE INDEX IF NOT EXISTS {quoted(name)} ON {on}")

    def _table_ddl(self, table: Table) -> str:
        return create_table(table, self.types)

    def _create_tables(self, store: int) -> None:
        """Create missing tables, and the one that keeps the schema."""
        columns = f"(id INTEGER PRIMARY KEY, content {self.types['str']})"
        self._run(store, f"CREATE TABLE IF NOT EXISTS {quoted(self.note_table)} {columns}")
        for table in self._shared.tables.values():
            self._run(store, self._table_ddl(table))

    def _has_note(self, store: int) -> bool:
        there = "SELECT 1 FROM information_schema.tables WHERE table_name = %s"
        return bool(self._rows(store, there, (self.note_table,)))

    # Creating and finding tables.

    def create(self, schema: Schema) -> None:
        self._writing("create")
        note, name = self._new_note(schema), quoted(self.note_table)
        self._use_schema(schema)
        self._on_all(self._create_tables)
        if schema.index_time == "before":
            self._make_indexes(schema)

        def write_note(store: int) -> None:
            self._run(store, f"DELETE FROM {name}")
            self._run(store, f"INSERT INTO {name} VALUES (1, {self.mark})", (note,))

        # The last step: a reader of a half-made schema must find none.
        self._on_all(write_note)

    def _make_tables(self, schema: Schema) -> dict[Kind, Table]:
        return make_tables(schema, composite=True)

    def _make_indexes(self, schema: Schema) -> None:
        def make(store: int) -> None:
            for kind, name in schema.indexes:
                table = self._shared.tables[kind]
                self._make_index(store, f"{kind.table}_{name}", table, table.column(name))

        self._on_all(make)

    def check_connection(self) -> None:
        """Log in to every server and read the tables that `create` has made (none before that);
        EngineError if a server does not answer or refuses the password."""
        self._learn()

    def _read_note(self) -> str | None:
        def look(store: int) -> str | None:
            if not self._has_note(store):
                return None
            rows = self._rows(store, f"SELECT content FROM {quoted(self.note_table)}")
            return str(rows[0][0]) if rows else None

        notes = self._on_all(look)
        for server, note in zip(self._stores, notes, strict=True):
            if note != notes[0]:
                raise EngineError(
                    f"{self.engine_name}: {server} has the schema {note or 'none'}, "
                    f"{self._stores[0]} {notes[0] or 'none'}: every server needs the same"
                )
        return notes[0]

    def finish(self) -> None:
        super().finish()

        def analyze(store: int) -> None:
            for table in self._shared.tables.values():
                self._run(store, f"{self.analyze_statement} {self._source(table, store)}")

        # Without statistics planners guess until the server finds the time.
        if self.analyze_statement:
            self._on_all(analyze)

    # Writing.

    def insert(self, kind: Kind, documents: Sequence[Any]) -> None:
        self._writing("insert")
        table = self._table(kind)
        groups = self._grouped(table, taken(table, documents))

        def load(store: int) -> None:
            self._again(lambda: self._load(self._cursor(store), table, groups[store]))

        self._on(list(groups), load)

    def _grouped(self, table: Table, documents: Any) -> dict[int, Any]:
        """Server -> its rows or record batch; servers without rows are left out."""
        is_columns = self.loads_batches and is_batch(documents)
        if not is_columns:
            # Sorted by id, so that two clients that write the same rows do not deadlock.
            documents = sorted(rows_of(table, documents), key=table.key_of_row())
        if len(self._stores) == 1 or not len(documents):
            return {0: documents} if len(documents) else {}
        ids = ids_of(documents) if is_columns else map(table.id_of_row(), documents)
        places: dict[int, list[int]] = {}
        for place, document_id in enumerate(ids):
            places.setdefault(self._store_of(document_id), []).append(place)
        if is_columns:
            return {store: documents.take(mine) for store, mine in places.items()}
        return {store: [documents[place] for place in mine] for store, mine in places.items()}

    def _change(self, store: int, sql: str, values: Sequence[Any]) -> int:
        changed: int = self._run(store, sql, values).rowcount
        return changed

    # Reading.

    def owner(self, kind: Kind, document_id: bytes) -> str | None:
        name: str = self._stores[self._store_of(document_id)].name
        return name

    def _store_of(self, document_id: bytes) -> int:
        return self._router.stores_of(document_id)[0]

    def _source(self, table: Table, store: int) -> str:
        return quoted(table.name)

    def _rows(self, store: int, sql: str, values: Sequence[Any] = ()) -> Sequence[Row]:
        rows: Sequence[Row] = self._run(store, sql, values).fetchall()
        return rows

    def _gather(self, requests: Sequence[Request]) -> list[Sequence[Row]]:
        def ask(store: int) -> list[Sequence[Row]]:
            return [self._rows(*request) for request in requests if request[0] == store]

        stores = list(dict.fromkeys(request[0] for request in requests))
        return list(chain.from_iterable(self._on(stores, ask)))

    def _uses_index(self, plan: str, query: Find | Count) -> bool:
        # MariaDB and MySQL name the indexes that they could have taken, too.
        return super()._uses_index(re.sub(r'"possible_keys": \[[^]]*\]', "", plan), query)

    # Connections and threads.

    def _run(self, store: int, sql: str, values: Sequence[Any] = ()) -> Any:
        """Execute a statement, retried if it was rolled back because of another transaction;
        returns the cursor."""
        cursor = self._cursors.get(store) or self._cursor(store)
        try:
            cursor.execute(sql, values or None)
        except self.failures as error:
            if not self._undone(error):
                self._fail(store, error)
            try:
                self._again(partial(cursor.execute, sql, values or None))
            except self.failures as another:
                self._fail(store, another)
        return cursor

    def _again(self, transaction: Callable[[], _Result]) -> _Result:
        """Run a transaction; run it again after a deadlock or a serialization failure.

        It waits between attempts, with random exponential backoff up to 0.2 s."""
        for tried in range(_TRIES - 1):
            try:
                return transaction()
            except self.failures as error:
                if not self._undone(error):
                    raise
            time.sleep(random.uniform(0, min(0.2, 0.001 * 2**tried)))
        return transaction()

    def _connect(self) -> None:
        for store in range(len(self._stores)):
            self._cursor(store)

    def _disconnect(self) -> None:
        self._threads.shutdown()
        for store in list(self._cursors):
            self._close_cursor(store)

    def _cursor(self, store: int) -> Any:
        cursor = self._cursors.get(store)
        if cursor is None:
            self._check_open()
            try:
                cursor = self._cursors[store] = self._open(self._stores[store])
            except self.failures as error:
                self._fail(store, error)
        return cursor

    def _close_cursor(self, store: int) -> None:
        with suppress(*self.failures):  # the server may be gone
            self._cursors.pop(store).connection.close()

    def _on_all(self, work: Callable[[int], _Result]) -> list[_Result]:
        return self._on(range(len(self._stores)), work)

    def _on(self, stores: Sequence[int], work: Callable[[int], _Result]) -> list[_Result]:
        """Do the same with several servers at once; the results in the order of `stores`."""
        self._check_open()

        def on_one(store: int) -> _Result:
            try:
                return work(store)
            except self.failures as error:
                self._fail(store, error)

        if len(stores) < 2:
            return [on_one(store) for store in stores]
        futures = [self._threads.submit(on_one, store) for store in stores]
        wait(futures)  # no connection may be busy when the caller goes on after an error
        return [future.result() for future in futures]

    def _fail(self, store: int, error: Exception) -> NoReturn:
        if store in self._cursors and self._lost(self._cursors[store], error):
            # The next request opens a new connection: the server may be up again.
            self._close_cursor(store)
        super()._fail(store, error)


class ShardedEngine(SpecEngine):
    """Servers that share the documents by a hash of their ids."""

    flags = replace(FLAGS, embedded=False, authentication=True, owner=True)
    client: ClassVar[type[ShardedClient]]

    def connect(self, cluster: Cluster, mode: Mode) -> ShardedClient:
        nodes = numbered_nodes(cluster)
        shared = Shared.of(
            replace(cluster, placement=hash_placement(len(nodes))),
            mode,
            nodes,
            settings=self.settings_of(cluster.settings),
            credentials=Credentials.of(cluster),
            consistency=cluster.consistency,
        )
        if mode == "write":
            prepare(cluster.kinds)
        return self.client(shared).connected()
