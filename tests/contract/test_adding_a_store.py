"""The examples in `docs/examples` are stores: they pass the contract's tests."""

import os
import re
import shutil
import subprocess
import sys

import pytest
from support.paths import ROOT

#: What a developer adds to the registry and to the tests.
PLUGIN = """
import storewise.engines
from storewise.engines.registry import ENGINES
from support.servers import samples

samples.SERVING.add("keyvalue")
storewise.engines.__path__.append({folder!r})
ENGINES.update({{ {line} }})

from support.servers import stores

def empty(cluster):
    from storewise.engines.keyvalue.engine import driver
    from support.servers.samples import secrets_of
    with driver(cluster.endpoints[0], secrets_of(cluster).password) as valkey:
        valkey.flushall()

stores.SERVED["keyvalue"] = stores.Served(
    empty, nodes=(1,), home=stores.valkey_home, takes_infinity=False
)
target = stores.Target("keyvalue", 1)
for targets in (stores.SERVERS, stores.SINGLE, stores.KEEPING):
    targets.append(target)
"""


EXAMPLES = ROOT / "docs" / "examples"


def contract(name, *arguments, path):
    """Run the contract's tests of a store; how many passed."""
    paths = [str(path), str(ROOT), str(ROOT / "tests"), os.environ.get("PYTHONPATH", "")]
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-n0", *arguments, "-k", name],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(paths), "STOREWISE_ALL_CELLS": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    passed = re.search(r"(\d+) passed", done.stdout)
    assert done.returncode == 0 and passed is not None, done.stdout[-5000:] + done.stderr[-2000:]
    return int(passed[1])


@pytest.mark.slow
def test_a_store_of_another_package_passes_the_contract(tmp_path):
    """It is installed as any package, without a network."""
    source, there = tmp_path / "source", tmp_path / "installed"
    shutil.copytree(EXAMPLES / "dictionary_store", source)
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--no-index", "--no-build-isolation"]
    subprocess.run([*pip, "--no-deps", "--target", there, source], check=True)
    assert contract("dictionary", "tests/contract/test_verbs.py", path=there) > 15


@pytest.mark.slow
def test_a_store_with_a_server_passes_the_contract(tmp_path):
    assert (EXAMPLES / "keyvalue" / "engine.py").read_text(encoding="utf-8").count("\n") <= 150
    shutil.copytree(EXAMPLES / "keyvalue", tmp_path / "keyvalue")
    line = '"keyvalue": "storewise.engines.keyvalue.engine:KeyvalueEngine"'
    plugin = PLUGIN.format(folder=str(tmp_path), line=line)
    (tmp_path / "with_the_example.py").write_text(plugin, encoding="utf-8")
    tests = ("tests/contract/test_verbs.py", "tests/contract/test_servers.py")
    assert contract("keyvalue", "-p", "with_the_example", *tests, path=tmp_path) > 15
