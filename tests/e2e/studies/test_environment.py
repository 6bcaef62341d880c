"""What a user has set for servers of his own reaches no server and no client of a study."""

import json
import os

import pytest
from support.servers.stores import available
from support.users.environment import HOSTILE
from support.workspace import Workspace

STUDY = """\
workload: ycsb
engines: {%s: %s}
factors: {node_memory_mb: 512}
phases:
  - load: {recordcount: 50}
  - a: {operationcount: 50}
"""
SLOWER = ("mongodb", "cassandra", "hbase")


@pytest.mark.parametrize(
    "engine",
    [
        *("postgres", "mariadb", "valkey"),
        *(pytest.param(name, marks=pytest.mark.slow) for name in SLOWER),
    ],
)
def test_variables_for_other_servers_change_nothing(engine, tmp_path):
    settings = {k: v for k, v in available(engine).items() if k != "jvm_options"}
    place = Workspace(tmp_path)
    place.write_study(STUDY % (engine, json.dumps(settings)))
    done = place.snakemake("--omit-from", "analyse", env={**os.environ, **HOSTILE})
    assert done.returncode == 0, done.stdout + done.stderr
    logs = [path.read_text() for path in place.results.glob("logs/*/*.server.log")]
    assert logs
    assert not [log for log in logs if "Picked up" in log], "what Java says of JAVA_TOOL_OPTIONS"
