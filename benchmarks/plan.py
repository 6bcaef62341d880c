"""What the full case costs before anything is measured: 1,119,820 files of 12 MB, 13 TB.

    python benchmarks/plan.py [--files 1119820] [--megabytes 12] [--json FILE] [--directory DIR]

Makes a tree of that many sparse files, each with the preamble of an SSEARCH output that is its own
and holes behind it (4 kB on disk each), and a study that names the tree and takes sampled digests.
Then it times, each in a child process:

- the plan (``snakemake -n``) before anything was made;
- the manifest, made by the workflow's own rules, and made again with nothing new;
- the plan with the manifest there.

Exit status 1 where a plan takes more than 20 s or 500 MB. Peak memory is that of the largest
process of each run (``ru_maxrss``).
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

ROOT = Path(__file__).parents[1]
FULL_CASE = 1_119_820
FILES_PER_DIRECTORY = 1000
LIMIT_SECONDS = 20.0
LIMIT_MEGABYTES = 500.0

HEAD = """# ssearch36 -Q -H -m 10 -W 0 -E "1000000000 -1" query_{number:07}.fa library.fa
SSEARCH performs a Smith-Waterman search
 version 36.3.8i Nov, 2022

Query: query_{number:07}.fa
  1>>>query_{number:07} - 534 nt
Library: library.fa
"""

STUDY = """title: The full case
inputs:
  paths: {tree}
  digest: sampled
engines: [null, sqlite]
factors:
  workers: [1, 8]
repeats: 3
phases:
  - write: {{batch_size: 1000}}
  - read: {{operations: 100000}}
"""


def make_tree(tree: Path, files: int, size: int) -> None:
    for number in range(files):
        directory = tree / f"{number // FILES_PER_DIRECTORY:05}"
        if number % FILES_PER_DIRECTORY == 0:
            directory.mkdir(parents=True)
        # os.open is several times faster than Path.open over a million files.
        place = os.open(f"{directory}/{number:07}.m10", os.O_WRONLY | os.O_CREAT, 0o644)
        os.write(place, HEAD.format(number=number).encode())
        os.ftruncate(place, size)
        os.close(place)


def timed(command: list[str], work: Path) -> dict[str, Any]:
    """Seconds and peak memory (MB, largest process) of a command; its output if it fails."""
    started = time.monotonic()
    with tempfile.TemporaryFile() as output:
        # Waited for by hand: only wait4 gives the resources of this one child.
        child = subprocess.Popen(command, cwd=work, stdout=output, stderr=subprocess.STDOUT)
        _, status, used = os.wait4(child.pid, 0)
        child.returncode = os.waitstatus_to_exitcode(status)
        seconds = time.monotonic() - started
        output.seek(0)
        text = output.read().decode(errors="replace")
    if child.returncode:
        sys.exit(f"{' '.join(command)} failed:\n{text[-4000:]}")
    jobs = [line.split()[-1] for line in text.splitlines() if line.startswith("total ")]
    return {
        "seconds": round(seconds, 2),
        "megabytes": round(used.ru_maxrss / 1024, 1),
        "jobs": int(jobs[0]) if jobs else None,
    }


def measure(work: Path, files: int, size: int) -> dict[str, Any]:
    tree = work / "tree"
    started = time.monotonic()
    make_tree(tree, files, size)
    print(f"made {files:,} files of {size:,} bytes in {time.monotonic() - started:.0f} s")
    study = work / "plan.yaml"
    study.write_text(STUDY.format(tree=tree))
    snakemake = [sys.executable, "-m", "snakemake", "--snakefile", str(ROOT / "Snakefile")]
    snakemake += ["--directory", str(work), "--cores", str(os.cpu_count())]
    config = ["--config", f"study={study}"]
    manifest = "results/plan/inputs/manifest.parquet"
    runs = {
        "plan, nothing made": ["--dry-run", *config],
        "manifest": [manifest, *config],
        "manifest again": [manifest, "--forcerun", "manifest", *config],
        "plan, manifest made": ["--dry-run", *config],
    }
    result: dict[str, Any] = {}
    for name, arguments in runs.items():
        result[name] = timed([*snakemake, *arguments], work)
        row = result[name]
        print(f"{name:22} {row['seconds']:8.1f} s {row['megabytes']:8.0f} MB  {row['jobs']} jobs")
    rows = pq.read_metadata(work / manifest).num_rows
    if rows != files:
        sys.exit(f"the manifest has {rows:,} rows, not {files:,}")
    return result


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    arguments.add_argument("--files", type=int, default=FULL_CASE)
    arguments.add_argument("--megabytes", type=float, default=12.0, help="apparent size of a file")
    arguments.add_argument("--directory", type=Path, help="where the tree is made (and removed)")
    arguments.add_argument("--json", type=Path, help="write the figures here as well")
    values = arguments.parse_args()
    with tempfile.TemporaryDirectory(dir=values.directory) as work:
        result = measure(Path(work), values.files, int(values.megabytes * 1e6))
    plans = {name: row for name, row in result.items() if name.startswith("plan")}
    over = [
        name
        for name, row in plans.items()
        if row["seconds"] > LIMIT_SECONDS or row["megabytes"] > LIMIT_MEGABYTES
    ]
    figures = {
        "files": values.files,
        "bytes": int(values.files * values.megabytes * 1e6),
        "runs": result,
        "limits": {"seconds": LIMIT_SECONDS, "megabytes": LIMIT_MEGABYTES},
        "within": not over,
        "cores": os.cpu_count(),
        "system": platform.platform(),
        "python": platform.python_version(),
    }
    if values.json:
        values.json.write_text(json.dumps(figures, indent=2) + "\n")
    print(json.dumps(figures))
    if over:
        sys.exit(f"over {LIMIT_SECONDS:.0f} s or {LIMIT_MEGABYTES:.0f} MB: {', '.join(over)}")


if __name__ == "__main__":
    main()
