"""Studies of Cassandra and HBase through the workflow: what is left when a process is killed, and
the study after that."""

import os
import re
import signal

import pytest
from support.paths import SAMPLE, SMALL
from support.servers.stores import available

from storewise.metrics.schema import read_part

STUDY = """\
inputs: {{paths: data}}
engines: {{{engine}: {settings}}}
factors: {{workers: 2, nodes: {nodes}, node_memory_mb: 512}}
retries: 0
phases:
  - write: {{batch_size: {batch}}}
  - read: {read}
"""
FIRST = {"cassandra": "data0", "hbase": "master0"}
#: What the recorded reason says of the server, of the job that runs it, and of HBase's gateway.
REASONS = {
    "server": r"0: the server of (Cassandra|HBase) on host \S+ was ended by SIGKILL",
    "node": r"(data|master)0 on host \S+ was ended by SIGKILL",
    "gateway": r"thrift0.*(was ended by SIGKILL|TSocket read 0 bytes|Could not connect)",
}


def study(engine, nodes=1, batch=500, read="{seconds: 0.3}"):
    settings = available(engine)
    return STUDY.format(engine=engine, settings=settings, nodes=nodes, batch=batch, read=read)


def cell(engine, *values, marks=()):
    marks = [pytest.mark.xdist_group(engine), *marks]
    return pytest.param(engine, *values, marks=marks, id="-".join(map(str, (engine, *values))))


def is_measured(place, parts):
    """Whether the servers of a study that has ended told their version, and ended in order."""
    results = [read_part(path) for path in place.results.glob("trials/*/node.*.parquet")]
    for samples, conditions in results:
        assert re.fullmatch(r"(Cassandra|HBase) \d\S+, Java \d+", conditions["versions"]["server"])
        assert "stop_time" in samples.column("metric").to_pylist()
    return len(results) == parts


@pytest.mark.parametrize(
    ("engine", "nodes", "parts"),
    [cell("cassandra", 1, 1), cell("hbase", 2, 4, marks=[pytest.mark.all_cells])],
)
def test_a_study_from_beginning_to_end(place, engine, nodes, parts):
    place.copy_inputs()
    place.finishes(study(engine, nodes))
    assert is_measured(place, parts)


def kill(place, engine, phase, victim):
    """Kill a process of a run whose phase is at work: all ends, and the reason is told."""
    place.copy_inputs(sorted(SAMPLE.glob("*.m10.*")) if phase == "write" else SMALL)
    place.write_study(study(engine, batch=1, read="{seconds: 600, rate: 20}"))
    run = place.start()
    place.await_worker(run, f"{phase}.1")
    if victim == "gateway":
        (gateway,) = [p for p in place.processes() if "thrift2" in " ".join(p.cmdline())]
        pid = gateway.pid
    else:
        first = FIRST[engine]
        pid = place.server(first) if victim == "server" else place.members()[first]
    os.kill(pid, signal.SIGKILL)
    print(f"{victim} killed in {phase}: all processes gone after {place.gone(60.0):.1f} s")
    assert place.left_behind() == []
    assert run.wait() != 0
    (reason,) = place.failures()
    assert re.search(REASONS[victim], reason), reason
    assert place.failures_told() == 1, "the first reason, once"


@pytest.mark.xdist_group("hbase")
@pytest.mark.long("HBase starts twice, and a killed one is waited for", limit=600)
def test_a_study_after_a_killed_one(place):
    """Of Java's stores the one kill of CI; the next run measures all of it."""
    kill(place, "hbase", "read", "node")
    place.finishes(study("hbase"))
    assert is_measured(place, 1)


@pytest.mark.all_cells
@pytest.mark.parametrize(
    ("engine", "phase", "victim"),
    [
        *(cell("cassandra", phase, v) for phase in ("write", "read") for v in ("server", "node")),
        *(cell("hbase", phase, "server") for phase in ("write", "read")),
        *(cell("hbase", *values) for values in (("write", "node"), ("read", "gateway"))),
    ],
)
def test_nothing_is_left_and_the_next_run_goes_on(place, engine, phase, victim):
    kill(place, engine, phase, victim)
    place.goes_on()
