"""A study of Cassandra through the whole workflow, and what is left when its server or its node's
job is killed."""

from __future__ import annotations

import os
import re
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.needs import unavailable
from support.paths import SAMPLE, SMALL
from support.servers.jvm_binaries import Unavailable, jars
from support.waiting import wait_until
from support.workspace import Workspace

STUDY = """\
inputs: {{paths: data}}
engines: {{cassandra: {{home: {home}, concurrency: {concurrency}}}}}
factors: {{workers: 2, node_memory_mb: 512}}
phases:
  - write: {{batch_size: {batch}}}
  - read: {{seconds: {seconds}}}
"""
#: (phase, victim): in the load and in the reads, the server and the job that runs it.
#: The kinds of kill are tried with quicker servers in every run.
CELLS = [("write", "server"), ("read", "server"), ("read", "node"), ("write", "node")]


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Workspace]:
    place = Workspace(tmp_path)
    yield place
    for process in place.processes():
        process.kill()


def study(*, batch: int = 1000, seconds: float = 0.3, concurrency: int = 128) -> str:
    try:
        home = jars("cassandra")
    except Unavailable as error:
        unavailable(str(error))
    return STUDY.format(home=home, batch=batch, seconds=seconds, concurrency=concurrency)


def test_a_study_from_beginning_to_end(place: Workspace) -> None:
    place.copy_inputs()
    place.write_study(study())
    done = place.snakemake(timeout=500)
    assert done.returncode == 0, done.stdout + done.stderr
    assert set(place.counts().values()) == {(place.documents(), place.documents())}
    assert place.left_behind() == []
    assert place.processes() == []
    logs = [path.read_text() for path in place.results.glob("logs/*/data0.server.log")]
    assert len(logs) == 1 and "Cassandra shutdown complete" in logs[0]
    assert any("Cassandra" in path.read_text() for path in place.results.glob("**/*.html"))


@pytest.mark.all_cells
@pytest.mark.parametrize(("phase", "victim"), CELLS)
def test_nothing_is_left_and_the_next_run_finishes(
    place: Workspace, phase: str, victim: str
) -> None:
    place.copy_inputs(sorted(SAMPLE.glob("*.m10.*")) if phase == "write" else SMALL)
    long = study(batch=5, concurrency=1) if phase == "write" else study(seconds=600)
    place.write_study(long)
    run = place.start()
    wait_until(lambda: place.working(f"{phase}.1"), 240, f"{phase}.1 at work")
    pid = place.server("data0") if victim == "server" else place.members()["data0"]
    assert pid is not None
    os.kill(pid, signal.SIGKILL)
    seconds = place.gone(60.0)
    print(f"SIGKILL of the {victim} in {phase}: all processes gone after {seconds:.1f} s")
    assert place.left_behind() == []
    assert run.wait() != 0
    (path,) = place.results.glob("failures/*.jsonl")
    expected = {
        "server": r"data0: the server of Cassandra on host \S+ was ended by SIGKILL",
        "node": r"data0 on host \S+ was ended by SIGKILL",
    }
    assert re.search(expected[victim], path.read_text())
    assert place.output().count("storewise: trial ") == 1, "the first reason, once"
    place.finishes(study())
