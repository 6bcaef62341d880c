"""Bare loops of the stores' official drivers, as the drivers' documentation shows them."""

from __future__ import annotations

import os
import tempfile
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from storewise.documents import Document, Kind
from storewise.engines.contract.engine import Cluster
from storewise.engines.contract.server import Credentials
from storewise.engines.support.table import make_table
from storewise.ssearch.parse.arrow import batch_of

KIND = Kind.ALIGN
COLUMNS = make_table(KIND, study_fields=False).columns
NAMES = [column.name for column in COLUMNS]
CHANGED = "gene"
#: How to read a value from a store that keeps only texts.
READ: dict[str, Callable[[bytes], Any]] = {
    "id": bytes, "int": int, "float": float, "str": bytes.decode
}  # fmt: skip


def columns(types: dict[str, str]) -> str:
    """The column definitions for CREATE TABLE."""
    return ", ".join(f'"{c.name}" {types[c.type]}' for c in COLUMNS) + ', PRIMARY KEY ("_id")'


class Bare(ABC):
    """The official driver without Storewise; uses its own table `bare`."""

    def __init__(self, cluster: Cluster, place: Path) -> None:
        # New files each time, as Storewise's: to grow a file costs more than to write in it.
        self.place = Path(tempfile.mkdtemp(dir=place))
        if cluster.endpoints:
            data = [e for e in cluster.endpoints if e.role in ("data", "server", "standalone")]
            self.at = (data or list(cluster.endpoints))[0]
            self.cluster = cluster
            assert cluster.credentials is not None
            self.secrets = Credentials.read(cluster.credentials)
        self.connect()

    def prepare(self, batches: list[list[Document]]) -> list[Any]:
        """Convert batches to the form that `load` takes."""
        return batches

    @abstractmethod
    def connect(self) -> None: ...
    @abstractmethod
    def load(self, batches: list[Any]) -> None: ...
    @abstractmethod
    def read(self, ids: Sequence[bytes]) -> Any: ...
    @abstractmethod
    def update(self, ids: Sequence[bytes]) -> None: ...

    def close(self) -> None:  # noqa: B027 - most drivers have no threads that go on working
        """Ends what the driver would go on doing."""


class Sqlite(Bare):
    """sqlite3, used as in https://docs.python.org/3/library/sqlite3.html"""

    types = {"id": "BLOB", "int": "INTEGER", "float": "REAL", "str": "TEXT"}  # noqa: RUF012

    def connect(self) -> None:
        import sqlite3

        self.db = sqlite3.connect(self.place / "bare.sqlite")
        self.db.execute("PRAGMA journal_mode = WAL")
        self.db.execute("PRAGMA synchronous = FULL")
        self.db.execute("PRAGMA cache_size = -65536")
        self.db.execute(f"CREATE TABLE bare ({columns(self.types)}) WITHOUT ROWID")

    def load(self, batches: list[Any]) -> None:
        sql = f"INSERT INTO bare VALUES ({', '.join(f':{name}' for name in NAMES)})"
        for documents in batches:
            with self.db:
                self.db.executemany(sql, documents)

    def read(self, ids: Sequence[bytes]) -> Any:
        for key in ids:
            # Faster than a row factory, and than sqlite3.Row with dict().
            row = self.db.execute("SELECT * FROM bare WHERE _id = ?", (key,)).fetchone()
            document = dict(zip(NAMES, row, strict=True))
        return document

    def update(self, ids: Sequence[bytes]) -> None:
        for key in ids:
            with self.db:
                self.db.execute(f"UPDATE bare SET {CHANGED} = ? WHERE _id = ?", ("new", key))


class Duckdb(Bare):
    """duckdb, used as in https://duckdb.org/docs/stable/clients/python/overview"""

    types = {"id": "BLOB", "int": "BIGINT", "float": "DOUBLE", "str": "VARCHAR"}  # noqa: RUF012

    def prepare(self, batches: list[list[Document]]) -> list[Any]:
        import pyarrow as pa

        return [pa.Table.from_batches([batch_of(KIND, batch)]) for batch in batches]

    def connect(self) -> None:
        import duckdb

        # The same number of threads as Storewise's setting.
        self.db = duckdb.connect(self.place / "bare.duckdb", config={"threads": 1})
        self.db.execute(f"CREATE TABLE bare ({columns(self.types)})")

    def load(self, batches: list[Any]) -> None:
        for batch in batches:  # noqa: B007 - DuckDB finds the table by its name
            self.db.execute("INSERT INTO bare SELECT * FROM batch")

    def read(self, ids: Sequence[bytes]) -> Any:
        for key in ids:
            row = self.db.execute("SELECT * FROM bare WHERE _id = ?", [key]).fetchone()
            document = dict(zip(NAMES, row or (), strict=True))
        return document

    def update(self, ids: Sequence[bytes]) -> None:
        for key in ids:
            self.db.execute(f"UPDATE bare SET {CHANGED} = ? WHERE _id = ?", ["new", key])


