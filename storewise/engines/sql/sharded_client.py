"""Independent SQL servers that share the documents by a hash of their ids.

The servers know nothing of each other: the client sends each document to the server that its id
belongs to, asks that one for it, and asks all of them what concerns all documents. This is how
published comparisons spread PostgreSQL and MySQL over several hosts. A batch is one transaction
on each server that gets a part of it; there is no transaction over several servers.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, ClassVar, NoReturn, TypeVar

from storewise.documents import Field, FieldType, Kind
from storewise.engines.contract.engine import Cluster, Endpoint, Mode, Schema, hash_placement
from storewise.engines.contract.queries import Query, Scan
from storewise.engines.contract.server import Credentials
from storewise.engines.sql.reads import Part, Request, SqlReads, SqlState
from storewise.engines.support.batches import ids_of, is_batch, rows_of, taken
from storewise.engines.support.clients import retried_after_conflict
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

#: Times that a transaction is tried that the server undoes for the sake of another one.
_TRIES = 20
_Result = TypeVar("_Result")


@dataclass(slots=True, kw_only=True, eq=False)
class Shared(SqlState):
    """What the clients of one process have in common; `stores` are the servers."""

    settings: Any
    """The engine's own settings, a `ShardedSettings`."""
    credentials: Any
    """Of the session (`Credentials`)."""
    consistency: str
    owner_scans: bool = False
    """A scan asks only the server of its start id."""

    @classmethod
    def of_servers(cls, cluster: Cluster, mode: Mode, settings: Any) -> Shared:
        """For `Engine.connect`; EngineError without endpoints or credentials."""
        nodes = numbered_nodes(cluster)
        cluster = replace(cluster, placement=cluster.placement or hash_placement(len(nodes)))
        return cls.of(
            cluster,
            mode,
            nodes,
            settings=settings,
            credentials=Credentials.of(cluster),
            consistency=cluster.consistency,
            owner_scans=settings.scan_mode == "owner",
        )


@dataclass(slots=True, eq=False)
class Session:
    """A connection of the driver, which commits each statement by itself, and its cursor (PEP
    249)."""

    connection: Any
    cursor: Any
    in_transaction: bool = False


