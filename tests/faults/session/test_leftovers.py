"""Nothing of a store's servers is outside of their own directories, killed by SIGKILL or not."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest
from support.paths import TESTS
from support.servers.stores import available

FURTHER = ("mariadb", "mongodb", "valkey", "cassandra", "hbase")


@pytest.mark.needs("root", "unshare")
@pytest.mark.parametrize(
    "name", ["postgres", *(pytest.param(name, marks=pytest.mark.all_cells) for name in FURTHER)]
)
def test_killed_servers_leave_nothing(name: str) -> None:
    """With an empty /tmp and /dev/shm of its own."""
    program = TESTS / "support" / "servers" / "leftovers.py"
    done = subprocess.run(
        # -P: beside the program stands a cassandra.py that is not the driver.
        ["unshare", "--mount", "--ipc", sys.executable, "-P", str(program), name, "1",
         json.dumps(available(name))],
        capture_output=True, text=True, timeout=300,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    seen = json.loads(done.stdout)
    assert seen["live"] == [line for line in seen["live"] if line.startswith("System V shm")]
    assert seen["wide"] == []
    assert seen["ended"] == []
