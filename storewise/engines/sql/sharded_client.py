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
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Generic, NoReturn, TypeVar

from storewise.documents import Field, FieldType, Kind
from storewise.engines.contract.engine import Cluster, Endpoint, HashPlacement, Mode, Schema
from storewise.engines.contract.queries import Scan
from storewise.engines.contract.server import Credentials
from storewise.engines.sql.json_table import DOCUMENT_COLUMN, JsonTable, make_json_tables
from storewise.engines.sql.reads import Part, Request, SqlReads, SqlState
from storewise.engines.support.forms import is_batch, taken
from storewise.engines.support.servers import numbered_nodes
from storewise.engines.support.table import (
    SCHEMA_TABLE,
    Row,
    Table,
    check_same,
    create_table,
    describe,
    described,
    make_tables,
    quoted,
)
from storewise.errors import EngineError

Connection = TypeVar("Connection")
_Result = TypeVar("_Result")


@dataclass(slots=True, kw_only=True, eq=False)
class Shared(SqlState):
    """What the clients of one process have in common; `stores` are the servers."""

    settings: Any
    """The engine's own settings, a `ShardedSettings`."""
    credentials: Credentials
    consistency: str

    @classmethod
    def of_servers(cls, cluster: Cluster, mode: Mode, settings: Any) -> Shared:
        """For `Engine.connect`; EngineError without endpoints or credentials."""
        nodes = numbered_nodes(cluster)
        cluster = replace(cluster, placement=cluster.placement or HashPlacement(len(nodes)))
        return cls.of(
            cluster,
            mode,
            nodes,
            settings=settings,
            credentials=Credentials.of(cluster),
            consistency=cluster.consistency,
        )


