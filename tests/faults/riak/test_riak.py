"""Riak as an engine: finding it, its private copy, and when a node serves. No Riak runs here."""

import re
import subprocess
from dataclasses import replace

import pytest
from support.riak.release import make_release
from support.riak.standin import Standin

from storewise.engines.contract.engine import Endpoint
from storewise.engines.riak import installation
from storewise.engines.riak.cluster import lacking, partition_keys, store_keys
from storewise.engines.riak.engine import RiakEngine
from storewise.engines.riak.installation import VARIABLES
from storewise.engines.riak.launch import _script
from storewise.engines.riak.settings import Quorums
from storewise.errors import EngineError


@pytest.fixture(autouse=True)
def unnamed(monkeypatch):
    """Tests name their Riak; the host may have one, too."""
    for variable in VARIABLES:
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.setattr(installation, "_USUAL", ("/usr/lib/riak-absent",))


@pytest.fixture
def release(tmp_path):
    return make_release(tmp_path)


# -- finding it ---------------------------------------------------------------------------------


def test_a_release_is_found_by_its_directory(release, monkeypatch):
    riak = RiakEngine()
    for named in (release, release / "bin", release.parent):
        result = riak.find({"home": str(named)})
        assert result.version == "Riak KV 3.2.2"
        assert result.programs == {"riak": release / "bin/riak"}
    for variable in VARIABLES:
        monkeypatch.setenv(variable, str(release))
        assert riak.find({}).programs == {"riak": release / "bin/riak"}
        monkeypatch.delenv(variable)
    # On the PATH a link to the start script is followed; a launcher of a package is no release.
    path = release.parent / "path"
    path.mkdir()
    (path / "riak").symlink_to(release / "bin/riak")
    monkeypatch.setenv("PATH", f"{path}:/usr/bin:/bin")
    assert riak.find({}).programs == {"riak": release / "bin/riak"}
    (path / "riak").unlink()
    (path / "riak").write_text("#!/bin/sh\n")
    (path / "riak").chmod(0o755)
    with pytest.raises(
        EngineError, match=r"no release.*on PATH.*/usr/lib/riak-absent.*install OpenRiak"
    ):
        riak.find({})


@pytest.mark.parametrize("version", ["2.9.10", "4.0.0", "riak-2.2.3"])
def test_other_versions_are_refused(tmp_path, version):
    home = make_release(tmp_path, version)
    number = version.removeprefix("riak-")
    with pytest.raises(
        EngineError, match=rf"{re.escape(number)}, and Storewise runs 3\.x; install"
    ):
        RiakEngine().find({"home": str(home)})


def test_what_is_no_release_is_refused(release, tmp_path):
    riak = RiakEngine()
    with pytest.raises(EngineError, match=rf"looked in {tmp_path}/absent\); install"):
        riak.find({"home": f"{tmp_path}/absent"})
    record = release / "releases/start_erl.data"
    record.write_text("12.3\n")
    with pytest.raises(EngineError, match=r"start_erl\.data names no version: '12\.3'"):
        riak.find({"home": str(release)})
    record.unlink()
    with pytest.raises(EngineError, match=r"start_erl\.data: No such file"):
        riak.find({"home": str(release)})
    for version in ("v3.0.16", "3.4.0-rc1"):
        record.write_text(f"12.3 {version}\n")
        assert riak.find({"home": str(release)}).version == f"Riak KV {version.lstrip('v')}"


def test_a_private_copy_keeps_its_pipes_and_its_cookie_to_itself(release, tmp_path):
    """A second user of the host could not write into the first one's /tmp/erl_pipes."""
    node = tmp_path / "data0"
    node.mkdir()
    command = (*_script("copy"), "sh", str(release), str(node), "private")
    subprocess.run(command, cwd=node, check=True)
    assert f'PIPE_DIR="{node}/pipes/$NAME/"' in (node / "bin/cf_config").read_text()
    assert "/tmp/erl_pipes" in (release / "bin/cf_config").read_text()
    for script in ("bin/riak", "bin/riak-admin"):
        assert "-setcookie" not in (node / script).read_text()
    made = node / "generated.conf" / "vm.1.args"
    made.parent.mkdir()
    made.write_text("-name riak1@127.0.0.1\n-setcookie secret\n")
    (node / "etc").mkdir()
    subprocess.run((*_script("vm_args"), "sh", "private", "{127,0,0,1}"), cwd=node, check=True)
    lines = (node / "etc/vm.args").read_text().splitlines()
    # No program but the server's own start begins an epmd: nobody would end it.
    assert "-start_epmd false" in lines and not [x for x in lines if "secret" in x]


# -- serving ------------------------------------------------------------------------------------


def test_a_node_that_answers_serves_when_each_partition_is_read():
    node = Standin(ring_size=16)
    try:
        endpoint = Endpoint("data", 0, "here", "127.0.0.1", node.port)
        gone = replace(endpoint, index=1, port=1)
        at_one = (16, Quorums("one", "one", "one"))
        keys = partition_keys(16)
        assert len(set(keys)) == 16
        assert "partition 0 is not found" in str(lacking((endpoint,), {0}, *at_one))
        store_keys((endpoint,), *at_one)
        assert lacking((endpoint,), {0}, *at_one) is None
        node.late = 3
        # At r = 1 another would answer for it, and find nothing.
        words = [lacking((endpoint,), {0}, *at_one) for _ in range(4)]
        assert (
            all("pr_val_unsatisfied" in text for text in map(str, words[:3])) and words[3] is None
        )
        # A node that is down itself is no fault of this one's, unless it is waited for.
        assert lacking((endpoint, gone), {0}, *at_one) is None
        assert "data1 at 127.0.0.1:1" in str(lacking((endpoint, gone), {0, 1}, *at_one))
    finally:
        node.close()
