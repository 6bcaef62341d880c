"""The client of workload `ycsb`: its own ceiling, and next to go-ycsb on the same servers.

    python benchmarks/ycsb.py [--engines postgres mariadb mongodb cassandra] [--records 50000]
        [--threads 1 4 16 64] [--seconds 5] [--rounds 3] [--json FILE]

In one run:

- `null`: operations/s of one process of workloads A and C on the null engine, everything recorded,
  in wall-clock time and per second of the process's own processor time, which other programs on the
  machine do not change much (to reach: 800,000 of C; wall-clock on an idle machine).
- For each engine a server is started as a session starts it, and loaded with the same number of
  records by both programs, each in tables of its own. Then both run C and A with each number of
  threads, one after the other, first the one and then the other in turn over the rounds. Told are
  the medians of operations/s and of the client's processor time per operation, and the ratio of
  the throughputs. Our threads are spread over as many processes as the machine has processors
  (`--processes`).

Servers run at the first level of their engine, and go-ycsb writes at the same. Programs that no
package of the system brings are fetched as the tests fetch them (mongod, Cassandra's jars).

go-ycsb (https://github.com/pingcap/go-ycsb, v1.0.1) is built with the Go toolchain from
`benchmarks/go_ycsb`, into a cache directory of the user; `--program` or STOREWISE_GO_YCSB name one
that is built already. Client and server share the machine, so these are no figures of the server.
"""

from __future__ import annotations

import argparse
import json
import logging
import os
import platform
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from statistics import median
from typing import Any

import psutil
import pyarrow.compute as pc

from storewise.driver.worker import WorkerJob, run_worker
from storewise.engines.cassandra.cluster import KEYSPACE
from storewise.engines.contract.engine import Cluster, Endpoint, Schema
from storewise.engines.contract.server import Credentials, Topology
from storewise.engines.mongodb.cluster import as_system
from storewise.engines.mysql.connection import DATABASE as MYSQL_DATABASE
from storewise.engines.postgres import client as postgresclient
from storewise.engines.registry import engine
from storewise.metrics.host import facts
from storewise.metrics.schema import read_part
from storewise.study.trial import Phase, Trial

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))
from support.servers.local import local_cluster
from support.servers.stores import SERVED

HERE = Path(__file__).parent
THREADS = (1, 4, 16, 64)
WORKLOADS = ("c", "a")
TARGET_NULL = 800_000
ENGINES = ("postgres", "mariadb", "mongodb", "cassandra")
TABLE = "go_usertable"
VARIABLE = "STOREWISE_GO_YCSB"
#: YCSB's own properties of the workloads, for go-ycsb, whose default is half reads and half writes.
_MIX = {"a": (0.5, 0.5), "c": (1.0, 0.0)}


@dataclass(frozen=True)
class Rate:
    """The rate of one run."""

    per_second: float
    cpu_us: float
    """Processor time of the client per operation, in µs: of our client processes while they work,
    of go-ycsb as a whole."""


class Ours:
    """Storewise's driver with one store."""

    def __init__(self, name: str, place: Path, records: int, processes: int) -> None:
        self.name, self.place, self.records, self.processes = name, place, records, processes
        self.cluster: Cluster | None = None
        self._number = 0

    def trial(self, phase: str, params: Mapping[str, Any]) -> Trial:
        return Trial(
            study="benchmark",
            id="benchmark",
            engine=self.name,
            workload="ycsb",
            repeat=0,
            seed=1,
            factors={"engine": self.name},
            processes=self.processes,
            phases=[
                Phase(name="load", params={"recordcount": self.records}),
                *([Phase(name=phase, params=dict(params))] if phase != "load" else []),
            ],
        )

    def work(self, phase: str, **params: Any) -> Path:
        """Run one phase; returns its result part."""
        self._number += 1
        loads = phase == "load"
        live = self.place / f"live.{self._number}"
        live.mkdir()
        result = self.place / (f"{phase}.parquet" if loads else f"{phase}.{self._number}.parquet")
        log = logging.getLogger("benchmark")
        log.setLevel(logging.WARNING)
        written = self.place / "written.parquet"
        job = WorkerJob(
            trial=self.trial(phase, params),
            phase=phase,
            worker=0,
            shards=None,
            live=live,
            result=result,
            hdr_log=result.with_suffix(".hlog"),
            store=self.place / "store" if loads and self.cluster is None else None,
            stores=() if loads or self.cluster is not None else (self.place / "store",),
            written=() if loads else (written,),
            before=() if loads else (self.place / "load.parquet",),
            files=written if loads else None,
            cluster=self.cluster,
        )
        run_worker(job, lambda: None, log)
        return result

    def rate(self, phase: str, threads: int, seconds: float) -> Rate:
        part = self.work(phase, seconds=seconds, clients=threads)
        table, _ = read_part(part)
        client = total(table, "client_cpu")
        table = table.filter(pc.is_null(table["second"]))
        operations = total(table, "operations")
        if total(table, "errors"):
            raise SystemExit(f"{phase}: operations failed; see {part}")
        (took,) = (
            row["value"]
            for row in table.filter(pc.field("metric") == "duration").to_pylist()
            if row["process"] is None
        )
        return Rate(operations / took, 1e6 * client / operations)


