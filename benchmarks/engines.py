"""How fast each embedded engine takes documents in and gives them back, and how fast each store is
loaded beside its own bulk tool; one client, one process.

    python benchmarks/engines.py [--quick] [--only loads|reads] [--stores duckdb postgres]
        [--documents 100000] [--reads 2000] [--batch 1000] [--files 4] [--rounds 3] [--json FILE]

The loads are those of `benchmarks/loads.py`, which says what each column is. For the rest, every
case runs in a child process of its own, so that memory and imports are its own; the null engine
runs in the same session, and the last columns are ratios to it: it is what the client itself can
reach. Documents are made by a formula with the shapes and mean sizes of the published study's (a
quarter of each kind but for one task per file). Point reads are of uniform random ids, from a store
whose files the system has just written, so mostly from memory.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import multiprocessing
import os
import platform
import random
import resource
import tempfile
import time
from pathlib import Path
from typing import Any

from loads import STORES, loads

from storewise.documents import KINDS, Document, Kind, make_id
from storewise.engines.contract.engine import Cluster, Schema
from storewise.engines.registry import engine

CASES = [
    (name, level)
    for name in ("sqlite", "duckdb", "chdb", "parquet")
    for level in ("durable", "relaxed")
]
PER_FILE = 8000


def make_documents(total: int) -> dict[Kind, list[Document]]:
    """About `total` documents, in files of 24,001."""
    draw = random.Random(1)
    documents: dict[Kind, list[Document]] = {kind: [] for kind in KINDS}
    letters = "".join(draw.choices("ACGT-", k=100_000))
    for number in range(max(1, total // 3)):
        file, ordinal = divmod(number, PER_FILE)
        digest = hashlib.blake2b(str(file).encode(), digest_size=16).digest()
        ids = {kind: make_id(digest, kind, ordinal) for kind in KINDS}
        task = make_id(digest, Kind.TASKS, 0)
        if ordinal == 0:
            params = {f"pg_{n}": f"value {n}" * 4 for n in range(15)}
            documents[Kind.TASKS].append({"_id": task, "t": 601, "q": "q", "lib": "l", **params})
        begin, length = draw.randrange(90_000), draw.randrange(20, 200)
        place = {
            "b": begin, "e": begin + length, "l": length,
            "s": letters[begin : begin + length], "ti": task,
        }  # fmt: skip
        documents[Kind.RNA].append({"_id": ids[Kind.RNA], "t": 602, **place})
        documents[Kind.GS].append(
            {"_id": ids[Kind.GS], "t": 603, **place, "seqid": f"ENSG{draw.randrange(9999):011d}.1"}
        )
        documents[Kind.ALIGN].append(
            {
                "_id": ids[Kind.ALIGN], "t": 604, "b": draw.random() * 50, "e": draw.random(),
                "s_w": length, "f": "f", "i": draw.random(), "o": length, "p": length,
                "si": draw.random(), "z": draw.random() * 100, "rna": ids[Kind.RNA],
                "gs": ids[Kind.GS], "ti": task, "q": "q", "gene": f"GENE{draw.randrange(999)}",
                "chr": "1",
            }
        )  # fmt: skip
    return documents


def measure(name: str, level: str, options: argparse.Namespace, pipe: Any) -> None:
    """Write and read one store; sends the figures through `pipe`."""
    documents = make_documents(options.documents)
    total = sum(map(len, documents.values()))
    wanted = [(kind, d["_id"]) for kind in KINDS for d in documents[kind]]
    random.Random(2).shuffle(wanted)
    with tempfile.TemporaryDirectory(dir=options.directory) as directory:
        cluster = Cluster(engine=name, stores=(Path(directory) / "store",), consistency=level)
        writer = engine(name).connect(cluster, "write")
        writer.create(Schema())
        start = time.perf_counter()
        for kind in KINDS:
            for first in range(0, len(documents[kind]), options.batch):
                writer.insert(kind, documents[kind][first : first + options.batch])
        inserted = time.perf_counter() - start
        writer.finish()
        finished = time.perf_counter() - start
        size = writer.disk_bytes()
        writer.close()
        start = time.perf_counter()
        reader = engine(name).connect(cluster, "read")
        opened = time.perf_counter() - start
        reads = wanted[: options.reads]
        for kind, document_id in reads[:50]:
            reader.get(kind, document_id)
        start = time.perf_counter()
        for kind, document_id in reads:
            reader.get(kind, document_id)
        read = time.perf_counter() - start
        batches = [
            (kind, [i for k, i in reads if k is kind][first : first + 100])
            for kind in (Kind.RNA, Kind.GS, Kind.ALIGN)
            for first in range(0, len(reads) // 3, 100)
        ]
        start = time.perf_counter()
        for kind, ids in batches:
            reader.get_many(kind, ids)
        many = time.perf_counter() - start
        reader.close()
    pipe.send(
        {
            "engine": name,
            "consistency": level,
            "documents": total,
            "insert_per_s": total / inserted,
            "load_per_s": total / finished,
            "get_per_s": len(reads) / read,
            "get_many_100_per_s": sum(len(ids) for _, ids in batches) / many,
            "bytes_per_document": size / total,
            "open_s": opened,
            "peak_mib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
            "versions": engine(name).versions(),
        }
    )


def run(name: str, level: str, options: argparse.Namespace) -> dict[str, Any]:
    """One case in a new process."""
    context = multiprocessing.get_context("spawn")
    receiver, sender = context.Pipe(duplex=False)
    child = context.Process(target=measure, args=(name, level, options, sender))
    child.start()
    sender.close()
    try:
        figures: dict[str, Any] = receiver.recv()
    except EOFError:
        child.join()
        raise SystemExit(
            f"{name} {level}: the measuring process ended with {child.exitcode}"
        ) from None
    child.join()
    return figures


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("--documents", type=int, default=100_000)
    parser.add_argument("--reads", type=int, default=2_000)
    parser.add_argument("--batch", type=int, default=1_000)
    parser.add_argument("--directory", help="where the stores are made (default: temporary files)")
    parser.add_argument("--json", type=Path, help="write the figures here as well")
    parser.add_argument("--quick", action="store_true", help="few documents: does it run?")
    parser.add_argument("--only", choices=["loads", "reads"], help="one of the two tables")
    parser.add_argument("--stores", nargs="+", choices=list(STORES), help="of the loads")
    parser.add_argument("--files", type=int, default=4, help="loads: times that the file is loaded")
    parser.add_argument("--rounds", type=int, default=3, help="of the loads")
    options = parser.parse_args()
    if options.quick:
        options.documents, options.reads, options.files, options.rounds = 3000, 100, 1, 1
    print(f"{platform.platform()}, {os.cpu_count()} CPUs, Python {platform.python_version()}")
    loaded = loads(options) if options.only != "reads" else []
    results = reads(options) if options.only != "loads" else []
    if options.json:
        options.json.write_text(json.dumps({"loads": loaded, "reads": results}, indent=2) + "\n")


def reads(options: argparse.Namespace) -> list[dict[str, Any]]:
    """Loads of ready dicts, and reads, of the embedded engines."""
    results = [run(name, level, options) for name, level in [("null", "durable"), *CASES]]
    null = results[0]
    print(
        f"{'engine':8} {'level':8} {'insert/s':>11} {'load/s':>11} {'get/s':>11} {'get100/s':>11} "
        f"{'B/doc':>6} {'open s':>6} {'MiB':>5} {'load:null':>10} {'get:null':>9}"
    )
    for r in results:
        load, get = (r[key] / null[key] for key in ("load_per_s", "get_per_s"))
        print(
            f"{r['engine']:8} {r['consistency']:8} {r['insert_per_s']:11,.0f} "
            f"{r['load_per_s']:11,.0f} {r['get_per_s']:11,.0f} {r['get_many_100_per_s']:11,.0f} "
            f"{r['bytes_per_document']:6.1f} {r['open_s']:6.2f} {r['peak_mib']:5.0f} "
            f"{load:10.5f} {get:9.5f}"
        )
    return results


if __name__ == "__main__":
    main()
