"""A trial with 14 nodes and 1,000 workers on this host: seconds of the workflow itself, by stage.

    python benchmarks/cluster.py [--workers 1000] [--nodes 14] [--per-job 1]
        [--qsub-seconds 0.1] [--job-seconds 4] [--directory DIR] [--json FILE]

The study, its plan, Snakemake and the executor plugin for PBS are the real ones, and so is all that
the jobs do to meet: sessions, barriers, files. A stand-in PBS (`standin/scheduler.py`) with a place
for each job forks a process per job. Workers have no clients, nodes have a server of a few lines
(`standin/jobs.py`), and a job of a worker or a node waits --job-seconds in place of starting its
own Snakemake; jobs of other rules start theirs. A call of qsub takes --qsub-seconds, as on a real
OpenPBS (0.04 to 0.16 s).

The cores are shared by a thousand workers here. So times in which they compute are longer than on
hosts of their own; times of Snakemake, of submissions and of the analysis are what they are, the
more so with --nice -10 (as root).
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import random
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from importlib.metadata import version
from pathlib import Path
from typing import Any

import psutil

from storewise.metrics.schema import read_conditions, read_part

ROOT = Path(__file__).parents[1]
STANDIN = Path(__file__).parent / "standin"
COMMANDS = ("qsub", "qstat", "qdel", "qselect", "pbsnodes")
STUDY = """title: A simulation
workload: ycsb
engines: [hollow]
factors:
  workers: [{workers}]
  nodes: [{nodes}]
workers_per_job: {per_job}
phases:
  - load: {{recordcount: 1000000}}
  - c: {{operations: 1000000}}
