"""The process that slows a node: ``python -m storewise.session.faults.background_load PLAN``.

PLAN is a file of JSON (`Slow`). It works until it is killed, and writes twice a second into
``state.json`` beside its plan what it has done; the first time when it really slows. Whatever it
starts dies with it; its directory is removed by its guard or by the node's job.
"""

from __future__ import annotations

import json
import math
import os
import shutil
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import psutil

from storewise.atomic import write_aside
from storewise.errors import EngineError
from storewise.metrics.host import host_name
from storewise.processes import dies_with_parent
from storewise.workloads.faults import Slow

STATE = "state.json"
_WRITE_EVERY = 0.5
_MIB = 1 << 20
#: The disk's writer syncs after so many bytes, and at the end of its file.
_SYNC = 16 * _MIB
#: It leaves so much of the disk free.
_SPARE = 256 * _MIB


def main() -> None:
    path = Path(sys.argv[1])
    slow = Slow.model_validate_json(path.read_bytes())
    load = {"disk": _disk, "cpu": _cpu}[slow.how]
    written = 0.0
    try:
        for figures in load(path.parent, slow):
            if time.monotonic() - written >= _WRITE_EVERY:
                written = time.monotonic()
                write_aside(path.with_name(STATE), json.dumps(figures) + "\n")
    except (EngineError, OSError) as error:
        sys.exit(f"slowing of {slow.how}: {error}")


def _disk(directory: Path, slow: Slow) -> Iterator[dict[str, float]]:
    """Write a file again and again, with fsync; yields after each."""
    file_mb = slow.file_mb
    size = file_mb * _MIB
    free = shutil.disk_usage(directory).free
    if free < size + _SPARE:
        raise EngineError(
            f"{directory} on host {host_name()} has {free / _MIB:.0f} MiB free, and a file of "
            f"{file_mb} MiB with {_SPARE // _MIB} MiB to spare does not fit: lower file_mb"
        )
    block = os.urandom(_MIB)  # neither compressed nor left out as zeros
    written = syncs = 0
    with (directory / "file").open("wb", buffering=0) as file:
        while True:
            file.seek(0)
            at = 0
            while at < size:
                file.write(block)
                at += _MIB
                written += _MIB
                if at % _SYNC == 0 or at >= size:
                    os.fsync(file.fileno())
                    syncs += 1
                    yield {"slow_bytes": written, "slow_syncs": syncs}


def _cpu(directory: Path, slow: Slow) -> Iterator[dict[str, float]]:
    """Busy processes; yields their processor time once all of them have some."""
    number = slow.processes or os.cpu_count() or 1
    tie = dies_with_parent()
    children = []
    for _ in range(number):
        pid = os.fork()
        if pid == 0:
            tie()
            while True:
                math.sqrt(2.0)
        children.append(psutil.Process(pid))
    while True:
        if any(child.status() == psutil.STATUS_ZOMBIE for child in children):
            raise EngineError("a busy process has ended")
        times = [child.cpu_times() for child in children]
        used = [time_.user + time_.system for time_ in times]
        if min(used) > 0:
            yield {"slow_cpu": sum(used), "slow_processes": number}
        time.sleep(0.1)


if __name__ == "__main__":
    main()
