"""Timing errors of clients: starts of operations in an open loop, and the release of a barrier.

    python benchmarks/pace.py [--seconds S] [--rate R] [--parties P]

prints one JSON object. `late_us`: from when an operation was due to when it began, of operations
that take no time themselves. `processor`: the share of a processor that the client used, nearly all
of it in the last 40 µs before each start. `barrier_ms`: from the arrival of the last party, all in
one directory, until each has left. What these do apart from the seconds is tested with a time that
is handed in.
"""

from __future__ import annotations

import argparse
import json
import platform
import tempfile
import threading
from itertools import repeat
from pathlib import Path
from time import perf_counter_ns, thread_time_ns

import numpy as np
import psutil

from storewise.driver.arrivals import arrivals
from storewise.driver.loops import run_loop
from storewise.metrics.host import facts
from storewise.metrics.recorder import NS, Recorder
from storewise.session.coordination.barrier import Barrier
from storewise.workloads.contract import Operation


def percentiles(values: list[float]) -> dict[str, float]:
    return {f"p{q:g}": round(float(np.percentile(values, q)), 1) for q in (50, 90, 99, 99.9, 100)}


def open_loop_starts(rate: float, seconds: float) -> dict[str, object]:
    """How late operations start (µs), and the CPU time that waiting takes."""
    begun: list[int] = []

    def call() -> int:
        begun.append(perf_counter_ns())
        return 1

    recorder = Recorder(perf_counter_ns())
    used = thread_time_ns()
    paced = run_loop(
        repeat(Operation("get", call)),
        recorder,
        arrivals("constant", rate, 0, 1, 1, 0),
        deadline=recorder.zero + int(seconds * NS),
    )
    used = thread_time_ns() - used
    due = arrivals("constant", rate, 0, 1, 1, 0)
    late = [(at - recorder.zero - next(due)) / 1000 for at in begun]
    return {
        "operations": len(begun),
        "unserved": paced.unserved,
        "late_us": percentiles(late),
        "processor": round(used / (seconds * NS), 4),
    }


def barrier_ms(parties: int, rounds: int) -> list[float]:
    """Milliseconds from the last arrival to the release, by party and round."""
    names = [str(number) for number in range(parties)]
    result: list[float] = []
    with tempfile.TemporaryDirectory() as name:
        for number in range(rounds):
            came, left = dict.fromkeys(names, 0), dict.fromkeys(names, 0)

            def run(me: str, number: int = number, came=came, left=left) -> None:
                came[me] = perf_counter_ns()
                Barrier(Path(name), names, f"step-{number}").wait(me, lambda: None)
                left[me] = perf_counter_ns()

            threads = [threading.Thread(target=run, args=(me,)) for me in names]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            result += [(at - max(came.values())) / 1e6 for at in left.values()]
    return result


def main() -> None:
    parser = argparse.ArgumentParser(description="How exactly clients keep their time")
    parser.add_argument("--seconds", type=float, default=5.0, help="of the loop (default: 5)")
    parser.add_argument("--rate", type=float, default=200.0, help="operations/s (default: 200)")
    parser.add_argument("--parties", type=int, default=4, help="of a barrier (default: 4)")
    options = parser.parse_args()
    result = {
        "open_loop": open_loop_starts(options.rate, options.seconds),
        "barrier_ms": percentiles(barrier_ms(options.parties, 20)),
        "conditions": {
            "python": platform.python_version(),
            "host": facts(),
            "load_average": psutil.getloadavg(),
            "rate": options.rate,
            "seconds": options.seconds,
            "parties": options.parties,
        },
    }
    print(json.dumps(result, indent=2))


if __name__ == "__main__":
    main()