"""
PHASES = ("load", "c")
#: Seconds between two looks at the memory, and of how many jobs the memory is read.
LOOK_EVERY = 10.0
LOOKED_AT = 25


@dataclass
class Memory:
    """Peak memory of all processes together (PSS), in MB."""

    all: float = 0.0
    snakemake: float = 0.0
    processes: int = 0
    _over: threading.Event = field(default_factory=threading.Event)

    def watch(self, snakemake: int, scheduler: int) -> None:
        while not self._over.wait(LOOK_EVERY):
            with suppress(psutil.Error):
                main = sum(map(_megabytes, _tree(snakemake)))
                jobs = _tree(scheduler)[1:]
                some = random.sample(jobs, min(len(jobs), LOOKED_AT))
                each = sum(map(_megabytes, some)) / max(1, len(some))
                whole = main + _megabytes(scheduler) + each * len(jobs)
                self.all = max(self.all, whole)
                self.snakemake = max(self.snakemake, main)
                self.processes = max(self.processes, len(jobs))

    def end(self) -> None:
        self._over.set()


def _nice(options: Any) -> list[str]:
    return ["nice", "-n", str(options.nice)] if options.nice else []


def _tree(pid: int) -> list[int]:
    return [pid, *(child.pid for child in psutil.Process(pid).children(recursive=True))]


def _megabytes(pid: int) -> float:
    """The memory of a process in MB, with its share of shared pages (PSS)."""
    with suppress(OSError):
        for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
            if line.startswith("Pss:"):
                return int(line.split()[1]) / 1024
    return 0.0


@contextmanager
def scheduler(
    work: Path, slots: int, study: Path, environment: Mapping[str, str], options: Any
) -> Iterator[subprocess.Popen[bytes]]:
    """The stand-in PBS; its commands are in ``bin``."""
    state, commands = work / "pbs", work / "bin"
    state.mkdir()
    commands.mkdir()
    for name in COMMANDS:
        seconds = options.qsub_seconds if name in ("qsub", "qstat") else 0
        program = commands / name
        program.write_text(
            f"#!/bin/sh\nexec {sys.executable} -S -E -I {STANDIN}/client.py {state}/socket "
            f'{seconds} {name} "$@"\n'
        )
        program.chmod(0o755)
    command = [*_nice(options), sys.executable, str(STANDIN / "scheduler.py")]
    command += [str(state), str(slots), str(study), str(options.job_seconds)]
    with (work / "scheduler.log").open("wb") as log:
        process = subprocess.Popen(command, stdout=log, stderr=log, env=environment, cwd=work)
    try:
        while not (state / "ready").exists():
            if process.poll() is not None:
                sys.exit(f"the scheduler ended: {(work / 'scheduler.log').read_text()[-4000:]}")
            time.sleep(0.1)
        yield process
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait()


def run(work: Path, options: Any) -> tuple[dict[str, Any], Memory]:
    """Run the study; returns its start and the times of output lines, for `stages`."""
    study = work / "cluster.yaml"
    study.write_text(
        STUDY.format(workers=options.workers, nodes=options.nodes, per_job=options.per_job)
    )
    environment = {
        **os.environ,
        "PYTHONPATH": str(STANDIN / "site"),
        "PATH": f"{work / 'bin'}{os.pathsep}{os.environ['PATH']}",
        # Small processes: there are a thousand.
        "ARROW_DEFAULT_MEMORY_POOL": "system",
        "MALLOC_ARENA_MAX": "1",
        "OPENBLAS_NUM_THREADS": "1",
        "PYTHONUNBUFFERED": "1",
    }
    jobs = options.workers + options.nodes + 10
    command = [*_nice(options), sys.executable, "-m", "snakemake"]
    command += ["--snakefile", str(ROOT / "Snakefile")]
    command += ["--directory", str(work), "--executor", "pbs", "--jobs", str(jobs)]
    command += ["--config", f"study={study}"]
    said: list[tuple[float, str]] = []
    memory = Memory()
    with scheduler(work, jobs, study, environment, options) as pbs:
        began = time.time()
        process = subprocess.Popen(
            command,
            cwd=work,
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
        )
        watch = threading.Thread(target=memory.watch, args=(process.pid, pbs.pid), daemon=True)
        watch.start()
        assert process.stdout is not None
        said.extend((time.time(), line.rstrip()) for line in process.stdout)
        # Waited for by hand: only wait4 gives the resources of this one child.
        _, status, used = os.wait4(process.pid, 0)
        status = process.returncode = os.waitstatus_to_exitcode(status)
        ended = time.time()
        memory.end()
        watch.join()
    (work / "snakemake.log").write_text("".join(f"{at:.2f} {line}\n" for at, line in said))
    if status:
        last = "\n".join(line for _, line in said[-60:])
        sys.exit(f"Snakemake ended with {status}:\n{last}")
    cpu = used.ru_utime + used.ru_stime
    return {"began": began, "ended": ended, "said": said, "cpu": cpu}, memory


@dataclass
class Jobs:
    """Times of the jobs of one rule and phase, as the scheduler measures them."""

    submitted: list[float] = field(default_factory=list)
    started: list[float] = field(default_factory=list)
    ended: list[float] = field(default_factory=list)
    jobs: int = 0

    @property
    def first(self) -> float:
        return min(self.submitted)


def read_journal(path: Path) -> tuple[dict[str, Jobs], list[dict[str, Any]]]:
    """Jobs by rule, workers by phase; and all events."""
    events = [json.loads(line) for line in path.read_text().splitlines()]
    jobs: dict[str, Jobs] = {}
    rules: dict[str, str] = {}
    for event in events:
        if event["event"] == "submitted":
            rule, _, wildcards = event["target"].partition(":")
            values = dict(pair.split("=", 1) for pair in wildcards.split(",") if pair)
            rule = values.get("phase", rule)
            rules[event["what"]] = rule
            jobs.setdefault(rule, Jobs()).submitted.append(event["at"])
            jobs[rule].jobs += 1
        elif event["event"] in ("started", "ended"):
            getattr(jobs[rules[event["what"]]], event["event"]).append(event["at"])
            if event.get("status"):
                sys.exit(f"job {event['what']} ({event['name']}) ended with {event['status']}")
    return jobs, events


def stages(work: Path, times: Mapping[str, Any]) -> tuple[dict[str, float], dict[str, Any]]:
    """Seconds by stage, and numbers of jobs."""
    jobs, events = read_journal(work / "pbs" / "journal")
    (trial,) = (work / "results" / "cluster" / "trials").iterdir()
    session = trial / "session.parquet"
    opened = read_conditions(session)["opened"]
    table = read_part(session)[0].to_pydict()
    figures = dict(zip(table["metric"], table["value"], strict=True))
    planned = next(at for at, line in times["said"] if line.startswith("Job stats:"))

    def at(event: str, what: str, choose: Callable[[Iterator[float]], float]) -> float:
        return choose(e["at"] for e in events if e["event"] == event and e["what"] == what)

    node = jobs["node"]
    formed = opened + figures["formed_time"]
    seconds = {
        "plan": planned - times["began"],
        "opened": opened - planned,
        "nodes submitted": max(node.submitted) - node.first,
        "nodes answer": formed - figures["form_time"] - node.first,
        "formed": formed - node.first,
    }
    before = max(jobs["form"].ended)
    for phase in PHASES:
        load, barrier = jobs[phase], f"{phase}-0"
        arrived, last = at("arrives", barrier, min), at("arrives", barrier, max)
        seconds |= {
            f"{phase}: until the first is submitted": load.first - before,
            f"{phase}: submitted": max(load.submitted) - load.first,
            f"{phase}: all have started": at("works", phase, max) - max(load.submitted),
            f"{phase}: all have arrived": last - at("works", phase, max),
            f"{phase}: all are released": at("released", barrier, max) - last,
            f"{phase}: first arrival to last release": at("released", barrier, max) - arrived,
            f"{phase}: worked and written": max(load.ended) - at("released", barrier, max),
        }
        before = max(load.ended)
    for rule in ("verify", "close", "analyse", "report"):
        seconds[f"{rule}: until it is submitted"] = jobs[rule].first - before
        seconds[rule] = max(jobs[rule].ended) - jobs[rule].first
        before = max(jobs[rule].ended)
    seconds["until Snakemake ends"] = times["ended"] - before
    seconds["all"] = times["ended"] - times["began"]
    calls = Counter(event["event"] for event in events)
    seconds["jobs, computing"] = next(e["what"] for e in events if e["event"] == "computed")
    numbers = {
        "jobs": sum(one.jobs for one in jobs.values()),
        "qsub": calls["submitted"],
        "qstat": calls["qstat"],
    }
    return {name: round(value, 2) for name, value in seconds.items()}, numbers


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    arguments.add_argument("--workers", type=int, default=1000)
    arguments.add_argument("--nodes", type=int, default=14)
    arguments.add_argument("--per-job", type=int, default=1, help="the study's workers_per_job")
    arguments.add_argument("--qsub-seconds", type=float, default=0.1)
    arguments.add_argument("--job-seconds", type=float, default=4.0)
    arguments.add_argument(
        "--nice",
        type=int,
        default=0,
        help="of Snakemake and the scheduler; workers have 10, other jobs 0",
    )
    arguments.add_argument("--directory", type=Path, help="where it works; kept, if it is new")
    arguments.add_argument("--json", type=Path, help="write the figures here as well")
    options = arguments.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        work = (options.directory or Path(temporary)).resolve()
        work.mkdir(parents=True, exist_ok=True)
        load_before = os.getloadavg()[0]
        times, memory = run(work, options)
        seconds, numbers = stages(work, times)
    figures = {
        "workers": options.workers,
        "nodes": options.nodes,
        "workers_per_job": options.per_job,
        "qsub_seconds": options.qsub_seconds,
        "job_seconds": options.job_seconds,
        "nice": options.nice,
        "seconds": seconds,
        **numbers,
        "snakemake_cpu_seconds": round(times["cpu"], 1),
        "megabytes": round(memory.all),
        "snakemake_megabytes": round(memory.snakemake),
        "processes": memory.processes,
        "cores": os.cpu_count(),
        "load_before": round(load_before, 2),
        "system": platform.platform(),
        "python": platform.python_version(),
        "versions": {
            name: version(name)
            for name in ("storewise", "snakemake", "snakemake-executor-plugin-pbs", "pyarrow")
        },
    }
    for name, value in seconds.items():
        print(f"{name:40} {value:8.1f} s")
    for name, value in numbers.items():
        print(f"{name:40} {value:8}")
    print(f"{'Snakemake, computing':40} {times['cpu']:8.1f} s")
    print(f"{'memory of all processes at most':40} {memory.all:8.0f} MB")
    print(f"{'memory of Snakemake at most':40} {memory.snakemake:8.0f} MB")
    if options.json:
        options.json.write_text(json.dumps(figures, indent=2) + "\n")
    print(json.dumps(figures))


if __name__ == "__main__":
    main()