class Postgres(Bare):
    """psycopg, used as in https://www.psycopg.org/psycopg3/docs/"""

    types = {"id": "bytea", "int": "bigint", "float": "float8", "str": "text"}  # noqa: RUF012

    def connect(self) -> None:
        import psycopg
        from psycopg.rows import dict_row

        self.db = psycopg.connect(
            host=self.at.address, port=self.at.port, dbname="postgres", autocommit=True,
            user=self.secrets.user, password=self.secrets.password, row_factory=dict_row,
        )  # fmt: skip
        self.db.execute("DROP TABLE IF EXISTS bare")
        self.db.execute(f"CREATE TABLE bare ({columns(self.types)})")  # type: ignore[arg-type]

    def load(self, batches: list[Any]) -> None:
        for documents in batches:
            with (
                self.db.cursor() as cursor,
                cursor.copy("COPY bare FROM STDIN (FORMAT BINARY)") as copy,
            ):
                copy.set_types([self.types[c.type] for c in COLUMNS])
                for document in documents:
                    copy.write_row(list(document.values()))

    def read(self, ids: Sequence[bytes]) -> Any:
        with self.db.cursor(binary=True) as cursor:
            for key in ids:
                document = cursor.execute("SELECT * FROM bare WHERE _id = %s", (key,)).fetchone()
        return document

    def update(self, ids: Sequence[bytes]) -> None:
        for key in ids:
            self.db.execute("UPDATE bare SET gene = %s WHERE _id = %s", ("new", key))


class Mariadb(Bare):
    """mysqlclient, used as in https://mysqlclient.readthedocs.io/user_guide.html"""

    types = {"id": "BINARY(12)", "int": "BIGINT", "float": "DOUBLE", "str": "LONGTEXT"}  # noqa: RUF012

    def connect(self) -> None:
        import MySQLdb
        from MySQLdb.cursors import DictCursor

        self.db = MySQLdb.connect(
            host=self.at.address, port=self.at.port, user=self.secrets.user, autocommit=True,
            password=self.secrets.password, database="storewise", charset="utf8mb4",
            binary_prefix=True, sql_mode="ANSI_QUOTES", cursorclass=DictCursor,
        )  # fmt: skip
        self.cursor = self.db.cursor()
        self.cursor.execute("DROP TABLE IF EXISTS bare")
        self.cursor.execute(f"CREATE TABLE bare ({columns(self.types)})")

    def load(self, batches: list[Any]) -> None:
        sql = f"INSERT INTO bare VALUES ({', '.join(f'%({name})s' for name in NAMES)})"
        for documents in batches:
            self.cursor.executemany(sql, documents)

    def read(self, ids: Sequence[bytes]) -> Any:
        for key in ids:
            self.cursor.execute("SELECT * FROM bare WHERE _id = %s", (key,))
            document = self.cursor.fetchone()
        return document

    def update(self, ids: Sequence[bytes]) -> None:
        for key in ids:
            self.cursor.execute("UPDATE bare SET gene = %s WHERE _id = %s", ("new", key))


class Mongodb(Bare):
    """pymongo, used as in https://pymongo.readthedocs.io/en/stable/tutorial.html"""

    ids = [column.name for column in COLUMNS if column.type == "id"]  # noqa: RUF012

    def prepare(self, batches: list[list[Document]]) -> list[Any]:
        from bson.objectid import ObjectId

        return [
            [{**d, **{n: ObjectId(d[n]) for n in self.ids}} for d in batch] for batch in batches
        ]

    def connect(self) -> None:
        import pymongo

        client: Any = pymongo.MongoClient(
            self.at.address, self.at.port, username=self.secrets.user,
            password=self.secrets.password, w="majority", journal=True, directConnection=True,
        )  # fmt: skip
        self.collection = client.storewise.bare
        self.collection.drop()

    def load(self, batches: list[Any]) -> None:
        for documents in batches:
            self.collection.insert_many(documents, ordered=False)

    def read(self, ids: Sequence[bytes]) -> Any:
        from bson.objectid import ObjectId

        for key in ids:
            document = self.collection.find_one({"_id": ObjectId(key)})
            for name in self.ids:
                document[name] = document[name].binary
        return document

    def update(self, ids: Sequence[bytes]) -> None:
        from bson.objectid import ObjectId

        for key in ids:
            self.collection.update_one({"_id": ObjectId(key)}, {"$set": {CHANGED: "new"}})