class ShardedClient(SqlReads[Shared], Generic[Connection]):
    """One thread's connections to the servers; one that is lost is opened again when it is needed.

    A subclass gives the driver's part: the class variables, the abstract methods, and what its SQL
    says differently.
    """

    mark = "%s"
    failures: ClassVar[tuple[type[Exception], ...]]
    """What the driver raises, for values that it cannot bind as well."""
    types: ClassVar[Mapping[FieldType, str]]
    """SQL types of columns."""
    json_type: ClassVar[str]

    def __init__(self, shared: Shared) -> None:
        super().__init__(shared)
        self._names = [str(store.name) for store in self._stores]
        self._connections: dict[int, Connection] = {}
        self._threads: ThreadPoolExecutor | None = None
        """For the work with all servers but one; started when it is first needed."""

    # What the driver does.

    @abstractmethod
    def _open(self, server: Endpoint) -> Connection:
        """A new connection that commits each statement by itself; raises of `failures`."""

    @abstractmethod
    def _shut(self, connection: Connection) -> None:
        """Close a connection, broken or not, without an error."""

    @abstractmethod
    def _usable(self, connection: Connection) -> bool:
        """Whether a connection can be used again after an error."""

    @abstractmethod
    def _query(
        self, connection: Connection, sql: str, values: Sequence[Any], anew: bool = False
    ) -> list[Row]:
        """The rows of a statement; `anew` as in `_rows`."""

    @abstractmethod
    def _execute(self, connection: Connection, sql: str, values: Sequence[Any] = ()) -> int:
        """Run a statement without rows; how many rows it matched (changed or not)."""

    @abstractmethod
    def _transaction(self, connection: Connection) -> AbstractContextManager[Any]:
        """BEGIN, then COMMIT, or ROLLBACK where an error leaves the block."""

    @abstractmethod
    def _load(self, connection: Connection, table: Table, rows: list[Row]) -> None:
        """Insert rows (of `Table.rows`, in the order of ids) in one transaction.

        Rows that exist are overwritten; of equal ids in `rows` the last one counts."""

    def _load_batch(self, connection: Connection, table: Table, batch: Any) -> None:
        """`_load` of a record batch with the table's columns; the default makes rows of it."""
        from storewise.engines.support import batches

        self._load(connection, table, batches.rows_of(batch))

    @staticmethod
    @abstractmethod
    def _json_value(column: Field) -> str:
        """SQL of a field of the column ``document``, typed; SQL null for a JSON null."""

    @abstractmethod
    def _json_change(self, texts: Mapping[str, str]) -> tuple[str, list[Any]]:
        """SQL and parameters of the column ``document`` with fields set, given as JSON texts."""

    def _settle(self, connection: Connection) -> None:
        """The end of a load on one server, after its indexes (statistics, for example)."""

    @abstractmethod
    def _index_ddl(self, table: Table, name: str, column: Field) -> str:
        """The statement that makes the secondary index `name`; nothing where it exists."""

    def _table_ddl(self, table: Table) -> str:
        document = f"{quoted(DOCUMENT_COLUMN)} {self.json_type} NOT NULL"
        return create_table(table, self.types, document if isinstance(table, JsonTable) else "")

    # Creating and finding tables.

    def create(self, schema: Schema) -> None:
        shared = self._writing("create")
        tables = self._tables_of(schema, shared.settings.layout)
        description = describe(schema, shared.settings.layout)
        statements = [self._table_ddl(table) for table in tables.values()]
        if schema.index_time == "before":
            statements += self._indexes(tables, schema)

        def make(store: int) -> None:
            connection = self._connection(store)
            name = quoted(SCHEMA_TABLE)
            self._execute(
                connection,
                f"CREATE TABLE IF NOT EXISTS {name} (id INTEGER PRIMARY KEY, content TEXT)",
            )
            rows = self._query(connection, f"SELECT content FROM {name}", ())
            if rows:
                check_same(self.engine_name, self._stores[store], rows[0][0], description)
            for statement in statements:
                self._execute(connection, statement)
            if not rows:
                # The last step: a reader of a half-made schema must find none.
                self._execute(connection, f"INSERT INTO {name} VALUES (1, %s)", (description,))

        self._on_all(make)
        with shared.lock:
            shared.tables, shared.schema = tables, schema
        self._use_tables(tables)

    def check_connection(self) -> None:
        """Log in to every server and read the tables that `create` has made (none before that);
        EngineError if a server does not answer or refuses the password."""

        def look(store: int) -> str:
            there = self._rows(
                store,
                "SELECT 1 FROM information_schema.tables WHERE table_schema = "
                f"{self._schema_name()} AND table_name = %s",
                (SCHEMA_TABLE,),
            )
            rows = self._rows(store, f"SELECT content FROM {quoted(SCHEMA_TABLE)}") if there else []
            return str(rows[0][0]) if rows else ""

        texts = self._on_all(look)
        for store, text in enumerate(texts):
            if text != texts[0]:
                raise EngineError(
                    f"{self.engine_name}: {self._stores[store]} has the schema {text or 'of none'},"
                    f" {self._stores[0]} {texts[0] or 'none'}: every server needs the same"
                )
        if texts[0]:
            schema, layout = described(texts[0], self._shared.kinds)
            with self._shared.lock:
                self._shared.tables = self._tables_of(schema, layout)
                self._shared.schema = schema
            self._use_tables(self._shared.tables)

    def _schema_name(self) -> str:
        """SQL of the schema or database that holds the tables."""
        return "current_schema()"

    def _tables_of(self, schema: Schema, layout: str) -> dict[Kind, Table]:
        if layout == "json":
            return make_json_tables(schema, self._json_value)
        return make_tables(schema, composite=True)

    def _indexes(self, tables: Mapping[Kind, Table], schema: Schema) -> list[str]:
        return [
            self._index_ddl(tables[kind], f"{kind.table}_{name}", tables[kind].column(name))
            for kind, name in schema.indexes
        ]

    # Writing.

    def insert(self, kind: Kind, documents: Sequence[Any]) -> None:
        self._writing("insert")
        table = self._table(kind)
        documents = taken(table, documents)
        if is_batch(documents):
            self._insert_batch(table, documents)
            return
        rows = table.rows(documents)
        if not rows:
            return
        try:
            # In the order of ids two clients that write the same rows cannot each hold what the
            # other one waits for.
            rows.sort(key=table.key_of_row())
            groups: dict[int, list[Row]] = {}
            if len(self._stores) == 1:
                groups[0] = rows
            else:
                id_of = table.id_of_row()
                for row in rows:
                    (store,) = self._router.stores_of(id_of(row))
                    groups.setdefault(store, []).append(row)
        except TypeError as error:
            raise EngineError(f"a document of {table.name} has an id that is no bytes") from error

        self._on(
            list(groups), lambda store: self._load(self._connection(store), table, groups[store])
        )

    def _insert_batch(self, table: Table, batch: Any) -> None:
        from storewise.engines.support import batches

        if not len(batch):
            return
        # In the order of ids, as rows are.
        batch, ids = batches.in_order(batch)
        groups: dict[int, Any] = {0: batch}
        if len(self._stores) > 1:
            places: dict[int, list[int]] = {}
            for row, document_id in enumerate(ids):
                (store,) = self._router.stores_of(document_id)
                places.setdefault(store, []).append(row)
            groups = {store: batch.take(rows) for store, rows in places.items()}
        self._on(
            list(groups),
            lambda store: self._load_batch(self._connection(store), table, groups[store]),
        )

    def finish(self) -> None:
        shared = self._writing("finish")
        schema, statements = shared.schema, list[str]()
        if schema is not None and schema.index_time == "after":
            statements = self._indexes(shared.tables, schema)

        def end(store: int) -> None:
            connection = self._connection(store)
            for statement in statements:
                self._execute(connection, statement)
            self._settle(connection)

        self._on_all(end)

    row_lock = " FOR UPDATE"

    @contextmanager
    def _exclusive(self, store: int) -> Iterator[None]:
        try:
            with self._transaction(self._connection(store)):
                yield
        except self.failures as error:
            self._fail(store, error)

    def _change(self, store: int, sql: str, values: Sequence[Any]) -> int:
        connection = self._connections.get(store) or self._connection(store)
        try:
            return self._execute(connection, sql, values)
        except self.failures as error:
            self._fail(store, error)

    def _assignments(
        self, table: Table, changes: Mapping[str, Any]
    ) -> tuple[list[str], list[Any]] | None:
        if not isinstance(table, JsonTable):
            return super()._assignments(table, changes)
        value, values = self._json_change(table.json_texts(changes))
        return [f"{quoted(DOCUMENT_COLUMN)} = {value}"], values

    # Reading.

    def owner(self, kind: Kind, document_id: bytes) -> str:
        names = self._names
        return names[0] if len(names) == 1 else names[self._store_of(document_id)]

    def _store_of(self, document_id: bytes) -> int:
        try:
            (store,) = self._router.stores_of(document_id)
        except TypeError as error:
            raise EngineError(
                f"{self.engine_name}: {document_id!r} is no id of 12 bytes"
            ) from error
        return store

    def _source(self, table: Table, store: int) -> str:
        return quoted(table.name)

    def _scan_parts(self, table: Table, query: Scan) -> Sequence[Part]:
        if self._shared.settings.scan_mode == "owner":
            store = self._store_of(query.start)
            return [(store, self._source(table, store))]
        return self._parts(table)

    def _rows(
        self, store: int, sql: str, values: Sequence[Any] = (), anew: bool = False
    ) -> list[Row]:
        connection = self._connections.get(store) or self._connection(store)
        try:
            return self._query(connection, sql, values, anew)
        except self.failures as error:
            self._fail(store, error)

    def _gather(self, requests: Sequence[Request], anew: bool = False) -> list[list[Row]]:
        stores = list(dict.fromkeys(request[0] for request in requests))

        def ask(store: int) -> Iterator[list[Row]]:
            mine = [request for request in requests if request[0] == store]
            return iter([self._rows(*request, anew=anew) for request in mine])

        answers = dict(zip(stores, self._on(stores, ask), strict=True))
        return [next(answers[request[0]]) for request in requests]

    def _ask_all(self, sql: str) -> list[list[Row]]:
        """The rows that each server gives."""
        return self._on_all(lambda store: self._rows(store, sql))

    # Connections and threads.

    def _connect(self) -> None:
        for store in range(len(self._stores)):
            self._connection(store)

    def _disconnect(self) -> None:
        if self._threads is not None:
            self._threads.shutdown()
            self._threads = None
        while self._connections:
            self._shut(self._connections.popitem()[1])

    def _connection(self, store: int) -> Connection:
        connection = self._connections.get(store)
        if connection is None:
            self._check_open()
            try:
                connection = self._connections[store] = self._open(self._stores[store])
            except self.failures as error:
                self._fail(store, error)
        return connection

    def _on_all(self, work: Callable[[int], _Result]) -> list[_Result]:
        return self._on(range(len(self._stores)), work)

    def _on(self, stores: Sequence[int], work: Callable[[int], _Result]) -> list[_Result]:
        """Do the same with several servers at once; the results in the order of `stores`.

        The first one is done by the caller's thread. Waits for all before it raises an error, so
        that no connection is still busy when the caller goes on.
        """
        self._check_open()

        def one(store: int) -> _Result:
            try:
                return work(store)
            except self.failures as error:
                self._fail(store, error)

        if len(stores) < 2:
            return [one(store) for store in stores]
        if self._threads is None:
            self._threads = ThreadPoolExecutor(len(self._stores) - 1, "storewise-server")
        others = [self._threads.submit(one, store) for store in stores[1:]]
        try:
            first = one(stores[0])
        finally:
            wait(others)
        return [first, *(future.result() for future in others)]

    def _fail(self, store: int, error: Exception) -> NoReturn:
        connection = self._connections.get(store)
        if connection is not None and not self._usable(connection):
            # The next question opens a new one: the server may have come back.
            del self._connections[store]
            self._shut(connection)
        words = " ".join(str(error).split()) or type(error).__name__
        raise EngineError(f"{self.engine_name}: {self._stores[store]}: {words}") from error
