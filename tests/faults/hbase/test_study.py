"""HBase through the whole workflow: verified counts, and what is left when it is killed."""

from __future__ import annotations

import os
import re
import signal
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest
from support.needs import unavailable
from support.paths import SAMPLE, SMALL
from support.servers import jvm_binaries
from support.waiting import wait_until
from support.workspace import Workspace

from storewise.metrics.schema import read_part

#: Within which all processes have gone after a fault, s.
SOON = 60.0
ALL_CELLS = os.environ.get("STOREWISE_ALL_CELLS") == "1"


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Workspace]:
    place = Workspace(tmp_path)
    yield place
    for process in place.processes():
        process.kill()


def study(
    batch: int = 500, read: str = "{seconds: 0.3}", nodes: int = 1, **settings: object
) -> str:
    try:
        settings["home"] = str(jvm_binaries.jars("hbase"))
    except jvm_binaries.Unavailable as error:
        unavailable(str(error))
    return f"""\
inputs: {{paths: data}}
engines: {{hbase: {settings}}}
factors: {{workers: 2, nodes: {nodes}}}
phases:
  - write: {{batch_size: {batch}}}
  - read: {read}
"""


@pytest.mark.parametrize("nodes", [1, *([2] if ALL_CELLS else [])])
def test_a_study_of_hbase(place: Workspace, nodes: int) -> None:
    place.copy_inputs()
    place.finishes(study(nodes=nodes, gateway="happybase" if nodes == 1 else "thrift2"))
    parts = {path.name: read_part(path) for path in place.results.glob("trials/*/node.*.parquet")}
    assert len(parts) == (1 if nodes == 1 else 2 + nodes)
    for samples, conditions in parts.values():
        assert re.fullmatch(r"HBase \d\S+, Java \d+", conditions["versions"]["server"])
        assert conditions["guard"] == "none"
        stopped = next(s["value"] for s in samples.to_pylist() if s["metric"] == "stop_time")
        print(f"{conditions['node']}: stopped in {stopped:.1f} s")
        assert stopped < 30
    logs = {log.name for log in place.results.glob("logs/*/*.server.log")}
    assert {"master0.server.log"} <= logs and any("thrift" in name for name in logs)


Cause = Callable[[Workspace], None]


def kill_server(place: Workspace) -> None:
    pid = place.server("master0")
    assert pid is not None
    os.kill(pid, signal.SIGKILL)


def kill_node(place: Workspace) -> None:
    os.kill(place.members()["master0"], signal.SIGKILL)


def kill_gateway(place: Workspace) -> None:
    (gateway,) = [p for p in place.processes() if any("thrift2" in part for part in p.cmdline())]
    gateway.kill()


CELLS: list[tuple[Cause, str, str]] = [
    (kill_node, "write", r"master0 on host \S+ was ended by SIGKILL"),
]
if ALL_CELLS:
    CELLS += [
        (kill_server, "read", r"master0: the server of HBase on host \S+ was ended by SIGKILL"),
        (kill_server, "write", r"master0: the server of HBase on host \S+ was ended by SIGKILL"),
        (kill_node, "read", r"master0 on host \S+ was ended by SIGKILL"),
        (
            kill_gateway,
            "read",
            r"thrift0.*(was ended by SIGKILL|the gateway has ended the connection)",
        ),
    ]


@pytest.mark.parametrize(
    ("cause", "phase", "reason"), CELLS, ids=[f"{c.__name__}-{p}" for c, p, _ in CELLS]
)
def test_nothing_is_left_and_the_next_run_finishes(
    place: Workspace, cause: Cause, phase: str, reason: str
) -> None:
    place.copy_inputs(sorted(SAMPLE.glob("*.m10.*")) if phase == "write" else SMALL)
    place.write_study(study(batch=1) if phase == "write" else study(read="{seconds: 600}"))
    run = place.start()
    wait_until(lambda: place.working(f"{phase}.1"), 150, f"{phase}.1 at work")
    cause(place)
    print(f"{cause.__name__} in {phase}: all processes gone after {place.gone(SOON):.1f} s")
    assert place.left_behind() == []
    assert run.wait() != 0
    (path,) = place.results.glob("failures/*.jsonl")
    (line,) = path.read_text().splitlines()
    print(line)
    assert re.search(reason, line), line
    assert not [p for p in psutil.process_iter() if str(place.directory) in _command(p)]
    place.finishes(study())


def _command(process: psutil.Process) -> str:
    try:
        return " ".join(process.cmdline())
    except psutil.Error:
        return ""