def total(table: Any, metric: str) -> float:
    return float(sum(table.filter(pc.field("metric") == metric)["value"].to_pylist()))


def binding(name: str, at: Endpoint, secrets: Credentials) -> tuple[str, dict[str, Any]]:
    """Name of go-ycsb's binding for an engine, and its properties."""
    user, password = secrets.user, secrets.password
    if name == "mongodb":
        # At level `durable`, as our own clients.
        url = f"mongodb://{at.address}:{at.port}/?w=majority&journal=true&directConnection=true"
        return name, {
            "mongodb.url": url,
            "mongodb.username": user,
            "mongodb.password": password,
        }
    if name == "cassandra":
        return name, {
            "cassandra.cluster": f"{at.address}:{at.port}",
            "cassandra.keyspace": KEYSPACE,
            "cassandra.username": user,
            "cassandra.password": password,
        }
    long, prefix, database = {
        "postgres": ("postgresql", "pg", postgresclient.DATABASE),
        "mariadb": ("mysql", "mysql", MYSQL_DATABASE),
    }[name]
    values = {"host": at.address, "port": at.port, "user": user, "password": password}
    return long, {f"{prefix}.{key}": value for key, value in {**values, "db": database}.items()}


def let_in(at: Endpoint, secrets: Credentials) -> None:
    """Grant the session's user of MongoDB access to the database of go-ycsb."""
    roles = [{"role": "readWrite", "db": "ycsb"}]
    with as_system(at, secrets, 30.0) as connection:
        connection.admin.command("grantRolesToUser", secrets.user, roles=roles)


