"""Speed of parsing SSEARCH outputs to documents, compared with Biopython and with plain reading.

    python benchmarks/parse.py [--quick] [--file OUTPUT.m10] [--json RESULT.json]
    python benchmarks/parse.py --tables [--rows N] [--json RESULT.json]   (tables.py)

Without `--file` it runs ssearch36 on the bundled real sequences (resources/sample/fasta) to make
an output of about 10 MB in one search, in a temporary directory; without ssearch36 it joins the
bundled outputs. Every measurement is a process of its own; the methods take turns, so that a
machine that is busy for a while is busy for all. Within a process a method runs a few times
(imports, and the file's way into the page cache, are not part of it), and the best of all counts.
Times are of the clock, and of the processor: on a machine that does other work as well, only the
latter can be compared. Peak memory is the process's (VmHWM).

"convert" makes a data set of several such outputs: `storewise convert --to parquet --jobs 1`, one
process, of which a thread reads and digests ahead and another writes.
"""

from __future__ import annotations

import argparse
import gzip
import importlib
import json
import os
import platform
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path
from typing import Any

import zstandard

SAMPLE = Path(__file__).resolve().parent.parent / "resources" / "sample"
SIZE = 10_000_000
#: Alignments of a batch.
BATCH = 8000
#: What the project wants: documents per second as multiples of SearchIO's.
WANTED = {
    "arrow": 100.0,
    "arrow, no core": 30.0,
    "bson": 60.0,
    "bson, no core": 20.0,
    "convert": 50.0,
    "convert, no core": 15.0,
}
#: Outputs of a data set; they differ in their command lines.
COPIES = 8
#: Leaves the compiled core out: the same columns are made with numpy.
NO_CORE = ", no core"


def read_newlines(path: Path) -> int:
    lines = 0
    with path.open("rb") as file:
        while data := file.read(1 << 20):
            lines += data.count(b"\n")
    return 0


def read_lines(path: Path) -> int:
    with path.open() as file:
        for _ in file:
            pass
    return 0


def search_io(path: Path) -> int:
    from Bio import SearchIO

    documents = 0
    for result in SearchIO.parse(path, "fasta-m10"):
        documents += 1 + 3 * len(result.hsps)
    return documents


def align_io(path: Path) -> int:
    from Bio import AlignIO

    # AlignIO has alignments only: a query without hits is nothing to it.
    queries, alignments = set(), 0
    for alignment in AlignIO.parse(path, "fasta-m10"):
        alignments += 1
        queries.add(alignment[0].id)
    return len(queries) + 3 * alignments


def storewise(encoding: str) -> Callable[[Path], int]:
    def run(path: Path) -> int:
        from storewise.ssearch.reader import DocumentReader

        reader = DocumentReader(
            path,
            bytes(7),
            encoding=encoding,
            alignments_per_batch=BATCH,  # type: ignore[arg-type]
        )
        return sum(len(batch) for batch in reader)

    return run


def convert(path: Path) -> int:
    from storewise.dataset.conversion import Options
    from storewise.dataset.conversion import convert as convert_to
    from storewise.dataset.storage import storage_of

    inputs = sorted(map(str, copies_of(path).iterdir()))
    with tempfile.TemporaryDirectory(dir=path.parent) as directory:
        return convert_to(inputs, storage_of(f"{directory}/set"), Options()).documents


METHODS: dict[str, Callable[[Path], int]] = {
    "Biopython SearchIO": search_io,
    "Biopython AlignIO": align_io,
    "arrow": storewise("arrow"),
    "bson": storewise("bson"),
    "dict": storewise("dict"),
    "arrow, no core": storewise("arrow"),
    "bson, no core": storewise("bson"),
    "dict, no core": storewise("dict"),
    "convert": convert,
    "convert, no core": convert,
    "for line in file": read_lines,
    "read, count newlines": read_newlines,
}
SLOW = {"Biopython SearchIO", "Biopython AlignIO"}


