"""HBase through the whole workflow: what is left when it is killed, and the study after that."""

import os
import re
import signal

import psutil
import pytest
from support.paths import SAMPLE, SMALL
from support.servers.stores import available

from storewise.metrics.schema import read_part

pytestmark = pytest.mark.xdist_group("hbase")
#: Within which all processes have gone after a fault, s.
SOON = 60.0


def study(batch=500, read="{seconds: 0.3}", nodes=1, **settings):
    return f"""\
inputs: {{paths: data}}
engines: {{hbase: {settings | available("hbase")}}}
factors: {{workers: 2, nodes: {nodes}}}
phases:
  - write: {{batch_size: {batch}}}
  - read: {read}
"""


def _measured(place, parts):
    """What a study that has ended tells of HBase."""
    result = {path.name: read_part(path) for path in place.results.glob("trials/*/node.*.parquet")}
    assert len(result) == parts
    for samples, conditions in result.values():
        assert re.fullmatch(r"HBase \d\S+, Java \d+", conditions["versions"]["server"])
        assert conditions["guard"] == "none"
        assert "stop_time" in samples.column("metric").to_pylist()
    logs = {log.name for log in place.results.glob("logs/*/*.server.log")}
    assert {"master0.server.log"} <= logs and any("thrift" in name for name in logs)


@pytest.mark.all_cells
def test_a_study_of_two_region_servers(place):
    place.copy_inputs()
    place.finishes(study(nodes=2))
    _measured(place, 4)


def kill_server(place):
    pid = place.server("master0")
    assert pid is not None
    os.kill(pid, signal.SIGKILL)


def kill_node(place):
    os.kill(place.members()["master0"], signal.SIGKILL)


def kill_gateway(place):
    (gateway,) = [p for p in place.processes() if any("thrift2" in part for part in p.cmdline())]
    gateway.kill()


def killed(place, cause, phase, reason):
    """A run whose phase is at work, and what remains of it."""
    place.copy_inputs(sorted(SAMPLE.glob("*.m10.*")) if phase == "write" else SMALL)
    long_read = study(read="{seconds: 600, rate: 20}")
    place.write_study(study(batch=1) if phase == "write" else long_read)
    run = place.start()
    place.await_worker(run, f"{phase}.1")
    cause(place)
    print(f"{cause.__name__} in {phase}: all processes gone after {place.gone(SOON):.1f} s")
    assert place.left_behind() == []
    assert run.wait() != 0
    (path,) = place.results.glob("failures/*.jsonl")
    (line,) = path.read_text().splitlines()
    assert re.search(reason, line), line
    assert not [p for p in psutil.process_iter() if str(place.directory) in _command(p)]


NODE = r"master0 on host \S+ was ended by SIGKILL"
SERVER = r"master0: the server of HBase on host \S+ was ended by SIGKILL"
GATEWAY = r"thrift0.*(was ended by SIGKILL|TSocket read 0 bytes|Could not connect)"


@pytest.mark.long("HBase starts twice, and a killed one is waited for", limit=600)
def test_a_study_after_a_killed_one(place):
    """Of Java's stores the one kill of CI; the next run measures all of it."""
    killed(place, kill_node, "read", NODE)
    place.finishes(study())
    _measured(place, 1)


@pytest.mark.all_cells
@pytest.mark.parametrize(
    ("cause", "phase", "reason"),
    [
        (kill_node, "write", NODE),
        (kill_server, "read", SERVER),
        (kill_server, "write", SERVER),
        (kill_gateway, "read", GATEWAY),
    ],
)
def test_nothing_is_left_and_the_next_run_goes_on(place, cause, phase, reason):
    killed(place, cause, phase, reason)
    place.goes_on()


def _command(process):
    try:
        return " ".join(process.cmdline())
    except psutil.Error:
        return ""