class ShardedClient(SqlReads[Shared]):
    """One thread's connections to the servers; one that is lost is opened again when it is needed.

    A subclass gives the driver's part: the class variables and the abstract methods.
    """

    mark = "%s"
    row_lock = " FOR UPDATE"
    types: Mapping[FieldType, str]
    """SQL types of columns."""
    note_table: str = SCHEMA_TABLE
    """Where the note of the schema is kept."""
    loads_batches: ClassVar[bool] = False
    """Whether `_load` takes record batches as they are."""

    def __init__(self, shared: Shared) -> None:
        super().__init__(shared)
        self._sessions: dict[int, Session] = {}
        self._threads: ThreadPoolExecutor | None = None
        """For the work with all servers but one; started when it is first needed."""

    # What the driver does.

    @abstractmethod
    def _open(self, server: Endpoint) -> Session:
        """Connect and sign in; raises of `failures`."""

    @abstractmethod
    def _lost(self, session: Session, error: Exception) -> bool:
        """Whether a connection cannot be used again after an error."""

    @abstractmethod
    def _undone(self, error: Exception) -> bool:
        """Whether the server has rolled a transaction back for the sake of another one."""

    @abstractmethod
    def _transaction(self, session: Session) -> AbstractContextManager[Any]:
        """BEGIN, then COMMIT, or ROLLBACK where an error leaves the block."""

    @abstractmethod
    def _load(self, session: Session, table: Table, documents: Any) -> None:
        """Insert rows (of `Table.rows`, in the order of ids) or a record batch in one transaction.

        Rows that exist are overwritten; of equal ids the last one counts."""

    @abstractmethod
    def _analyze(self, store: int) -> None:
        """Collect the planner's statistics on one server."""

    def _make_index(self, store: int, name: str, table: Table, column: Field) -> None:
        """Make a secondary index where there is none of this name."""
        on = f"{quoted(table.name)} ({quoted(column.name)})"
        self._run(store, f"CREATE INDEX IF NOT EXISTS {quoted(name)} ON {on}")

    def _create_table(self, store: int, name: str, ddl: str) -> None:
        """Make a table where there is none of this name."""
        self._run(store, ddl)

    def _table_ddl(self, table: Table) -> str:
        return create_table(table, self.types, self._source(table, 0))

    # Creating and finding tables.

    def create(self, schema: Schema) -> None:
        self._writing("create")
        note, name = self._new_note(schema), quoted(self.note_table)
        self._use_schema(schema)
        tables = self._shared.tables.values()

        def make(store: int) -> None:
            for table in tables:
                self._create_table(store, self._name(table), self._table_ddl(table))
            columns = f"id INTEGER PRIMARY KEY, content {self.types['str']}"
            ddl = f"CREATE TABLE IF NOT EXISTS {name} ({columns})"
            self._create_table(store, self.note_table, ddl)

        self._on_all(make)
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

    def _has_note(self, store: int) -> bool:
        there = "SELECT 1 FROM information_schema.tables WHERE table_name = %s"
        return bool(self._rows(store, there, (self.note_table,)))

    def finish(self) -> None:
        super().finish()
        self._on_all(self._analyze)

    # Writing.

    def insert(self, kind: Kind, documents: Sequence[Any]) -> None:
        self._writing("insert")
        table = self._table(kind)
        documents = taken(table, documents)
        groups: dict[int, Any]
        if self.loads_batches and is_batch(documents):
            groups = self._grouped_batch(documents)
        else:
            groups = self._grouped_rows(table, rows_of(table, documents))

        def load(store: int) -> None:
            self._again(lambda: self._load(self._session(store), table, groups[store]))

        self._on(list(groups), load)

    def _grouped_batch(self, batch: Any) -> dict[int, Any]:
        """The part of each store that gets one."""
        if len(self._stores) == 1:
            return {0: batch} if len(batch) else {}
        places: dict[int, list[int]] = {}
        for row, document_id in enumerate(ids_of(batch)):
            places.setdefault(self._store_of(document_id), []).append(row)
        return {store: batch.take(rows) for store, rows in places.items()}

    def _grouped_rows(self, table: Table, rows: list[Row]) -> dict[int, list[Row]]:
        # In the order of ids two clients that write the same rows cannot each hold what the other
        # one waits for.
        rows.sort(key=table.key_of_row())
        groups: dict[int, list[Row]] = {}
        id_of = table.id_of_row()
        for row in rows:
            groups.setdefault(self._store_of(id_of(row)), []).append(row)
        return groups

    def _update_open_fields(
        self, table: Table, document_id: bytes, changes: Mapping[str, Any]
    ) -> bool:
        return self._again(partial(super()._update_open_fields, table, document_id, changes))

    @contextmanager
    def _exclusive(self, store: int) -> Iterator[None]:
        session = self._session(store)
        try:
            with self._transaction(session):
                session.in_transaction = True
                yield
        except self.failures as error:
            self._fail(store, error)
        finally:
            session.in_transaction = False

    def _change(self, store: int, sql: str, values: Sequence[Any]) -> int:
        changed: int = self._run(store, sql, values).rowcount
        return changed

    # Reading.

    def owner(self, kind: Kind, document_id: bytes) -> str | None:
        name: str = self._stores[self._store_of(document_id)].name
        return name

    def _store_of(self, document_id: bytes) -> int:
        (store,) = self._router.stores_of(document_id)
        return store

    def _name(self, table: Table) -> str:
        """Of a table in the database."""
        return table.name

    def _source(self, table: Table, store: int) -> str:
        return quoted(table.name)

    def _parts(self, table: Table, query: Query) -> Sequence[Part]:
        if isinstance(query, Scan) and self._shared.owner_scans:
            store = self._store_of(query.start)
            return [(store, self._source(table, store))]
        return super()._parts(table, query)

    def _rows(self, store: int, sql: str, values: Sequence[Any] = ()) -> Sequence[Row]:
        rows: Sequence[Row] = self._run(store, sql, values).fetchall()
        return rows

    def _gather(self, requests: Sequence[Request]) -> list[Sequence[Row]]:
        stores = list(dict.fromkeys(request[0] for request in requests))

        def ask(store: int) -> Iterator[Sequence[Row]]:
            return iter([self._rows(*request) for request in requests if request[0] == store])

        answers = dict(zip(stores, self._on(stores, ask), strict=True))
        return [next(answers[request[0]]) for request in requests]

    # Connections and threads.

    def _run(self, store: int, sql: str, values: Sequence[Any] = ()) -> Any:
        """Execute a statement, again where it was undone for the sake of another transaction;
        returns the cursor."""
        session = self._sessions.get(store) or self._session(store)
        cursor = session.cursor
        try:
            try:
                cursor.execute(sql, values or None)
            except self.failures as error:
                if session.in_transaction or not self._undone(error):
                    raise
                self._again(partial(cursor.execute, sql, values or None))
        except self.failures as error:
            self._fail(store, error)
        return cursor

    def _again(self, transaction: Callable[[], _Result]) -> _Result:
        """Do a transaction, once more where the server has undone it."""

        def undone(error: Exception) -> bool:
            cause = error.__context__ if isinstance(error, EngineError) else error
            return isinstance(cause, Exception) and self._undone(cause)

        return retried_after_conflict(transaction, undone, _TRIES)

    def _connect(self) -> None:
        for store in range(len(self._stores)):
            self._session(store)

    def _disconnect(self) -> None:
        if self._threads is not None:
            self._threads.shutdown()
            self._threads = None
        for store in list(self._sessions):
            self._close_session(store)

    def _session(self, store: int) -> Session:
        session = self._sessions.get(store)
        if session is None:
            self._check_open()
            try:
                session = self._sessions[store] = self._open(self._stores[store])
            except self.failures as error:
                self._fail(store, error)
        return session

    def _close_session(self, store: int) -> None:
        with suppress(*self.failures):  # the server may be gone
            self._sessions.pop(store).connection.close()

    def _on_all(self, work: Callable[[int], _Result]) -> list[_Result]:
        return self._on(range(len(self._stores)), work)

    def _on(self, stores: Sequence[int], work: Callable[[int], _Result]) -> list[_Result]:
        """Do the same with several servers at once; the results in the order of `stores`.

        The first one is done by the caller's thread. Waits for all before it raises an error, so
        that no connection is still busy when the caller goes on.
        """
        self._check_open()

        def on_one(store: int) -> _Result:
            try:
                return work(store)
            except self.failures as error:
                self._fail(store, error)

        if len(stores) < 2:
            return [on_one(store) for store in stores]
        if self._threads is None:
            self._threads = ThreadPoolExecutor(len(self._stores) - 1, "storewise-server")
        others = [self._threads.submit(on_one, store) for store in stores[1:]]
        try:
            first = on_one(stores[0])
        finally:
            wait(others)
        return [first, *(future.result() for future in others)]

    def _fail(self, store: int, error: Exception) -> NoReturn:
        session = self._sessions.get(store)
        if session is not None and self._lost(session, error):
            # The next question opens a new one: the server may have come back.
            self._close_session(store)
        super()._fail(store, error)
