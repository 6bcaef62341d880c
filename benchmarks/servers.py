"""How fast the clients of engines with servers are, next to their drivers' own bare loops.

    python benchmarks/servers.py [--documents 60000] [--reads 3000] [--nodes 1] [--json FILE]

For each engine a cluster is started on this host, and one client loads `align` documents and reads
them by id. The bare loop does the same with the driver alone, on the same server in the same run:
rows ready as tuples, COPY or LOAD DATA as the driver's manual shows it, one prepared statement for
reads, no dicts, always a column for each field. The ratio says what the contract's client costs,
and with the layout `json` what that costs beyond. The order of both alternates over
the rounds, and the medians count, because other programs share the machine. Client and server
share it as well, so these are no figures of the servers.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import random
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import psycopg
from engines import make_documents

from storewise.documents import Document, Kind
from storewise.engines.contract.engine import Cluster, Schema
from storewise.engines.contract.server import Credentials, Topology
from storewise.engines.registry import engine
from storewise.engines.support.table import Row, make_table

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))
from support.servers.local import local_cluster

TABLE = make_table(Kind.ALIGN, study_fields=False)
SQL_TYPES = {"id": "bytea", "int": "bigint", "float": "double precision", "str": "text"}


def seconds(work: Callable[[], None]) -> float:
    started = time.perf_counter()
    work()
    return time.perf_counter() - started


class BarePostgres:
    """psycopg by itself, on one server."""

    def __init__(self, cluster: Cluster) -> None:
        assert cluster.credentials is not None
        secrets = Credentials.read(cluster.credentials)
        endpoint = cluster.endpoints[0]
        self.connection = psycopg.connect(
            host=endpoint.address,
            port=endpoint.port,
            user=secrets.user,
            password=secrets.password,
            dbname="postgres",
            autocommit=True,
        )
        self.types = [SQL_TYPES[column.type] for column in TABLE.columns]

    def create(self) -> None:
        columns = ", ".join(
            f'"{column.name}" {type_}' + (" PRIMARY KEY" if column.name == "_id" else "")
            for column, type_ in zip(TABLE.columns, self.types, strict=True)
        )
        self.connection.execute("DROP TABLE IF EXISTS bare")
        self.connection.execute(f"CREATE TABLE bare ({columns})")  # type: ignore[arg-type]

    def load(self, batches: Sequence[Sequence[Row]]) -> None:
        for rows in batches:
            with (
                self.connection.cursor() as cursor,
                cursor.copy("COPY bare FROM STDIN (FORMAT BINARY)") as copy,
            ):
                copy.set_types(self.types)
                for row in rows:
                    copy.write_row(row)

    def read(self, ids: Sequence[bytes]) -> None:
        with self.connection.cursor(binary=True) as cursor:
            for document_id in ids:
                cursor.execute("SELECT * FROM bare WHERE _id = %s", (document_id,), prepare=True)
                assert cursor.fetchone() is not None

    def close(self) -> None:
        self.connection.close()


BARE = {"postgres": BarePostgres}


def measure(name: str, settings: dict[str, Any], options: argparse.Namespace) -> dict[str, Any]:
    documents = make_documents(3 * options.documents)[Kind.ALIGN][: options.documents]
    batches: list[list[Document]] = [
        documents[start : start + options.batch]
        for start in range(0, len(documents), options.batch)
    ]
    rows = [TABLE.rows(batch) for batch in batches]
    ids = [d["_id"] for d in random.Random(1).choices(documents, k=options.reads)]
    times: dict[str, list[float]] = {"load": [], "bare_load": [], "read": [], "bare_read": []}
    for number in range(options.rounds):
        with (
            tempfile.TemporaryDirectory(dir=options.directory) as directory,
            local_cluster(
                name,
                Path(directory) / "cluster",
                Topology(nodes=options.nodes, memory_mb=options.memory_mb),
                settings,
                schema=Schema(kinds=(Kind.ALIGN,)),
            ) as cluster,
        ):
            client = engine(name).connect(cluster, "write")
            bare = BARE[name](cluster)
            bare.create()

            def load(client: Any = client) -> None:
                for batch in batches:
                    client.insert(Kind.ALIGN, batch)

            def read(client: Any = client) -> None:
                for document_id in ids:
                    assert client.get(Kind.ALIGN, document_id) is not None

            pairs: list[tuple[str, Callable[[], None]]] = [
                ("load", load),
                ("bare_load", lambda bare=bare: bare.load(rows)),  # type: ignore[misc]
                ("read", read),
                ("bare_read", lambda bare=bare: bare.read(ids)),  # type: ignore[misc]
            ]
            if number % 2:
                pairs = [pairs[1], pairs[0], pairs[3], pairs[2]]
            for what, work in pairs:
                times[what].append(seconds(work))
            bare.close()
            client.close()
    rates = {
        what: (options.reads if "read" in what else options.documents) / statistics.median(result)
        for what, result in times.items()
    }
    return {
        "engine": name,
        **settings,
        "nodes": options.nodes,
        **{f"{what}_per_s": round(rate) for what, rate in rates.items()},
        "load_ratio": round(rates["load"] / rates["bare_load"], 2),
        "read_ratio": round(rates["read"] / rates["bare_read"], 2),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--documents", type=int, default=60_000)
    parser.add_argument("--reads", type=int, default=3000)
    parser.add_argument("--batch", type=int, default=1000)
    parser.add_argument("--nodes", type=int, default=1)
    parser.add_argument("--memory-mb", type=int, default=1024)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--directory", help="where the servers' files are made")
    parser.add_argument("--json", type=Path, help="write the figures to this file")
    options = parser.parse_args()
    result = []
    for name in BARE:
        for settings in ({"layout": "columns"}, {"layout": "json"}):
            result.append(measure(name, settings, options))
            print(json.dumps(result[-1]), flush=True)
    if options.json is not None:
        host = {"cpus": os.cpu_count(), "machine": platform.machine()}
        options.json.write_text(json.dumps({"host": host, "cases": result}, indent=1) + "\n")


if __name__ == "__main__":
    main()