class Cassandra(Bare):
    """The DataStax driver, used as in https://docs.datastax.com/en/developer/python-driver/3.29/getting_started/"""

    types = {"id": "blob", "int": "bigint", "float": "double", "str": "text"}  # noqa: RUF012

    def connect(self) -> None:
        from cassandra import ConsistencyLevel
        from cassandra.auth import PlainTextAuthProvider
        from cassandra.cluster import EXEC_PROFILE_DEFAULT, ExecutionProfile
        from cassandra.cluster import Cluster as Driver
        from cassandra.query import dict_factory

        profile = ExecutionProfile(
            consistency_level=ConsistencyLevel.QUORUM, row_factory=dict_factory, request_timeout=75
        )
        self.db = Driver(
            [self.at.address], port=self.at.port, protocol_version=4,
            auth_provider=PlainTextAuthProvider(self.secrets.user, self.secrets.password),
            execution_profiles={EXEC_PROFILE_DEFAULT: profile},
        ).connect("storewise")  # fmt: skip
        self.db.execute("DROP TABLE IF EXISTS bare")
        self.db.execute(f"CREATE TABLE bare ({columns(self.types)})")

    def load(self, batches: list[Any]) -> None:
        from cassandra.concurrent import execute_concurrent_with_args

        names, marks = ", ".join(f'"{n}"' for n in NAMES), ", ".join("?" * len(NAMES))
        insert = self.db.prepare(f"INSERT INTO bare ({names}) VALUES ({marks})")
        for documents in batches:
            rows = [tuple(document.values()) for document in documents]
            execute_concurrent_with_args(self.db, insert, rows, concurrency=128)

    def read(self, ids: Sequence[bytes]) -> Any:
        select = self.db.prepare('SELECT * FROM bare WHERE "_id" = ?')
        for key in ids:
            document = self.db.execute(select, (key,)).one()
        return document

    def update(self, ids: Sequence[bytes]) -> None:
        update = self.db.prepare('UPDATE bare SET gene = ? WHERE "_id" = ?')
        for key in ids:
            self.db.execute(update, ("new", key))

    def close(self) -> None:
        self.db.cluster.shutdown()


class Valkey(Bare):
    """valkey-py, used as in https://valkey-py.readthedocs.io/en/latest/examples.html"""

    read_by = {c.name.encode(): READ[c.type] for c in COLUMNS}  # noqa: RUF012

    def connect(self) -> None:
        import valkey

        self.db: Any = valkey.Valkey(
            host=self.at.address, port=self.at.port,
            username=self.secrets.user, password=self.secrets.password,
            socket_timeout=60,  # or a client waits for ever where its server stands still
        )  # fmt: skip

    def load(self, batches: list[Any]) -> None:
        for documents in batches:
            with self.db.pipeline() as pipe:
                for d in documents:
                    present = {name: value for name, value in d.items() if value is not None}
                    pipe.hset(b"bare:" + d["_id"], mapping=present)
                pipe.zadd("bare", {d["_id"]: 0 for d in documents})
                pipe.execute()

    def read(self, ids: Sequence[bytes]) -> Any:
        for key in ids:
            stored = self.db.hgetall(b"bare:" + key)
            document = {name.decode(): self.read_by[name](v) for name, v in stored.items()}
        return document

    def update(self, ids: Sequence[bytes]) -> None:
        for key in ids:
            self.db.hset(b"bare:" + key, mapping={CHANGED: "new"})


class Hbase(Bare):
    """thriftpy2 with the interface of HBase's Thrift 2 server, used as in
    https://thriftpy2.readthedocs.io/en/latest/"""

    read_by = {c.name.encode(): READ[c.type] for c in COLUMNS}  # noqa: RUF012

    def connect(self) -> None:
        from thriftpy2.protocol import TCyBinaryProtocolFactory
        from thriftpy2.rpc import make_client

        from storewise.engines.hbase.connection import idl

        at = next(e for e in self.cluster.endpoints if e.role == "thrift")
        self.idl, self.db = idl, make_client(
            idl.THBaseService, at.address, at.port, timeout=60_000,
            proto_factory=TCyBinaryProtocolFactory(decode_response=False),
        )  # fmt: skip
        family = idl.TColumnFamilyDescriptor(name=b"d", maxVersions=1)
        name = idl.TTableName(qualifier=b"bare")
        tables = self.db.getTableDescriptorsByNamespace("default")
        if any(table.tableName.qualifier == b"bare" for table in tables):
            self.db.disableTable(name)
            self.db.deleteTable(name)
        self.db.createTable(idl.TTableDescriptor(tableName=name, columns=[family]), [])

    def _put(self, key: bytes, document: Document) -> Any:
        cells = [
            self.idl.TColumnValue(b"d", n.encode(), v if type(v) is bytes else str(v).encode())
            for n, v in document.items()
            if v is not None and n != "_id"
        ]
        return self.idl.TPut(key, cells)

    def load(self, batches: list[Any]) -> None:
        for documents in batches:
            self.db.putMultiple(b"bare", [self._put(d["_id"], d) for d in documents])

    def read(self, ids: Sequence[bytes]) -> Any:
        for key in ids:
            (row,) = self.db.getMultiple(b"bare", [self.idl.TGet(key)])
            cells = {c.qualifier: c.value for c in row.columnValues}
            document = {n.decode(): self.read_by[n](v) for n, v in cells.items()}
            document["_id"] = row.row
        return document

    def update(self, ids: Sequence[bytes]) -> None:
        # A put alone would make a document that was not there.
        there, unequal = NAMES[1].encode(), self.idl.TCompareOperator.NOT_EQUAL
        for key in ids:
            put = self.idl.TMutation(put=self._put(key, {CHANGED: "new"}))
            rows = self.idl.TRowMutations(key, [put])
            assert self.db.checkAndMutate(b"bare", key, b"d", there, unequal, b"", rows)


