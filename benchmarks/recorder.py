"""Overhead of measuring: one recorded operation, and the whole loop with the null engine.

    python benchmarks/recorder.py [--seconds S] [--processes P]

prints one JSON object. `record_ns` is the time of `Recorder.record` with all that it defers
included, less that of the same loop without it (to reach: under 2,000 ns). `loop` is the client's
own ceiling: operations/s of the read phase of the workload `alignments` on the null engine, with
ids drawn, operations made, called, timed and recorded.
"""

from __future__ import annotations

import argparse
import json
import logging
import platform
import tempfile
from pathlib import Path
from statistics import median
from time import perf_counter_ns, process_time_ns

import psutil
import pyarrow.compute as pc

from storewise.driver.worker import WorkerJob, run_worker
from storewise.metrics.host import facts
from storewise.metrics.recorder import Recorder
from storewise.metrics.schema import read_part
from storewise.ssearch.inputs.manifest import build_manifest
from storewise.ssearch.inputs.shards import write_shards
from storewise.study.trial import Phase, Trial

SAMPLE = Path(__file__).parent.parent / "resources" / "sample"


def record_ns(operations: int) -> float:
    """CPU time in ns per recorded operation, minus the loop and its two clock readings.

    CPU time, because a busy machine changes it little.
    """
    clock = perf_counter_ns
    recorder = Recorder(clock())
    code = recorder.code("get")
    record = recorder.record
    start = process_time_ns()
    for _ in range(operations):
        begun = clock()
        record(code, begun, begun, clock(), 1, 100)
    recorder.result()
    with_recording = process_time_ns() - start
    start = process_time_ns()
    for _ in range(operations):
        begun = clock()
        clock()
    return (with_recording - (process_time_ns() - start)) / operations


def loop_rate(processes: int, seconds: float) -> list[float]:
    """Operations/s of each process in the read phase of the null engine, after the warm-up."""
    with tempfile.TemporaryDirectory() as name:
        place = Path(name)
        inputs = [str(path) for path in sorted(SAMPLE.glob("*.m10.*"))[:8]]
        build_manifest(inputs, place / "manifest.parquet")
        write_shards(place / "manifest.parquet", processes, place / "shards.parquet")
        (place / "live").mkdir()
        trial = Trial(
            study="benchmark",
            id="null",
            engine="null",
            workload="alignments",
            repeat=0,
            seed=1,
            factors={"engine": "null"},
            processes=processes,
            phases=[
                Phase(name="write"),
                Phase(name="read", params={"seconds": seconds + 1, "warmup": 1}),
            ],
        )
        log = logging.getLogger("benchmark")
        log.setLevel(logging.WARNING)
        for phase in ("write", "read"):
            loads = phase == "write"
            job = WorkerJob(
                trial=trial,
                phase=phase,
                worker=0,
                shards=place / "shards.parquet",
                live=place / "live",
                result=place / f"{phase}.parquet",
                hdr_log=place / f"{phase}.hlog",
                store=place / "store" if loads else None,
                stores=() if loads else (place / "store",),
                written=() if loads else (place / "written.parquet",),
                files=place / "written.parquet" if loads else None,
            )
            run_worker(job, lambda: None, log)
        table, _ = read_part(place / "read.parquet")
        table = table.filter(
            (pc.field("metric") == "operations")
            & (pc.field("second") >= 1)
            & (pc.field("second") <= int(seconds))
        )
        return [
            sum(table.filter(pc.field("process") == p)["value"].to_pylist()) / int(seconds)
            for p in range(processes)
        ]


def main() -> None:
    parser = argparse.ArgumentParser(description="Cost of recording and of the whole client loop")
    parser.add_argument("--seconds", type=int, default=5, help="of the loop (default: 5)")
    parser.add_argument("--processes", type=int, default=1, help="clients (default: 1)")
    options = parser.parse_args()
    costs = [record_ns(300_000) for _ in range(5)]
    rates = loop_rate(options.processes, options.seconds)
    result = {
        "record_ns": {"median": round(median(costs)), "best": round(min(costs)), "limit": 2000},
        "loop": {
            "operations_per_second_and_process": [round(rate) for rate in rates],
            "target": 300_000,
        },
        "conditions": {
            "python": platform.python_version(),
            "host": facts(),
            "load_average": psutil.getloadavg(),
            "seconds": options.seconds,
        },
    }
    print(json.dumps(result, indent=2))
    if median(costs) >= 2000:
        raise SystemExit("recording costs 2 µs an operation or more")


if __name__ == "__main__":
    main()
