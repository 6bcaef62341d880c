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

Printed is the bare loop's time / Storewise's, in wall-clock time and in CPU time of this process
(an embedded store is in it): to reach 0.9. The best round of each counts, because other programs
share the machine; servers share it too, so these are no figures of the stores.
"""

from __future__ import annotations

import argparse
import gc
import itertools
import json
import platform
import random
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import psutil
from bare_loops import BARE, CHANGED, KIND, Bare
from engines import make_documents

from storewise.documents import Document
from storewise.driver.loops import run_loop
from storewise.engines.contract.engine import Client, Cluster, Schema
from storewise.engines.contract.server import Topology
from storewise.engines.registry import engine
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
#: Divisors of the numbers of look-ups and updates, for stores whose operations take milliseconds.
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

    def close(self) -> None:
        self.client.close()

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
            settings = {} if home is None else {"home": str(home())}
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
            for side in sides:
                side.close()
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
        of_store = compare(name, options)
        rows += of_store
        for row in of_store:
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