def measure(method: str, path: Path, repeats: int) -> None:
    """Run in a child process; prints the least wall-clock and CPU seconds of `repeats` runs."""
    if method.startswith("Biopython"):
        modules = ["Bio.SearchIO", "Bio.AlignIO"]
    else:
        modules = [f"storewise.{name}" for name in ("ssearch.parse.arrow", "dataset.conversion")]
    if method.startswith("convert"):
        from storewise.dataset.memory import limit_arrow_memory

        limit_arrow_memory()  # as the command does
    for module in modules:
        importlib.import_module(module)
    documents = 0
    clock, processor = [], []
    for _ in range(repeats):
        started, busy = time.perf_counter(), time.process_time()
        documents = METHODS[method](path)
        clock.append(time.perf_counter() - started)
        processor.append(time.process_time() - busy)
    status = Path("/proc/self/status")
    peak = int(status.read_text().split("VmHWM:")[1].split()[0]) if status.exists() else None
    result = {"documents": documents, "seconds": min(clock), "cpu_seconds": min(processor)}
    print(json.dumps({**result, "peak_kib": peak}))


def joined_sample() -> bytes:
    content = b""
    for path in sorted(SAMPLE.glob("*.m10.*")):
        data = path.read_bytes()
        content += (
            gzip.decompress(data)
            if path.suffix == ".gz"
            else zstandard.ZstdDecompressor().decompress(data, max_output_size=1 << 28)
        )
        if len(content) >= SIZE:
            break
    return content


def make_output(directory: Path) -> tuple[Path, str]:
    """An output of about `SIZE` bytes, and its origin."""
    path = directory / "benchmark.m10"
    program = shutil.which("ssearch36")
    if program is None:
        path.write_bytes(joined_sample())
        return path, "the bundled sample, joined (several searches: SearchIO reads only the first)"
    queries = gzip.decompress((SAMPLE / "fasta" / "queries.fa.gz").read_bytes())
    library = b"".join(
        gzip.decompress((SAMPLE / "fasta" / f"{name}.fa.gz").read_bytes())
        for name in ("arabidopsis", "orchids", "yersinia")
    )
    # About 250 kB of output a query.
    records = queries.split(b">")[1:41]
    (directory / "queries.fa").write_bytes(b"".join(b">" + record for record in records))
    (directory / "library.fa").write_bytes(library)
    options = ["-Q", "-H", "-m", "10", "-W", "0", "-E", "1000000000 -1"]
    with path.open("wb") as file:
        subprocess.run(
            [program, *options, "queries.fa", "library.fa"], cwd=directory, stdout=file, check=True
        )
    return path, f"ssearch36 {' '.join(options)} on resources/sample/fasta"


def copies_of(path: Path) -> Path:
    return path.parent / "copies"


def make_copies(path: Path) -> None:
    content = path.read_bytes()
    copies_of(path).mkdir()
    for number in range(COPIES):
        changed = content.replace(b"\n", b" copy %d\n" % number, 1)
        (copies_of(path) / f"{number}.m10").write_bytes(changed)


def cpu() -> str:
    info = Path("/proc/cpuinfo")
    if info.exists():
        for line in info.read_text().splitlines():
            if line.startswith("model name"):
                return line.split(":", 1)[1].strip()
    return platform.processor() or "unknown"


def conditions(path: Path | None, origin: str) -> dict[str, object]:
    return {
        "input": origin,
        "bytes": path.stat().st_size if path is not None else None,
        "python": platform.python_version(),
        "versions": {
            name: version(name)
            for name in ("storewise", "biopython", "pymongo", "numpy", "pyarrow")
        },
        "host": platform.platform(),
        "cpu": cpu(),
        "cpus": os.cpu_count(),
        "load": os.getloadavg(),
    }


