"""Time and memory of planning a study: with many files, and with many workers and trials.

    python benchmarks/plan.py files [--files 1119820] [--directory DIR]
    python benchmarks/plan.py workers [--quick]

`workers` plans (``snakemake -n``) studies of two engines that read no data: 10 trials with 32, 128
and 512 workers and two phases, and 1,000 trials with 32 workers and three phases, once with a job
for each worker (100,000 jobs) and once with jobs of 32 workers. `--quick` leaves the 100,000 jobs
out. Exit status 1 where one of these is missed: 512 workers in 30 s; 4 times the workers in 5 times
the time; 100,000 jobs in 10 minutes and 4 GB; 1,000 trials whose workers share jobs in 60 s.

`files` has as many files as the study that this project began with: 1,119,820. It makes a tree of
so many small outputs, each of a query without hits, and a study that names the tree. Then it times,
each in a child process:

- the plan (``snakemake -n``) before anything was made;
- the manifest, made by the workflow's own rules, and made again with nothing new;
- the plan with the manifest there.

Exit status 1 where a plan takes more than 20 s or 500 MB. Both take `--json FILE`. Peak memory is
that of the largest process of each run (``ru_maxrss``).
"""

from __future__ import annotations

import argparse
import json
import math
import os
import platform
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

ROOT = Path(__file__).parents[1]
FULL_CASE = 1_119_820
FILES_PER_DIRECTORY = 1000
LIMIT_SECONDS = 20.0
LIMIT_MEGABYTES = 500.0

OUTPUT = """# ssearch36 -Q -H -m 10 -W 0 -E "1000000000 -1" query_{number:07}.fa library.fa
SSEARCH performs a Smith-Waterman search
 version 36.3.8i Nov, 2022

Query: query_{number:07}.fa
  1>>>query_{number:07} - 534 nt
Library: library.fa
  534 residues in     1 sequences

!! No sequences with E() < 1e-09
>>><<<
>>>///

534 residues in 1 query   sequences
"""

STUDY = """title: The full case
inputs:
  paths: {tree}
engines: [null, sqlite]
factors:
  workers: [1, 8]
repeats: 3
phases:
  - write: {{batch_size: 1000}}
  - read: {{operations: 100000}}
"""


WORKERS = """title: Many workers
inputs:
  paths: {sample}
engines: [null, sqlite]
factors: {{workers: [{workers}]}}
repeats: {repeats}
workers_per_job: {per_job}
phases:
  - write: {{batch_size: 1000}}
  - read: {{operations: 1000}}
"""
THIRD_PHASE = "  - query: {operations: 100}\n"


@dataclass(frozen=True, slots=True)
class Case:
    """A study with `trials` trials (an even number) and the limits of its plan."""

    name: str
    trials: int
    workers: int
    per_job: int = 1
    phases: int = 2
    seconds: float = math.inf
    megabytes: float = math.inf

    def study(self) -> str:
        text = WORKERS.format(
            sample=ROOT / "resources" / "sample",
            workers=self.workers,
            repeats=self.trials // 2,
            per_job=self.per_job,
        )
        return text + THIRD_PHASE * (self.phases - 2)


CASES = (
    Case("32 workers", 10, 32),
    Case("128 workers", 10, 128),
    Case("512 workers", 10, 512, seconds=30.0),
    Case("1,000 trials, 32 workers a job", 1000, 32, per_job=32, phases=3, seconds=60.0),
    Case("1,000 trials, a job each", 1000, 32, phases=3, seconds=600.0, megabytes=4000.0),
)
#: At most so many times the time for four times the workers.
GROWTH = 5.0


def measure_workers(work: Path, cases: Sequence[Case]) -> tuple[dict[str, Any], list[str]]:
    """Time and memory of each plan, and the limits that are exceeded."""
    rows: dict[str, Any] = {}
    missed = []
    for case in cases:
        study = work / "workers.yaml"
        study.write_text(case.study())
        command = [sys.executable, "-m", "snakemake", "--snakefile", str(ROOT / "Snakefile")]
        command += ["--directory", str(work), "--dry-run", "--cores", "600"]
        row = rows[case.name] = timed([*command, "--config", f"study={study}"], work)
        print(
            f"{case.name:32} {row['jobs']:8,} jobs {row['seconds']:8.1f} s "
            f"{row['megabytes']:8.0f} MB {1000 * row['seconds'] / row['jobs']:6.2f} ms a job"
        )
        if row["seconds"] > case.seconds or row["megabytes"] > case.megabytes:
            missed.append(case.name)
    growth = rows["512 workers"]["seconds"] / rows["128 workers"]["seconds"]
    print(f"4 times the workers take {growth:.1f} times as long")
    if growth > GROWTH:
        missed.append("growth")
    return {"runs": rows, "growth": round(growth, 2)}, missed


def make_tree(tree: Path, files: int) -> None:
    for number in range(files):
        directory = tree / f"{number // FILES_PER_DIRECTORY:05}"
        if number % FILES_PER_DIRECTORY == 0:
            directory.mkdir(parents=True)
        # os.open is several times faster than Path.open over a million files.
        place = os.open(f"{directory}/{number:07}.m10", os.O_WRONLY | os.O_CREAT, 0o644)
        os.write(place, OUTPUT.format(number=number).encode())
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


def measure(work: Path, files: int) -> dict[str, Any]:
    tree = work / "tree"
    started = time.monotonic()
    make_tree(tree, files)
    print(f"made {files:,} files in {time.monotonic() - started:.0f} s")
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


def measure_files(work: Path, files: int) -> tuple[dict[str, Any], list[str]]:
    """Time and memory of the full case, and the plans of it that exceed limits."""
    result = measure(work, files)
    over = [
        name
        for name, row in result.items()
        if name.startswith("plan")
        and (row["seconds"] > LIMIT_SECONDS or row["megabytes"] > LIMIT_MEGABYTES)
    ]
    limits = {"seconds": LIMIT_SECONDS, "megabytes": LIMIT_MEGABYTES}
    return {"files": files, "runs": result, "limits": limits}, over


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    arguments.add_argument("what", choices=("files", "workers"))
    arguments.add_argument("--files", type=int, default=FULL_CASE)
    arguments.add_argument("--quick", action="store_true", help="without the 100,000 jobs")
    arguments.add_argument("--directory", type=Path, help="where files are made (and removed)")
    arguments.add_argument("--json", type=Path, help="write the figures here as well")
    values = arguments.parse_args()
    with tempfile.TemporaryDirectory(dir=values.directory) as place:
        work = Path(place)
        if values.what == "files":
            figures, over = measure_files(work, values.files)
        else:
            figures, over = measure_workers(work, CASES[:-1] if values.quick else CASES)
    figures |= {
        "within": not over,
        "cores": os.cpu_count(),
        "system": platform.platform(),
        "python": platform.python_version(),
        "snakemake": version("snakemake"),
        "load": os.getloadavg()[0],
    }
    if values.json:
        values.json.write_text(json.dumps(figures, indent=2) + "\n")
    print(json.dumps(figures))
    if over:
        sys.exit(f"over the limits of {Path(__file__).name}: {', '.join(over)}")


if __name__ == "__main__":
    main()
