"""How fast each store is loaded from an SSEARCH output, beside the store's own bulk tool.

Part of `benchmarks/engines.py`. For each store that is found on this machine, in one process of its
own and in turns (the medians of the rounds count):

- `load`: documents/s from the bytes of the file, parsed in the form that the engine wants, one
  batch parsed and then inserted. `ahead`: the same, the next batches parsed by a second thread
  meanwhile. `insert`: only the inserts, of batches that are ready.
- `us/doc`, `dicts`: processor time of this process for each document in microseconds, parsing
  included, in the engine's form and as dicts. Of stores in the process it holds the store's own
  work; of the others it is the client's.
- `tool`: documents/s of the store's own way to load ready data, one command for each table, and
  `batches`: one for each batch, so that as many transactions are on disk as with ours. A tool that
  is not installed is left out: `adbc_driver_postgresql` needs `adbc-driver-postgresql` from PyPI.

The end of a load (indexes, statistics, merged files) is in none of the figures. Ids go as text
where a tool knows nothing else (`sqlite3 .import`).
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import queue
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from hashlib import blake2b
from importlib.util import find_spec
from pathlib import Path
from statistics import median
from typing import Any

from storewise.documents import KINDS, Encoding, Kind
from storewise.engines.contract.engine import Client, Cluster, Schema
from storewise.engines.contract.queries import Count
from storewise.engines.contract.server import Credentials, Topology
from storewise.engines.registry import engine
from storewise.engines.support.table import make_table, quoted
from storewise.errors import EngineError
from storewise.ssearch.reader import DocumentReader

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))

#: What the project wants: our inserts as a share of the tool's rate, and the processor time of a
#: document as a share of that of dicts.
WANTED_RATE, WANTED_CPU = 0.8, 0.5

Part = tuple[Kind, Any]


def parts(path: Path, files: int, encoding: Encoding, batch: int) -> Iterator[Part]:
    """The documents of the file, repeated `files` times with different ids."""
    for number in range(files):
        digest = blake2b(str(number).encode(), digest_size=16).digest()
        for read in DocumentReader(path, digest, encoding=encoding, alignments_per_batch=batch):
            for kind, documents in read:
                if len(documents):
                    yield kind, documents


def ahead(source: Iterable[Part]) -> Iterator[Part]:
    """The parts, which another thread reads up to four ahead."""
    waiting: queue.Queue[Part | BaseException | None] = queue.Queue(4)

    def read() -> None:
        try:
            for part in source:
                waiting.put(part)
            waiting.put(None)
        except Exception as error:  # noqa: BLE001 - raised where the parts are taken
            waiting.put(error)

    thread = threading.Thread(target=read, daemon=True)
    thread.start()
    while (part := waiting.get()) is not None:
        if isinstance(part, BaseException):
            raise part
        yield part
    thread.join()


class Tool(ABC):
    """The bulk loader of a store, for prepared data."""

    name: str
    needs: str = ""
    """The program, or the Python package, without which it is left out."""

    @classmethod
    def is_there(cls) -> bool:
        return not cls.needs or bool(shutil.which(cls.needs)) or find_spec(cls.needs) is not None

    def __init__(self, cluster: Cluster, directory: Path) -> None:
        self.cluster, self.directory = cluster, directory

    @abstractmethod
    def ready(self, ready: list[Part]) -> Callable[[], None]:
        """Prepare record batches, each of which is one command; the function that loads them into
        the tables, which are there and empty."""

    def file(self, number: int, pieces: Iterable[Any]) -> Path:
        path = self.directory / f"ready-{number}"
        with path.open("wb") as file:
            file.writelines(pieces)
        return path


class DuckdbInsert(Tool):
    name = "INSERT ... SELECT from Arrow"

    def ready(self, ready: list[Part]) -> Callable[[], None]:
        import duckdb
        import pyarrow as pa

        tables = [(kind.table, pa.Table.from_batches([batch])) for kind, batch in ready]

        def load() -> None:
            file = self.cluster.stores[0] / "documents.duckdb"
            with duckdb.connect(str(file), config={"threads": 1}) as connection:
                for name, incoming in tables:
                    connection.register("incoming", incoming)
                    connection.execute(f"INSERT INTO {quoted(name)} SELECT * FROM incoming")

        return load


class ParquetWrite(Tool):
    name = "pyarrow write_table"

    def ready(self, ready: list[Part]) -> Callable[[], None]:
        import pyarrow as pa
        import pyarrow.parquet as pq

        def load() -> None:
            for number, (kind, batch) in enumerate(ready):
                path = self.directory / f"{kind.table}-{number}.parquet"
                pq.write_table(pa.Table.from_batches([batch]), path, compression="zstd")

        return load


class SqliteImport(Tool):
    name = "sqlite3 .import"
    needs = "sqlite3"

    def ready(self, ready: list[Part]) -> Callable[[], None]:
        from storewise.engines.support.batches import batch_rows

        commands = [".mode ascii"]
        for number, (kind, batch) in enumerate(ready):
            rows = batch_rows(batch)
            path = self.file(number, (f"{_ascii(row)}\x1e".encode() for row in rows))
            commands.append(f".import {path} {kind.table}")

        def load() -> None:
            file = self.cluster.stores[0] / "documents.sqlite"
            _run(["sqlite3", "-bail", str(file)], "\n".join(commands))

        return load


def _ascii(row: tuple[Any, ...]) -> str:
    return "\x1f".join(
        value.hex() if isinstance(value, bytes) else "" if value is None else str(value)
        for value in row
    )


class AdbcIngest(Tool):
    name = "ADBC ingest"
    needs = "adbc_driver_postgresql"

    def ready(self, ready: list[Part]) -> Callable[[], None]:
        from adbc_driver_postgresql import dbapi

        secrets, server = Credentials.of(self.cluster), self.cluster.endpoints[0]
        user, place = f"{secrets.user}:{secrets.password}", f"{server.address}:{server.port}"

        def load() -> None:
            with (
                dbapi.connect(
                    f"postgresql://{user}@{place}/postgres?sslmode=disable", autocommit=True
                ) as connection,
                connection.cursor() as cursor,
            ):
                for kind, batch in ready:
                    cursor.adbc_ingest(kind.table, batch, mode="append")

        return load


class RawInsertMany(Tool):
    name = "insert_many of ready BSON"

    def ready(self, ready: list[Part]) -> Callable[[], None]:
        from bson.raw_bson import RawBSONDocument
        from pymongo.write_concern import WriteConcern

        from storewise.engines.mongodb.cluster import as_user
        from storewise.engines.mongodb.connection import DATABASE
        from storewise.engines.support.batches import documents_of
        from storewise.ssearch.parse.documents import to_bson

        packed = [
            (
                kind.table,
                [
                    RawBSONDocument(to_bson(document))
                    for document in documents_of(make_table(kind, study_fields=False), batch)
                ],
            )
            for kind, batch in ready
        ]
        secrets = Credentials.of(self.cluster)

        def load() -> None:
            with as_user(self.cluster.endpoints[0], secrets, 30.0) as connection:
                database = connection[DATABASE]
                for name, documents in packed:
                    # As safe as ours: the driver's own write concern does not wait for the disk.
                    collection = database.get_collection(
                        name, write_concern=WriteConcern("majority", j=True)
                    )
                    collection.insert_many(documents, ordered=False)

        return load


#: The stores, and their tools; ours is compared with the first one.
STORES: dict[str, tuple[type[Tool], ...]] = {
    "null": (),
    "sqlite": (SqliteImport,),
    "duckdb": (DuckdbInsert,),
    "chdb": (),
    "parquet": (ParquetWrite,),
    "postgres": (AdbcIngest,),
    "mariadb": (),
    "mongodb": (RawInsertMany,),
}


def _run(words: list[str], script: str, **environment: str) -> None:
    subprocess.run(
        words, input=script, text=True, check=True, env={**os.environ, **environment}, stdout=2
    )


@dataclass
class Empty:
    """An empty store of an engine, a new one for each load."""

    name: str
    directory: Path
    stack: ExitStack
    _served: Cluster | None = None
    _number: int = 0

    def cluster(self) -> Cluster:
        """An embedded store of its own, or the servers, started once, without any table."""
        self._number += 1
        if engine(self.name).flags.embedded:
            return Cluster(engine=self.name, stores=(self.directory / f"store-{self._number}",))
        from support.servers.local import local_cluster
        from support.servers.stores import SERVED

        if self._served is None:
            home = SERVED[self.name].home
            settings = {} if home is None else {"home": str(home())}
            servers = local_cluster(
                self.name, self.directory / "cluster", Topology(memory_mb=1024), settings
            )
            self._served = self.stack.enter_context(servers)
        SERVED[self.name].empty(self._served)
        return self._served

    @contextmanager
    def client(self) -> Iterator[Client]:
        client = engine(self.name).connect(self.cluster(), "write")
        try:
            client.create(Schema())
            yield client
        finally:
            client.close()


def insert(client: Client, source: Iterable[Part]) -> int:
    documents = 0
    for kind, part in source:
        client.insert(kind, part)
        documents += len(part)
    return documents


def timed(work: Callable[[], int]) -> tuple[int, float, float]:
    """(documents, wall-clock seconds, CPU seconds of this process)."""
    clock, processor = time.perf_counter(), time.process_time()
    documents = work()
    return documents, time.perf_counter() - clock, time.process_time() - processor


def together(batches: list[Part]) -> list[Part]:
    """The batches of each kind as one batch."""
    import pyarrow as pa

    return [
        (kind, pa.concat_batches([batch for k, batch in batches if k is kind]))
        for kind in KINDS
        if any(k is kind for k, _ in batches)
    ]


def measure(name: str, path: Path, options: argparse.Namespace, pipe: Any) -> None:
    """Send all figures of one store through `pipe`, or the reason why there are none."""
    try:
        pipe.send(figures(name, path, options))
    except EngineError as error:
        pipe.send(str(error))


def figures(name: str, path: Path, options: argparse.Namespace) -> dict[str, Any]:
    encoding = engine(name).encoding
    tools = [tool for tool in STORES[name] if tool.is_there()]
    size, batch = options.files, options.batch
    columns = list(parts(path, size, "arrow", batch))
    ready = columns if encoding == "arrow" else list(parts(path, size, encoding, batch))
    sources: dict[str, Callable[[], Iterable[Part]]] = {
        "load": lambda: parts(path, size, encoding, batch),
        "ahead": lambda: ahead(parts(path, size, encoding, batch)),
        "insert": lambda: ready,
        "dicts": lambda: parts(path, size, "dict", batch),
    }
    clock: dict[str, list[float]] = {}
    processor: dict[str, list[float]] = {}
    total = sum(len(part) for _, part in columns)

    def note(what: str, work: Callable[[], int]) -> None:
        documents, seconds, busy = timed(work)
        if documents != total:
            raise SystemExit(f"{name}: {what} stored {documents} of {total} documents")
        clock.setdefault(what, []).append(seconds)
        processor.setdefault(what, []).append(busy)

    with tempfile.TemporaryDirectory(dir=options.directory) as directory, ExitStack() as stack:
        empty = Empty(name, Path(directory), stack)
        # What is imported at the first batch is no part of the figures.
        with empty.client() as client:
            for encoded in ("dict", encoding):
                insert(client, list(parts(path, 1, encoded, batch))[:4])
        for _ in range(options.rounds):
            for what, source in sources.items():
                with empty.client() as client:
                    note(what, lambda c=client, s=source: insert(c, s()))  # type: ignore[misc]
            for tool in tools:
                for what, pieces in (("whole", together(columns)), ("batches", columns)):
                    cluster = empty.cluster()
                    with _connected(cluster) as client:
                        client.create(Schema())
                    load = tool(cluster, Path(directory)).ready(pieces)
                    note(f"{tool.name}, {what}", lambda load=load: load() or total)  # type: ignore[misc]
                    if tool is ParquetWrite:
                        continue  # its files are no store
                    with _connected(cluster) as client:
                        client.create(Schema())
                        stored = sum(client.count(Count(kind)) for kind in KINDS)
                    if stored != total:
                        raise SystemExit(f"{name}: {tool.name} stored {stored} of {total}")
    rates = {what: total / median(seconds) for what, seconds in clock.items()}
    cpu = {what: median(busy) / total * 1e6 for what, busy in processor.items()}
    result: dict[str, Any] = {
        "engine": name,
        "encoding": encoding,
        "documents": total,
        **{f"{what}_per_s": rates[what] for what in sources},
        "tools": [
            {
                "name": tool.name,
                "per_s": rates[f"{tool.name}, whole"],
                "batches_per_s": rates[f"{tool.name}, batches"],
                "batches_cpu_us": cpu[f"{tool.name}, batches"],
            }
            for tool in tools
        ],
        "cpu_us": cpu["load"],
        "cpu_us_dicts": cpu["dicts"],
        "cpu_us_insert": cpu["insert"],
        "cpu_ratio": cpu["load"] / cpu["dicts"],
    }
    if tools:
        first = result["tools"][0]
        result |= {f"{what}_ratio": rates[what] / first["per_s"] for what in ("ahead", "insert")}
        result["batches_ratio"] = rates["insert"] / first["batches_per_s"]
    return result


@contextmanager
def _connected(cluster: Cluster) -> Iterator[Client]:
    client = engine(cluster.engine).connect(cluster, "write")
    try:
        yield client
    finally:
        client.close()


def run(name: str, path: Path, options: argparse.Namespace) -> dict[str, Any] | str:
    """The figures of one store, measured in a new process, or the reason why there are none."""
    context = multiprocessing.get_context("spawn")
    receiver, sender = context.Pipe(duplex=False)
    child = context.Process(target=measure, args=(name, path, options, sender))
    child.start()
    sender.close()
    try:
        result: dict[str, Any] | str = receiver.recv()
    except EOFError:
        child.join()
        return f"the measuring process ended with {child.exitcode}"
    child.join()
    return result


def show(results: Iterable[dict[str, Any]]) -> None:
    print(
        f"{'engine':8} {'form':5} {'load/s':>9} {'ahead/s':>9} {'insert/s':>9} {'us/doc':>7} "
        f"{'dicts':>7} {'ratio':>6} {'tool/s':>9} {'batches/s':>9} {'ahead:tool':>10} "
        f"{'insert:tool':>11} {'insert:batches':>14}  tool"
    )
    for r in results:
        ours = " ".join(f"{r[key]:9,.0f}" for key in ("load_per_s", "ahead_per_s", "insert_per_s"))
        row = (
            f"{r['engine']:8} {r['encoding']:5} {ours} {r['cpu_us']:7.2f} {r['cpu_us_dicts']:7.2f} "
            f"{r['cpu_ratio']:6.2f}"
        )
        for number, tool in enumerate(r["tools"]):
            keys = (("ahead_ratio", 10), ("insert_ratio", 11), ("batches_ratio", 14))
            ratios = " ".join(f"{'' if number else f'{r[k]:.2f}':>{width}}" for k, width in keys)
            rates = f"{tool['per_s']:9,.0f} {tool['batches_per_s']:9,.0f}"
            print(f"{' ' * len(row) if number else row} {rates} {ratios}  {tool['name']}")
        if not r["tools"]:
            print(row)
    print(
        f"wanted: at least {WANTED_RATE} of the tool's rate, at most {WANTED_CPU} of the processor "
        "time of dicts"
    )


def loads(options: argparse.Namespace) -> list[dict[str, Any]]:
    """The figures of all installed stores, shown as they come."""
    from parse import SAMPLE, make_output

    results = []
    with tempfile.TemporaryDirectory(dir=options.directory) as directory:
        if options.quick:
            path = min(SAMPLE.glob("*arabidopsis*.zst"))
            origin = path.name
        else:
            path, origin = make_output(Path(directory))
        size = path.stat().st_size
        print(
            f"{origin}: {size:,} bytes, {options.files} times; batches of {options.batch}; "
            f"{options.rounds} rounds; load average {os.getloadavg()[0]:.1f}"
        )
        for name in options.stores or STORES:
            result = run(name, path, options)
            if isinstance(result, str):
                print(f"{name}: not measured: {result}")
            else:
                results.append(result)
    show(results)
    return results