def run(path: Path, turns: int) -> dict[str, dict[str, float]]:
    best: dict[str, dict[str, float]] = {}
    for _ in range(turns):
        for method in METHODS:
            child = subprocess.run(
                [sys.executable, __file__, "--measure", method, "--file", str(path)],
                stdout=subprocess.PIPE, check=True,
                env={**os.environ, "STOREWISE_CORE": "0" if method.endswith(NO_CORE) else "1"},
            )  # fmt: skip
            result = json.loads(child.stdout)
            known = best.setdefault(method, result)
            for key in ("seconds", "cpu_seconds"):
                known[key] = min(known[key], result[key])
            known["peak_kib"] = max(known["peak_kib"] or 0, result["peak_kib"] or 0)
    return best


def table(results: dict[str, dict[str, float]], size: int) -> list[dict[str, Any]]:
    base = results["Biopython SearchIO"]
    documents = results["dict"]["documents"]
    rows: list[dict[str, Any]] = []
    for method, result in results.items():
        rate = result["documents"] / result["seconds"]
        read = size * (COPIES if method.startswith("convert") else 1)
        rows.append(
            {
                "method": method,
                "documents": result["documents"],
                "complete": result["documents"] * size == documents * read,
                "seconds": result["seconds"],
                "documents_per_second": rate or None,
                "megabytes_per_second": read / result["seconds"] / 1e6,
                "times_search_io": rate / (base["documents"] / base["seconds"]) or None,
                "cpu_seconds": result["cpu_seconds"],
                "times_search_io_cpu": (result["documents"] / result["cpu_seconds"])
                / (base["documents"] / base["cpu_seconds"])
                or None,
                "wanted": WANTED.get(method),
                "peak_mib": result["peak_kib"] / 1024 if result["peak_kib"] else None,
            }
        )
    return rows


def show(rows: list[dict[str, Any]]) -> None:
    heads = ("documents", "seconds", "docs/s", "MB/s", "x SearchIO", "by CPU", "peak MiB")
    print(f"{'method':22}" + "".join(f"{head:>11}" for head in heads))
    for row in rows:
        rate, times = row["documents_per_second"], row["times_search_io"]
        cells = (
            str(row["documents"] or ""),
            f"{row['seconds']:.3f}",
            f"{rate:,.0f}" if rate else "",
            f"{row['megabytes_per_second']:.1f}",
            f"{times:.1f}" if times else "",
            f"{row['times_search_io_cpu']:.1f}" if times else "",
            f"{row['peak_mib']:.1f}" if row["peak_mib"] else "",
        )
        wanted = f"  (wanted {row['wanted']:.0f})" if row["wanted"] else ""
        print(f"{row['method']:22}" + "".join(f"{cell:>11}" for cell in cells) + wanted)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--file", type=Path, help="an output of one search instead of a made one")
    parser.add_argument("--quick", action="store_true", help="two turns instead of five")
    parser.add_argument("--json", type=Path, help="where to write the results")
    parser.add_argument("--measure", help=argparse.SUPPRESS)
    parser.add_argument("--tables", action="store_true", help="tables of hits instead")
    parser.add_argument("--rows", type=int, default=1_000_000, help="rows of each table")
    options = parser.parse_args()
    if options.tables:
        import tables

        tables.main(options.rows, conditions(None, "tests/data/tables"), options.json)
        return
    if options.measure:
        measure(options.measure, options.file, 1 if options.measure in SLOW else 5)
        return
    with tempfile.TemporaryDirectory() as directory:
        if options.file:
            path, origin = Path(directory) / "benchmark.m10", str(options.file)
            shutil.copy(options.file, path)
        else:
            path, origin = make_output(Path(directory))
        make_copies(path)
        facts = conditions(path, origin)
        rows = table(run(path, 2 if options.quick else 5), path.stat().st_size)
    print(json.dumps(facts, indent=2))
    show(rows)
    result = json.dumps({"conditions": facts, "results": rows}, indent=2)
    if options.json:
        options.json.write_text(result + "\n")
    else:
        print(result)


if __name__ == "__main__":
    main()
