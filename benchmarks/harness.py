"""Compare Storewise's client with a bare loop of the store's official driver.

    python benchmarks/harness.py [--stores sqlite postgres ...] [--documents 20000] [--reads 5000]
        [--updates 1000] [--rounds 5] [--json FILE]

For each store, in turns in one run, on the same server and the same documents (`align`, 17 fields):
loads in batches of 1,000, look-ups and updates by id. The bare loop is what the driver's
documentation shows. Storewise is its client, its loop and its recorder, as one client thread of a
study runs them. Both run in this process and thread, at the store's first level. Documents are made
before the clock starts: for Storewise what its reader makes for the store, for the bare loop what
its documentation shows. So most loads compare Arrow tables or BSON with dicts, and a ratio far
above 1 there is the reader's merit; DuckDB, chDB and Parquet take Arrow on both sides, Valkey,
Cassandra and HBase dicts. A look-up gives the whole document as a dict of Python values; the first
round checks that both give what was loaded. Parquet has no updates.

Printed is the bare loop's time / Storewise's, by the clock and by processor time of this process
(an embedded store is in it): to reach 0.9. The best round of each counts, because other programs
share the machine; servers share it too, so these are no figures of the stores.
"""

from __future__ import annotations

import argparse
import gc
import itertools
import json
import os
import platform
import random
import sys
import tempfile
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import psutil
from engines import make_documents

from storewise.documents import Document, Kind
from storewise.driver.loops import run_loop
from storewise.engines.contract.engine import Client, Cluster, Schema
from storewise.engines.contract.server import Credentials, Topology
from storewise.engines.registry import engine
from storewise.engines.support.table import make_table
from storewise.metrics.host import facts
from storewise.metrics.recorder import Recorder
from storewise.ssearch.parse.arrow import batch_of
from storewise.ssearch.parse.documents import to_bson
from storewise.workloads.alignments.point_reads import PointReads
from storewise.workloads.contract import ClientContext, Operation

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))
from support.servers.local import local_cluster
from support.servers.stores import SERVED

BATCH = 1000
TARGET = 0.9
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

        from storewise.engines.chdb.connection import Connection
        from storewise.engines.chdb.settings import ChdbSettings

        # A process has one ClickHouse, at one path.
        self.first = Connection(ChdbSettings())
        self.db = chdb.connect(str(self.first.directory / "engine"))
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
#: Settings with which Storewise uses the store as the bare driver does.
SETTINGS: dict[str, dict[str, Any]] = {"hbase": {"layout": "columns"}}
#: Stores of which one operation takes ms: so many times fewer.
FEWER = {"chdb": 25, "parquet": 25}


class Storewise:
    """Storewise's client, run by its loop and recorder."""

    def __init__(self, name: str, cluster: Cluster) -> None:
        self.engine = engine(name)
        if self.engine.flags.embedded:
            place = Path(tempfile.mkdtemp(dir=cluster.stores[0]))
            cluster = replace(cluster, stores=(place,))
        self.cluster = cluster
        self.client: Client = self.engine.connect(cluster, "write")
        self.client.create(Schema(kinds=(KIND,)))

    def prepare(self, batches: list[list[Document]]) -> list[Any]:
        encode: dict[str, Callable[[list[Document]], Any]] = {
            "arrow": partial(batch_of, KIND),
            "bson": lambda batch: list(map(to_bson, batch)),
            "dict": list,
        }
        return [encode[self.engine.encoding](batch) for batch in batches]

    def load(self, batches: list[Any]) -> None:
        def insert(batch: Any) -> int:
            self.client.insert(KIND, batch)
            return len(batch)

        self._run(Operation("insert", partial(insert, b), len(b)) for b in batches)
        self.client.flush()

    def read(self, ids: Sequence[bytes]) -> None:
        context = cast(ClientContext, SimpleNamespace(engine=self.engine))
        self._run(PointReads(self.client, context).single_reads((KIND, key) for key in ids))

    def update(self, ids: Sequence[bytes]) -> None:
        changes, keys = {CHANGED: "new"}, iter(ids)

        def update() -> int:
            self.client.update(KIND, next(keys), changes)
            return 1

        self._run(itertools.repeat(Operation("update", update), len(ids)))

    def _run(self, operations: Iterator[Operation]) -> None:
        recorder = Recorder(time.perf_counter_ns())
        run_loop(operations, recorder, fatal=True)
        recorder.result()

    def end_load(self) -> None:
        """Reopen an embedded store for reading, as a study does after its load phase."""
        if self.engine.flags.embedded:
            self.client.finish()
            self.client.close()
            self.client = self.engine.connect(self.cluster, "read")


