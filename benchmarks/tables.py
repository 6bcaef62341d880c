"""Speed of reading tables of hits, beside pyarrow's own reading of the same rows and SearchIO.

    python benchmarks/parse.py --tables [--rows N] [--json RESULT.json]

Each table is real output (tests/data/tables), repeated with other names of queries until it has N
rows (a million by default). Each measurement is a process of its own, after one run that warms up;
the methods take turns, and the best of three counts, by processor time. pyarrow reads the rows
alone, in a stream and by one thread, with the types that Storewise asks for; comment lines, which
it cannot read, are cut out before. SearchIO reads a twentieth of the rows, as it is slow.
"""

from __future__ import annotations

import gzip
import json
import re
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

DATA = Path(__file__).resolve().parent.parent / "tests" / "data" / "tables"
#: Format -> file. The first of its queries' names is what changes.
TABLES = {
    "blast7": "blast_blastp.fmt7",
    "blast6": "blast_blastp.fmt6",
    "fasta8c": "fasta36_ssearch_p.m8C",
    "fasta8": "fasta36_ssearch_p.m8",
    "diamond": "diamond_p.hdrv",
    "mmseqs2": "mmseqs_p.fmt4",
    "last": "last_p.blasttab",
}
WANTED = {"arrow": 0.60, "bson": 0.25}
METHODS = ("pyarrow", "arrow", "bson", "SearchIO")
_TURNS = 3
_SLOW = 20


def make(form: str, rows: int, path: Path) -> None:
    """Write a table of `rows` rows or a few more, and its rows alone beside it."""
    lines = gzip.decompress((DATA / f"{TABLES[form]}.gz").read_bytes()).splitlines(keepends=True)
    head = [lines.pop(0)] if lines[0].startswith(b"query\t") else []
    last = lines.pop() if re.match(rb"# .*(processed|sequences=)", lines[-1]) else b""
    queries = sum(line.startswith(b"# Query:") for line in lines)
    hits = [line for line in lines if b"\t" in line and not line.startswith(b"# ")]
    with path.open("wb") as whole, path.with_suffix(".rows").open("wb") as alone:
        whole.writelines(head)
        for number in range(-(-rows // len(hits))):
            name = b"%06d_" % number
            # DIAMOND and LAST begin with lines of the whole file.
            again = lines if queries or not number else hits
            for line in again:
                row = b"\t" in line and not line.startswith(b"# ")
                words = name + line if row else line
                whole.write(words.replace(b"# Query: ", b"# Query: " + name) if not row else words)
                if row:
                    alone.write(words)
        whole.write(re.sub(rb"\d+", b"%d" % (queries * (number + 1)), last) if queries else last)


def pyarrow_rows(path: Path, form: str) -> int:
    import pyarrow as pa
    from pyarrow import csv

    from storewise.ssearch.formats.names import STD
    from storewise.ssearch.formats.rows import OF_DOCUMENTS, TYPES

    first = path.with_suffix(".rows").open("rb").readline().count(b"\t") + 1
    names = [*STD, *(str(number) for number in range(len(STD), first))]
    wanted = [name for name in names if name in OF_DOCUMENTS]
    with csv.open_csv(
        path.with_suffix(".rows"),
        csv.ReadOptions(use_threads=False, block_size=8 << 20, column_names=names),
        csv.ParseOptions(delimiter="\t", quote_char=False),
        csv.ConvertOptions(
            include_columns=wanted,
            column_types={name: TYPES.get(name, pa.string()) for name in names},
            strings_can_be_null=False,
            null_values=[],
        ),
    ) as stream:
        return sum(batch.num_rows for batch in stream)


def search_io(path: Path, form: str) -> int:
    from Bio import SearchIO

    results = SearchIO.parse(path, "blast-tab", comments=form == "blast7")
    return sum(len(result.hsps) for result in results)


def storewise(encoding: str) -> Callable[[Path, str], int]:
    def run(path: Path, form: str) -> int:
        from storewise.ssearch.reader import DocumentReader

        reader = DocumentReader(
            path,
            bytes(7),
            input_format=form,
            encoding=encoding,
            alignments_per_batch=10_000,  # type: ignore[arg-type]
        )
        return sum(len(batch.align) for batch in reader)

    return run


def measure(method: str, form: str, path: Path) -> None:
    """Run in a child process; prints rows, processor seconds and peak memory."""
    read = {"pyarrow": pyarrow_rows, "SearchIO": search_io}.get(method) or storewise(method)
    if method != "SearchIO":
        read(path, form)
    started = time.process_time()
    rows = read(path, form)
    seconds = time.process_time() - started
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    print(json.dumps({"rows": rows, "seconds": seconds, "peak_kib": peak}))


def run(form: str, rows: int, directory: Path) -> dict[str, Any]:
    path, small = directory / f"{form}.table", directory / f"{form}.small"
    make(form, rows, path)
    make(form, rows // _SLOW, small)
    best: dict[str, dict[str, float]] = {}
    for turn in range(_TURNS):
        for method in METHODS:
            slow = method == "SearchIO"
            if slow and (turn or form not in ("blast7", "blast6")):
                continue
            child = subprocess.run(
                [sys.executable, __file__, method, form, str(small if slow else path)],
                stdout=subprocess.PIPE, check=True,
            )  # fmt: skip
            result = json.loads(child.stdout)
            known = best.setdefault(method, result)
            known["seconds"] = min(known["seconds"], result["seconds"])
    size = path.stat().st_size
    path.unlink()
    return {"format": form, "bytes": size, **best}


def show(results: list[dict[str, Any]]) -> None:
    print(
        f"{'format':9}{'rows':>10}{'pyarrow':>9}{'arrow':>9}{'bson':>9}{'SearchIO':>10}  share of"
    )
    print(f"{'':19}{'million rows a second':>37}  pyarrow: arrow, bson; peak MiB")
    for one in results:
        rates = {m: one[m]["rows"] / one[m]["seconds"] / 1e6 for m in METHODS if m in one}
        shares = [rates[m] / rates["pyarrow"] for m in WANTED]
        cells = "".join(f"{rates[m]:9.2f}" for m in METHODS[:3])
        slow = f"{rates['SearchIO']:10.3f}" if "SearchIO" in rates else f"{'':10}"
        peak = max(one[m]["peak_kib"] for m in WANTED) / 1024
        print(
            f"{one['format']:9}{one['arrow']['rows']:10,}{cells}{slow}  "
            f"{shares[0]:4.0%} {shares[1]:4.0%}; {peak:.0f}"
        )
    print("wanted: " + ", ".join(f"{name} {share:.0%}" for name, share in WANTED.items()))


def main(rows: int, conditions: dict[str, object], out: Path | None) -> None:
    print(json.dumps(conditions, indent=2))
    with tempfile.TemporaryDirectory() as directory:
        results = [run(form, rows, Path(directory)) for form in TABLES]
    show(results)
    if out is not None:
        out.write_text(json.dumps({"conditions": conditions, "results": results}, indent=2) + "\n")


if __name__ == "__main__":
    measure(sys.argv[1], sys.argv[2], Path(sys.argv[3]))