class GoYcsb:
    """go-ycsb on the same server, with a table of its own."""

    def __init__(self, name: str, program: Path, cluster: Cluster, records: int) -> None:
        assert cluster.credentials is not None
        self.program, self.records = program, records
        at, secrets = cluster.endpoints[0], Credentials.read(cluster.credentials)
        if name == "mongodb":
            let_in(at, secrets)
        self.binding, self.properties = binding(name, at, secrets)

    def _run(self, what: str, **properties: Any) -> str:
        values = {
            **self.properties,
            "table": TABLE,
            "recordcount": self.records,
            "requestdistribution": "zipfian",
            "measurement.interval": 3600,
            **properties,
        }
        done = subprocess.run(
            [str(self.program), what, self.binding, *(f"{k}={v}" for k, v in values.items())],
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode:
            raise SystemExit(f"go-ycsb {what} failed:\n{done.stderr[-2000:]}{done.stdout[-2000:]}")
        return done.stdout

    def load(self) -> None:
        text = self._run("load", threadcount=8)
        if f"Count: {self.records}," not in text or "ERROR" in text:
            raise SystemExit(f"go-ycsb has not loaded all records:\n{text[-2000:]}")

    def rate(self, phase: str, threads: int, seconds: float) -> Rate:
        reads, updates = _MIX[phase]
        text = self._run(
            "run",
            threadcount=threads,
            seconds=seconds,
            operationcount=10**9,
            readproportion=reads,
            updateproportion=updates,
            scanproportion=0,
            insertproportion=0,
        )
        counts = re.findall(r"^(READ|UPDATE) +- .*?Count: (\d+)", text, re.M)
        failed = re.findall(r"^\w+_ERROR +- .*?Count: (\d+)", text, re.M)
        last = re.search(r"RUNTIME ([\d.]+) CPU ([\d.]+)", text)
        # What is under way at the end is cut off: an error or two of each thread.
        if not counts or last is None or sum(map(int, failed)) > 3 * threads:
            raise SystemExit(f"go-ycsb said something unexpected:\n{text[-2000:]}")
        operations = sum(int(count) for count in dict(counts).values())
        return Rate(operations / float(last[1]), 1e6 * float(last[2]) / operations)


def build(cache: Path) -> Path:
    """The program go-ycsb, built outside of the project if it is missing."""
    if shutil.which("go") is None:
        raise SystemExit(
            "go-ycsb is built with the Go toolchain: install it (https://go.dev/dl/), or name a "
            f"program that is built already with --program or {VARIABLE}"
        )
    program = cache / "go_ycsb"
    sources = [HERE / "go_ycsb" / name for name in ("main.go", "go.mod")]
    newest = max(source.stat().st_mtime for source in sources)
    if program.is_file() and program.stat().st_mtime > newest:
        return program
    cache.mkdir(parents=True, exist_ok=True)
    for source in sources:
        shutil.copy(source, cache / source.name)
    for command in (["go", "mod", "tidy"], ["go", "build", "-o", "go_ycsb", "."]):
        subprocess.run(command, cwd=cache, check=True)
    return program


def null_rates(records: int, seconds: float) -> dict[str, Rate]:
    """Rates of one process with the null engine."""
    with tempfile.TemporaryDirectory() as name:
        ours = Ours("null", Path(name), records, 1)
        ours.work("load")
        return {phase: ours.rate(phase, 1, seconds) for phase in WORKLOADS}


def compare(name: str, options: argparse.Namespace, program: Path) -> list[dict[str, Any]]:
    """Rates of one engine, a row per workload and number of threads."""
    processes = options.processes or os.cpu_count() or 1
    result: dict[tuple[str, int, str], list[Rate]] = {}
    home = SERVED[name].home
    with tempfile.TemporaryDirectory() as directory:
        place = Path(directory)
        place.chmod(0o755)  # a server may run as another user
        ours = Ours(name, place, options.records, processes)
        with local_cluster(
            name,
            place / "cluster",
            Topology(nodes=1, memory_mb=options.memory_mb),
            {} if home is None else {"home": str(home())},
            schema=Schema(kinds=ours.trial("load", {}).kinds()),
        ) as cluster:
            settings = {**cluster.settings, **dict(options.settings)}
            kinds = ours.trial("load", {}).kinds()
            ours.cluster = replace(cluster, kinds=kinds, settings=settings)
            ours.work("load")
            theirs = GoYcsb(name, program, cluster, options.records)
            theirs.load()
            for number in range(options.rounds):
                pair: list[tuple[str, Any]] = [("storewise", ours), ("go-ycsb", theirs)]
                for phase in WORKLOADS:
                    for threads in options.threads:
                        for who, client in pair[:: -1 if number % 2 else 1]:
                            rate = client.rate(phase, threads, options.seconds)
                            result.setdefault((phase, threads, who), []).append(rate)
    rows = []
    for phase in WORKLOADS:
        for threads in options.threads:
            row: dict[str, Any] = {"engine": name, "workload": phase.upper(), "threads": threads}
            for who in ("storewise", "go-ycsb"):
                rates = result[phase, threads, who]
                row[who] = round(median(r.per_second for r in rates))
                row[f"{who} cpu_us"] = round(median(r.cpu_us for r in rates), 1)
            row["ratio"] = round(row["storewise"] / row["go-ycsb"], 2)
            rows.append(row)
    return rows


def show(rows: list[dict[str, Any]]) -> None:
    heads = list(rows[0])
    print("  ".join(f"{head:>16}" for head in heads))
    for row in rows:
        values = [v if isinstance(v, str) else f"{v:,}" for v in row.values()]
        print("  ".join(f"{value:>16}" for value in values), flush=True)


def setting(text: str) -> tuple[str, str]:
    name, _, value = text.partition("=")
    return name, value


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument(
        "--engines", nargs="*", choices=ENGINES, default=list(ENGINES), metavar="ENGINE"
    )
    parser.add_argument("--records", type=int, default=50_000)
    parser.add_argument("--seconds", type=float, default=5.0, help="of each run (default: 5)")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--threads", type=int, nargs="+", default=list(THREADS))
    parser.add_argument("--processes", type=int, help="of our client (default: processors)")
    parser.add_argument("--memory-mb", type=int, default=1024)
    parser.add_argument(
        "--settings",
        type=setting,
        nargs="*",
        default=[],
        metavar="KEY=VALUE",
        help="of our clients, such as driver=pymysql",
    )
    parser.add_argument("--null-only", action="store_true", help="only our own ceiling")
    parser.add_argument(
        "--program", type=Path, help="go-ycsb, where it is built already", default=None
    )
    parser.add_argument(
        "--cache",
        type=Path,
        default=Path.home() / ".cache" / "storewise-benchmarks" / "go_ycsb",
        help="where go-ycsb is built",
    )
    parser.add_argument("--json", type=Path, help="write the figures to this file")
    options = parser.parse_args()
    rows: list[dict[str, Any]] = []
    engines = [] if options.null_only else options.engines
    if engines:
        program = options.program or os.environ.get(VARIABLE) or build(options.cache)
        program = Path(program).absolute()
    null = null_rates(options.records, options.seconds)
    for phase, rate in sorted(null.items()):
        print(
            f"null engine, {phase.upper()}: {rate.per_second:,.0f} operations/s a process, "
            f"{1e6 / rate.cpu_us:,.0f} per second of its processor time",
            flush=True,
        )
    for name in engines:
        rows += compare(name, options, program)
        show(rows[-len(WORKLOADS) * len(options.threads) :])
    if options.json is not None:
        conditions = {
            "python": platform.python_version(),
            "engines": {name: engine(name).versions() for name in engines},
            "go-ycsb": "v1.0.1",
            "records": options.records,
            "seconds": options.seconds,
            "rounds": options.rounds,
            "processes": options.processes or os.cpu_count(),
            "settings": dict(options.settings),
            "host": facts(),
            "load_average": psutil.getloadavg(),
        }
        ceiling = {phase: asdict(rate) for phase, rate in null.items()}
        result = {
            "null": ceiling,
            "target_null": TARGET_NULL,
            "rows": rows,
            "conditions": conditions,
        }
        options.json.write_text(json.dumps(result, indent=1) + "\n")
    if 1e6 / null["c"].cpu_us < TARGET_NULL:
        raise SystemExit(f"workload C on the null engine: below {TARGET_NULL:,} operations/s")


if __name__ == "__main__":
    main()
