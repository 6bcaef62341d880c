"""A study of Cassandra through the whole workflow, and what is left when its server or its node's
job is killed."""

import os
import re
import signal

import pytest
from support.paths import SAMPLE, SMALL
from support.servers.stores import available

pytestmark = pytest.mark.xdist_group("cassandra")
STUDY = """\
inputs: {{paths: data}}
engines: {{cassandra: {settings}}}
factors: {{workers: {workers}, node_memory_mb: 512}}
phases:
  - write: {{batch_size: {batch}}}
  - read: {{seconds: {seconds}}}
"""
#: (phase, victim): in the load and in the reads, the server and the job that runs it. CI tries one
#: of Java's stores, HBase.
CELLS = [("write", "server"), ("read", "server"), ("read", "node"), ("write", "node")]


def study(*, workers=2, batch=1000, seconds=0.3, concurrency=128):
    settings = {**available("cassandra"), "concurrency": concurrency}
    return STUDY.format(workers=workers, batch=batch, seconds=seconds, settings=settings)


def test_a_study_from_beginning_to_end(place):
    place.copy_inputs()
    place.finishes(study(workers=1))
    logs = [path.read_text() for path in place.results.glob("logs/*/data0.server.log")]
    assert len(logs) == 1 and "Cassandra shutdown complete" in logs[0]


@pytest.mark.all_cells
@pytest.mark.parametrize(("phase", "victim"), CELLS)
def test_nothing_is_left_and_the_next_run_goes_on(place, phase, victim):
    place.copy_inputs(sorted(SAMPLE.glob("*.m10.*")) if phase == "write" else SMALL)
    long = study(batch=5, concurrency=1) if phase == "write" else study(seconds=600)
    place.write_study(long)
    run = place.start()
    place.await_worker(run, f"{phase}.1")
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
    place.goes_on()
