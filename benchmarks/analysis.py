"""Time and memory of the analysis of a large study: 500 trials, 100 workers, 10^8 samples.

    python benchmarks/analysis.py [--full] [--trials 25] [--workers 20] [--seconds 40]
        [--directory DIR] [--keep] [--unpacked] [--page] [--json FILE]

Makes the results of a study that never ran, with the project's own writers: two phases, each
worker on a host of its own, which is sampled each second; five engines, one of them with four
servers that own documents. Parts and logs of a worker are one template, varied in names, hosts and
values. Each trial's parts are packed, as the last job of its phases does. Making all that is not
measured. With ``--unpacked`` the packs are left out: so are trials of earlier versions.

Then a fresh process analyses them: reading and reducing; tables, judgements, verdict and CSV files;
with ``--page`` figures and page too. Printed are wall and processor time of each stage, the peak
memory of all its processes together (resident, shared pages counted in each), and for comparison
the time in which as many processes only read all parts with pyarrow.

Exit status 1 where the full study takes more than 60 s or 4 GiB without the page.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import resource
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from storewise.metrics.hdr import Interval, Tag, bucket_indexes, histogram_of, write_log
from storewise.metrics.pack import PACK, write_pack
from storewise.metrics.schema import METADATA_KEY, METRICS, Sample, write_part
from storewise.study.study import Study
from storewise.study.trial import Trial

LIMIT_SECONDS = 60.0
LIMIT_BYTES = 4 * 2**30
FULL = {"trials": 500, "workers": 100, "seconds": 40}
ENGINES = ("null", "sqlite", "duckdb", "parquet", "postgres")
NODES = 4
PHASES = ("write", "read")
REPEATS = 5
START = 1.7e9
#: Operations that a worker finishes in a second.
RATE = 400
#: Different interval logs that the workers of a phase have.
LOGS = 8


def study_of(trials: int, workers: int, seconds: int) -> dict[str, Any]:
    """A study of this size, in the form of ``study.json``."""
    levels = max(1, trials // (len(ENGINES) * REPEATS))
    return {
        "name": "large",
        "inputs": {"paths": ["in"]},
        "engines": {engine: {} for engine in ENGINES},
        "factors": {"workers": [workers], "threads": list(range(1, levels + 1)), "nodes": [NODES]},
        "repeats": REPEATS,
        "phases": [
            {"name": "write", "params": {"batch_size": 1000}, "steps": []},
            {"name": "read", "params": {"seconds": seconds, "warmup": 2}, "steps": []},
        ],
        "seed": 7,
    }


@dataclass(frozen=True)
class Place:
    """The origin of a part."""

    study: Path
    trial: Trial
    host: str

    @property
    def directory(self) -> Path:
        return self.study / "trials" / self.trial.id


def worker_rows(phase: str, seconds: int, embedded: bool) -> list[Sample]:
    """The rows that worker 0 writes for a phase."""
    operation = "insert" if phase == "write" else "get"
    warmup = 2 if phase == "read" else 0
    start = START + (seconds + 10 if phase == "read" else 0)
    took = seconds - 0.3
    at: dict[str, Any] = {"worker": 0, "process": 0}
    values = {
        "operations": RATE,
        "documents": RATE,
        "bytes": 100 * RATE,
        "errors": 0,
        "service_time_sum": 0.9,
        "prepare_time_sum": 0.05,
    }
    rows = [
        Sample(phase, "started_at", start, "s", worker=0),
        Sample(phase, "duration", took, "s", worker=0),
        Sample(phase, "duration", took, "s", **at),
    ]
    rows += [
        Sample(phase, m, v * seconds, METRICS[m], operation=operation, **at)
        for m, v in values.items()
    ]
    if phase == "write":
        rows += [
            Sample(phase, "acknowledged", RATE * seconds, "1", worker=0),
            Sample(phase, "store_bytes", 3e6, "B", **at),
            Sample(phase, "canary_cpu", 150_000, "1/s"),
            Sample(phase, "canary_disk_write", 4e8, "B/s"),
            Sample(phase, "canary_disk_read", 9e8, "B/s"),
        ]
    elif not embedded:
        rows += [
            Sample(
                phase,
                "owner_operations",
                RATE * seconds / NODES,
                "1",
                operation=operation,
                worker=0,
                node=f"data{n}",
            )
            for n in range(NODES)
        ]
    for second in range(seconds):
        rows += [
            Sample(phase, m, v, METRICS[m], 0, second, operation, 0, 0, None, second < warmup)
            for m, v in values.items()
        ]
        rows += [
            Sample(phase, "client_cpu", 0.7, "s", second=second, **at),
            Sample(phase, "client_rss", 1e8, "B", second=second, **at),
        ]
        if embedded:
            rows += [
                Sample(phase, "store_cpu", 0.7, "s", second=second, worker=0),
                Sample(phase, "store_rss", 1e8, "B", second=second, worker=0),
                Sample(phase, "store_bytes", 1e5 * second, "B", second=second, worker=0),
            ]
        rows += host_rows(phase, second)
    return rows


def host_rows(phase: str, second: int, node: str | None = None) -> list[Sample]:
    values = {
        "sample_length": 1.0,
        "cpu_user": 55.0,
        "cpu_system": 6.0,
        "cpu_iowait": 4.0,
        "cpu_idle": 35.0,
        "cpu_steal": 0.0,
        "memory_used": 3e9,
        "memory_available": 5e9,
        "disk_read": 1e6,
        "disk_write": 4e7,
        "disk_busy": 30.0,
        "network_received": 1e6,
        "network_sent": 1e6,
        "loopback": 0.0,
    }
    return [
        Sample(phase, metric, value, METRICS[metric], second=second, node=node)
        for metric, value in values.items()
    ]


def node_rows(node: str, seconds: int) -> list[Sample]:
    rows = [
        Sample("session", metric, value, METRICS[metric], node=node)
        for metric, value in {
            "started_at": START - 5,
            "queue_time": 2.0,
            "ready_time": 1.5,
            "stop_time": 0.5,
            "clock_offset": 0.001,
            "node_bytes": 4e8,
        }.items()
    ]
    for second in range(2 * seconds + 20):
        rows += [
            Sample("session", "store_cpu", 0.6, "s", second=second, node=node),
            Sample("session", "store_rss", 3e8, "B", second=second, node=node),
            Sample("session", "store_bytes", 4e8, "B", second=second, node=node),
            *host_rows("session", second, node),
        ]
    return rows


def facts(host: str) -> dict[str, Any]:
    return {
        "name": host,
        "system": "Linux-6.1-x86_64",
        "processor": "Example CPU",
        "cores": 8,
        "cpus": 8,
        "memory_bytes": 24 * 2**30,
    }


def conditions(place: Place, **more: Any) -> dict[str, Any]:
    engine = str(place.trial.factors["engine"])
    return {
        "trial": place.trial.model_dump(mode="json"),
        "seed": place.trial.seed,
        "engine": {"title": engine, "embedded": engine != "postgres", "stores": engine != "null"},
        "versions": {"storewise": "0.1.0", "python": "3.11.2", f"{engine}.engine": "3.40.1"},
        "host": facts(place.host),
        "store_file_system": "ext4",
        "sampled_host": True,
        "sampled_disk": "sda",
        "quarantined": [],
        "notes": [],
        "crashes": [],
        "warnings": [],
        **more,
    }


def write(path: Path, rows: list[Sample], place: Place, message: dict[str, Any]) -> None:
    write_part(
        path,
        rows,
        trial=place.trial.id,
        repeat=place.trial.repeat,
        host=place.host,
        factors=place.trial.factors,
        conditions=message,
    )


@cache
def template(phase: str, seconds: int, embedded: bool, study: Path) -> pa.Table:
    """A part of a worker as `write_part` wrote it."""
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory) / "part.parquet"
        trial = next(t for t in trials_of(study) if (t.factors["engine"] == "postgres") != embedded)
        place = Place(study, trial, "host")
        write(path, worker_rows(phase, seconds, embedded), place, conditions(place))
        return pq.read_table(path)


def write_varied(
    path: Path, of: pa.Table, place: Place, message: dict[str, Any], seed: int
) -> None:
    """A part with the rows of a template, of another trial, worker and host, with other values."""
    rng = np.random.default_rng(seed)
    n = of.num_rows
    same = np.zeros(n, dtype=np.int32)
    new: dict[str, Any] = {
        "trial": place.trial.id,
        "host": place.host,
        **{f"factor.{k}": v for k, v in place.trial.factors.items()},
    }
    value = of["value"].to_numpy() * rng.normal(1, 0.03, n)
    columns = []
    for field in of.schema:
        column = of[field.name]
        if field.name in new:
            level = new[field.name]
            text = level if isinstance(level, str) else json.dumps(level)
            column = pa.DictionaryArray.from_arrays(pa.array(same), pa.array([text]))
        elif field.name == "repeat":
            column = pa.array(np.full(n, place.trial.repeat, dtype=np.int32))
        elif field.name == "worker":
            column = pc.if_else(
                pc.is_null(column), column, pa.scalar(message["worker"], pa.int32())
            )
        elif field.name == "value":
            whole = of["unit"].to_numpy() == "1"
            column = pa.array(np.where(whole, np.round(value), value))
        columns.append(column)
    meta = {"schema_version": 1, "factors": place.trial.factors, **message}
    schema = of.schema.with_metadata({METADATA_KEY: json.dumps(meta).encode()})
    table = pa.Table.from_arrays(columns, schema=schema)
    pq.write_table(table, path, compression="zstd")


@cache
def log_texts(phase: str, seconds: int, embedded: bool) -> list[bytes]:
    """Interval logs as `write_log` writes them."""
    rng = np.random.default_rng(3)
    operation = "insert" if phase == "write" else "get"
    owners = [None] if embedded or phase == "write" else [None, *(f"data{n}" for n in range(NODES))]
    texts = []
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory) / "log.hlog"
        for number in range(LOGS):
            intervals = []
            for second in range(seconds):
                for owner in owners:
                    many = RATE if owner is None else RATE // NODES
                    times = rng.lognormal(np.log(2.2e6) + 0.02 * number, 0.3, many)
                    index, count = np.unique(
                        bucket_indexes(times.astype(np.int64)), return_counts=True
                    )
                    warm = phase == "read" and second < 2
                    intervals += [
                        Interval(
                            Tag(operation, time, owner=owner, warmup=warm),
                            float(second),
                            1.0,
                            histogram_of(index, count),
                        )
                        for time in ("service_time", "response_time")
                    ]
            write_log(path, START, intervals)
            texts.append(path.read_bytes())
    return texts


@cache
def trials_of(study: Path) -> list[Trial]:
    return Study.model_validate(json.loads((study / "study.json").read_text())).trials()


def make_trial(study: Path, number: int, workers: int, seconds: int) -> int:
    """Write all files of one trial; returns their number of samples."""
    trial = trials_of(study)[number]
    embedded = trial.factors["engine"] != "postgres"
    samples = 0
    hosts = [Place(study, trial, f"n{worker:03}") for worker in range(workers)]
    hosts[0].directory.mkdir(parents=True)
    for phase in PHASES:
        of = template(phase, seconds, embedded, study)
        logs = log_texts(phase, seconds, embedded)
        for worker, place in enumerate(hosts):
            warmup = 2.0 if phase == "read" else 0.0
            message = conditions(
                place,
                phase=phase,
                worker=worker,
                steps=[{"warmup": warmup, "threads": trial.factors["threads"]}],
                searches=[],
            )
            seed = number * 1_000_000 + worker * 10 + (phase == "read")
            path = place.directory / f"{phase}.{worker}.parquet"
            write_varied(path, of, place, message, seed)
            path.with_suffix(".hlog").write_bytes(logs[worker % LOGS])
            samples += of.num_rows
    write_pack(
        [p.directory / f"{phase}.{k}.parquet" for k, p in enumerate(hosts) for phase in PHASES]
    )
    if not embedded:
        samples += make_session(Place(study, trial, "s0"), seconds)
    rows = [
        Sample("verify", metric, value, "1", operation=kind)
        for kind in ("tasks", "rna", "gs", "align")
        for metric, value in (
            ("expected_documents", 1e6),
            ("counted_documents", 1e6),
            ("checked_documents", 200),
            ("lost_documents", 0),
            ("wrong_documents", 0),
        )
    ]
    write(hosts[0].directory / "verify.parquet", rows, hosts[0], conditions(hosts[0]))
    return samples + len(rows)


def make_session(place: Place, seconds: int) -> int:
    """Parts of the servers of a trial and of its session."""
    message, samples = {}, 0
    for n in range(NODES):
        node = f"data{n}"
        place_of_shard = Place(place.study, place.trial, f"s{n}")
        rows = node_rows(node, seconds)
        samples += len(rows)
        message[node] = {
            "host": place_of_shard.host,
            "address": "10.0.0.1",
            "version": "15",
            "guard": "password",
        }
        more = {"phase": "session", "node": node, "role": "data", "threads": 1, "memory_mb": 1024}
        text = conditions(place_of_shard, **more, address="10.0.0.1", guard="password", kept="")
        write(place_of_shard.directory / f"node.{node}.parquet", rows, place_of_shard, text)
    rows = [
        Sample("session", "form_time", 0.4, "s"),
        Sample("session", "formed_time", 4.5, "s"),
        Sample("session", "close_time", 0.6, "s"),
    ]
    text = conditions(place, phase="session", nodes=message)
    write(place.directory / "session.parquet", rows, place, text)
    return samples + len(rows)


def make_study(study: Path, trials: int, workers: int, seconds: int) -> dict[str, Any]:
    """Write the results of a study; returns their numbers and sizes."""
    (study / "inputs").mkdir(parents=True)
    (study / "study.json").write_text(json.dumps(study_of(trials, workers, seconds)))
    files = workers * 10
    table = {
        "path": [f"in/{i}.m10.gz" for i in range(files)],
        "bytes": [10**7] * files,
        "queries": [100] * files,
        "alignments": [3000] * files,
        "documents": [9100] * files,
        "duplicate_of": pa.nulls(files, pa.string()),
        "warning": pa.nulls(files, pa.string()),
    }
    pq.write_table(pa.table(table), study / "inputs" / "manifest.parquet")
    started = time.monotonic()
    number = len(trials_of(study))
    with ProcessPoolExecutor() as pool:
        made = pool.map(
            make_trial, *zip(*[(study, n, workers, seconds) for n in range(number)], strict=True)
        )
        samples = sum(made)
    parts = [p.stat().st_size for p in study.glob("trials/*/*.*.parquet")]
    packs = [p.stat().st_size for p in study.glob(f"trials/*/{PACK}")]
    logs = [p.stat().st_size for p in study.glob("trials/*/*.hlog")]
    result = {
        "trials": number,
        "workers": workers,
        "samples": samples,
        "parts": len(parts),
        "part_bytes": sum(parts),
        "logs": len(logs),
        "log_bytes": sum(logs),
        "pack_bytes": sum(packs),
    }
    print(
        f"made {number:,} trials, {samples:,} samples in {len(parts):,} parts "
        f"({sum(parts) / 1e9:.2f} GB), {len(logs):,} logs ({sum(logs) / 1e9:.2f} GB), "
        f"{len(packs):,} packs ({sum(packs) / 1e9:.2f} GB) in {time.monotonic() - started:.0f} s"
    )
    return result


def read_parts(paths: list[str]) -> int:
    return sum(pq.ParquetFile(path).read(use_threads=False).num_rows for path in paths)


def floor(study: Path) -> float:
    """The lower limit: seconds to read all parts with pyarrow, one process per processor."""
    paths = sorted(str(p) for p in study.glob("trials/*/*.*.parquet"))
    processes = len(os.sched_getaffinity(0))
    lots = [paths[n :: processes * 8] for n in range(processes * 8)]
    with ProcessPoolExecutor(processes) as pool:
        started = time.monotonic()
        sum(pool.map(read_parts, lots))
        return time.monotonic() - started


class Watch:
    """The peak resident memory of a process and all its children, sampled."""

    def __init__(self, pid: int) -> None:
        self.peak = 0
        self._process = psutil.Process(pid)
        self._end = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        while not self._end.wait(0.1):
            total = 0
            try:
                for one in [self._process, *self._process.children(recursive=True)]:
                    try:
                        total += one.memory_info().rss
                    except psutil.NoSuchProcess:
                        continue
            except psutil.NoSuchProcess:
                return
            self.peak = max(self.peak, total)

    def end(self) -> int:
        self._end.set()
        self._thread.join()
        return self.peak


def measure(study: Path, *, page: bool) -> None:
    """Analyse a study, in this process, and print times as one line of JSON."""
    begin = time.monotonic()
    stages: dict[str, list[float]] = {}
    last = [begin, processor_seconds()]

    def stage(name: str) -> None:
        now, used = time.monotonic(), processor_seconds()
        stages[name] = [now - last[0], used - last[1]]
        last[:] = [now, used]

    from storewise.analysis.pipeline.load import load_results
    from storewise.analysis.pipeline.output import write_study

    stage("imports")
    results = load_results(study)
    stage("read and reduce")
    tables, decision = write_study(results, study / "analysis")
    stage("tables, verdict, CSV")
    total = time.monotonic() - begin
    rows = {name: len(table) for name, table in tables.frames().items() if len(table) > 20_000}
    if page:
        from storewise.figures.make import make_figures
        from storewise.figures.verdict_chart import verdict_chart
        from storewise.report.page.page import html

        made = make_figures(tables, study / "figures")
        stage("figures")
        html(tables, decision, made, verdict_chart(tables, decision))
        stage("page")
    place_of_shard = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    print(json.dumps({"stages": stages, "total": total, "own_peak": place_of_shard, "rows": rows}))


def processor_seconds() -> float:
    """CPU seconds of this process and its ended children."""
    return sum(
        used.ru_utime + used.ru_stime
        for used in map(resource.getrusage, (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    )


def run(study: Path, *, page: bool) -> dict[str, Any]:
    """`measure` in a fresh process, watched."""
    command = [sys.executable, __file__, "--measure", str(study), *(["--page"] if page else [])]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as child:
        watch = Watch(child.pid)
        output = child.stdout.read() if child.stdout else ""
    peak = watch.end()
    if child.returncode:
        sys.exit(f"the analysis failed with status {child.returncode}")
    result: dict[str, Any] = json.loads(output.splitlines()[-1])
    result["peak"] = peak
    for name, (wall, used) in result["stages"].items():
        print(f"{name:24} {wall:8.1f} s {used:8.1f} s of processors")
    print(f"{'all but figures and page':24} {result['total']:8.1f} s")
    print(
        f"peak memory {peak / 2**30:.2f} GiB, of the main process {result['own_peak'] / 2**30:.2f}"
    )
    print("long tables: " + ", ".join(f"{k} {v:,}" for k, v in result["rows"].items()))
    return result


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    arguments.add_argument("--full", action="store_true", help="500 trials with 100 workers")
    arguments.add_argument("--trials", type=int, default=25)
    arguments.add_argument("--workers", type=int, default=20)
    arguments.add_argument("--seconds", type=int, default=36, help="that each phase took")
    arguments.add_argument("--directory", type=Path, help="where the study is made")
    arguments.add_argument("--keep", action="store_true", help="leave it there, use it if it is")
    arguments.add_argument("--unpacked", action="store_true", help="parts and logs only")
    arguments.add_argument("--page", action="store_true", help="measure figures and page too")
    arguments.add_argument("--json", type=Path, help="write the figures here as well")
    arguments.add_argument("--measure", type=Path, help=argparse.SUPPRESS)
    values = arguments.parse_args()
    if values.measure:
        measure(values.measure, page=values.page)
        return
    sizes = {k: getattr(values, k) for k in FULL} if not values.full else FULL
    with tempfile.TemporaryDirectory(dir=values.directory) as temporary:
        place = Path(temporary)
        if values.keep:
            place = (values.directory or Path()) / "-".join(map(str, sizes.values()))
        study, known = place / "large", place / "made.json"
        if known.exists():
            made = json.loads(known.read_text())
        else:
            shutil.rmtree(study, ignore_errors=True)
            made = make_study(study, **sizes)
            known.write_text(json.dumps(made))
        if values.unpacked:
            for path in study.glob(f"trials/*/{PACK}"):
                path.unlink()
        least = floor(study)
        print(f"{'floor: parts only read':24} {least:8.1f} s")
        result = run(study, page=values.page)
    print(f"{result['total'] / least:.2f} times the floor")
    over = result["total"] > LIMIT_SECONDS or result["peak"] > LIMIT_BYTES
    figures = {
        "study": made,
        "floor": least,
        **result,
        "limits": {"seconds": LIMIT_SECONDS, "bytes": LIMIT_BYTES},
        "cores": os.cpu_count(),
        "system": platform.platform(),
        "python": platform.python_version(),
    }
    if values.json:
        values.json.write_text(json.dumps(figures, indent=2) + "\n")
    if values.full and over:
        sys.exit(f"over {LIMIT_SECONDS:.0f} s or {LIMIT_BYTES / 2**30:.0f} GiB")


if __name__ == "__main__":
    main()