def timed(work: Callable[[], None]) -> tuple[float, float]:
    """Run `work`; returns wall-clock seconds and CPU seconds of this process."""
    gc.collect()
    gc.freeze()
    wall, cpu = time.perf_counter(), time.process_time()
    work()
    return time.perf_counter() - wall, time.process_time() - cpu


def compare(name: str, options: argparse.Namespace) -> list[dict[str, Any]]:
    documents = make_documents(3 * options.documents)[KIND][: options.documents]
    batches = [documents[i : i + BATCH] for i in range(0, len(documents), BATCH)]
    draw, fewer = random.Random(1), FEWER.get(name, 1)
    reads = [d["_id"] for d in draw.choices(documents, k=options.reads // fewer)]
    updates = [d["_id"] for d in draw.choices(documents, k=options.updates // fewer)]
    known = {d["_id"]: d for d in documents}
    updated = frozenset(updates) if engine(name).flags.updates else frozenset[bytes]()
    steps = [("load", len(documents)), ("update", len(updates)), ("read", len(reads))]
    if not updated:
        del steps[1]
    times: dict[tuple[str, str], list[tuple[float, float]]] = {}
    with ExitStack() as stack:
        place = Path(stack.enter_context(tempfile.TemporaryDirectory(dir=options.directory)))
        place.chmod(0o755)  # a server may run as another user
        if engine(name).flags.embedded:
            cluster = Cluster(engine=name, stores=(place,))
        else:
            home = SERVED[name].home
            settings = {**({} if home is None else {"home": str(home())}), **SETTINGS.get(name, {})}
            shape = Topology(nodes=1, memory_mb=options.memory_mb)
            cluster = stack.enter_context(
                local_cluster(name, place / "cluster", shape, settings, schema=Schema((KIND,)))
            )
            cluster = replace(cluster, kinds=(KIND,), settings=settings)
        for number in range(options.rounds + 1):
            if cluster.endpoints:
                SERVED[name].empty(cluster)
            sides: tuple[Storewise, Bare] = (Storewise(name, cluster), BARE[name](cluster, place))
            ready = [side.prepare(batches) for side in sides]
            turns: list[int] = [0, 1] if number % 2 else [1, 0]
            for what, _ in steps:
                for turn in turns:
                    side = sides[turn]
                    if what == "read" and isinstance(side, Storewise):
                        side.end_load()
                    given = {"load": ready[turn], "update": updates, "read": reads}[what]
                    took = timed(partial(getattr(side, what), given))
                    if number:  # the first round warms both up
                        times.setdefault((what, type(side).__name__), []).append(took)
            for key in () if number else (reads[0], updates[0]):
                right = {**known[key], **({CHANGED: "new"} if key in updated else {})}
                assert sides[0].client.get(KIND, key) == right, f"Storewise of {name}"
                assert (found := sides[1].read([key])) == right, f"bare {name}: {found}, {right}"
    rows = []
    for what, count in sorted(steps):
        row: dict[str, Any] = {"store": name, "what": what}
        for n, kind in enumerate(("wall", "cpu")):
            ours, bare = (
                min(t[n] for t in times[what, side]) / count * 1e6
                for side in ("Storewise", BARE[name].__name__)
            )
            row |= {f"{kind} us": round(ours, 1), f"bare {kind} us": round(bare, 1)}
            row[f"{kind} ratio"] = round(bare / ours, 2)
        rows.append(row)
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--stores", nargs="*", choices=list(BARE), default=list(BARE))
    parser.add_argument("--documents", type=int, default=20_000)
    parser.add_argument("--reads", type=int, default=5000)
    parser.add_argument("--updates", type=int, default=1000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--memory-mb", type=int, default=1024)
    parser.add_argument("--directory", help="where the stores' files are made")
    parser.add_argument("--json", type=Path, help="write the figures to this file")
    options = parser.parse_args()
    rows: list[dict[str, Any]] = []
    for name in options.stores:
        rows += compare(name, options)
        for row in rows[-3:]:
            print("  ".join(f"{key} {value}" for key, value in row.items()), flush=True)
    conditions = {
        "python": platform.python_version(),
        "versions": {name: engine(name).versions() for name in options.stores},
        "documents": options.documents,
        "rounds": options.rounds,
        "host": facts(),
        "load_average": psutil.getloadavg(),
    }
    print(json.dumps(conditions, indent=1))
    if options.json is not None:
        text = json.dumps({"rows": rows, "conditions": conditions}, indent=1)
        options.json.write_text(text + "\n")
    low = [
        f"{row['store']} {row['what']}"
        for row in rows
        if min(row["wall ratio"], row["cpu ratio"]) < TARGET
    ]
    if low:
        raise SystemExit(f"ratio below the target of {TARGET}: {', '.join(low)}")


if __name__ == "__main__":
    main()