class Chdb(Bare):
    """chDB, used as in https://clickhouse.com/docs/chdb/install/python"""

    types = {"id": "String", "int": "Int64", "float": "Float64", "str": "String"}  # noqa: RUF012

    def prepare(self, batches: list[list[Document]]) -> list[Any]:
        import pyarrow as pa

        # Of a fixed width chDB loses zeros at the end.
        tables = [pa.Table.from_batches([batch_of(KIND, batch)]) for batch in batches]
        fields = [
            f.with_type(pa.binary()) if f.type == pa.binary(12) else f for f in tables[0].schema
        ]
        return [table.cast(pa.schema(fields)) for table in tables]

    def connect(self) -> None:
        import chdb

        from storewise.engines.chdb.connection import DIRECTORY, Connection
        from storewise.engines.chdb.settings import ChdbSettings

        # A process has one ClickHouse, at one path.
        self.first = Connection(ChdbSettings())
        self.db = chdb.connect(str(DIRECTORY / "engine"))
        self.db.query("DROP TABLE IF EXISTS bare")
        self.db.query(
            f"CREATE TABLE bare ({columns(self.types)}) ENGINE = ReplacingMergeTree "
            "SETTINGS fsync_after_insert = 1, fsync_part_directory = 1"
        )

    def load(self, batches: list[Any]) -> None:
        for batch in batches:  # noqa: B007 - chDB finds the table by its name
            self.db.query("INSERT INTO bare SELECT * FROM Python(batch)")

    def read(self, ids: Sequence[bytes]) -> Any:
        texts = [column.name for column in COLUMNS if column.type == "str"]
        for key in ids:
            found = self.db.query(
                f"SELECT * FROM bare FINAL WHERE _id = unhex('{key.hex()}') "
                "SETTINGS output_format_arrow_string_as_string = 0",
                "ArrowTable",
            )
            (document,) = found.to_pylist()
            for name in texts:
                document[name] = document[name].decode()
        return document

    def update(self, ids: Sequence[bytes]) -> None:
        for key in ids:
            where = f"WHERE _id = unhex('{key.hex()}')"
            # An INSERT does not tell whether the document was there.
            assert str(self.db.query(f"SELECT count() FROM bare FINAL {where}")) == "1\n"
            self.db.query(
                f"INSERT INTO bare SELECT * REPLACE ('new' AS {CHANGED}) FROM bare FINAL {where}"
            )


class Parquet(Bare):
    """PyArrow, used as in https://arrow.apache.org/docs/python/parquet.html"""

    prepare = Duckdb.prepare

    def connect(self) -> None: ...

    def load(self, batches: list[Any]) -> None:
        import pyarrow.parquet as pq

        for number, batch in enumerate(batches):
            # A batch is on disk when it is acknowledged.
            with (self.place / f"{number}.parquet").open("wb") as file:
                pq.write_table(batch, file, compression="zstd")
                os.fsync(file.fileno())

    def read(self, ids: Sequence[bytes]) -> Any:
        import pyarrow.dataset as ds

        data = ds.dataset(self.place)
        for key in ids:
            (document,) = data.to_table(filter=ds.field("_id") == key).to_pylist()
        return document

    def update(self, ids: Sequence[bytes]) -> None:
        """Do nothing: neither side ever changes Parquet files."""


BARE: dict[str, type[Bare]] = {
    "sqlite": Sqlite,
    "duckdb": Duckdb,
    "postgres": Postgres,
    "mariadb": Mariadb,
    "mongodb": Mongodb,
    "valkey": Valkey,
    "cassandra": Cassandra,
    "hbase": Hbase,
    "chdb": Chdb,
    "parquet": Parquet,
}
