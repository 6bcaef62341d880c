"""Riak as an engine: finding it, and when a node serves. No Riak runs here."""

import re
from dataclasses import replace

import pytest
from support.riak.release import make_release
from support.riak.standin import Standin

from storewise.engines.contract.engine import Endpoint
from storewise.engines.registry import engine
from storewise.engines.riak.cluster import check_served, store_keys
from storewise.errors import EngineError

VARIABLES = ("STOREWISE_RIAK_HOME", "RIAK_HOME")


@pytest.fixture(autouse=True)
def unnamed(monkeypatch):
    """Tests name their Riak; the host may have one, too."""
    for variable in VARIABLES:
        monkeypatch.delenv(variable, raising=False)


@pytest.fixture
def release(tmp_path):
    return make_release(tmp_path)


def test_a_release_is_found_by_its_directory(release, monkeypatch):
    riak = engine("riak")
    for named in (release, release / "bin"):
        result = riak.find({"home": str(named)})
        assert result.version == "Riak KV 3.2.2"
        assert result.programs["riak"] == release / "bin/riak"
        assert result.programs["escript"] == release / "erts-12.3.2/bin/escript"
        assert result.programs["boot"] == release / "releases/3.2.2/start"
    for variable in VARIABLES:
        monkeypatch.setenv(variable, str(release))
        assert riak.find({}).programs["riak"] == release / "bin/riak"
        monkeypatch.delenv(variable)
    # A launcher of a package is no release.
    path = release.parent / "path"
    path.mkdir()
    (path / "riak").write_text("#!/bin/sh\n")
    (path / "riak").chmod(0o755)
    monkeypatch.setenv("PATH", f"{path}:/usr/bin:/bin")
    with pytest.raises(EngineError, match=r"no release.*RIAK_HOME.*/usr/lib.*install OpenRiak"):
        riak.find({})
    with pytest.raises(EngineError, match=rf"looked in {path}/absent\); install"):
        riak.find({"home": f"{path}/absent"})


@pytest.mark.parametrize("version", ["2.9.10", "4.0.0", "riak-2.2.3", "", "30.1"])
def test_other_versions_are_refused(tmp_path, version):
    home = make_release(tmp_path, version)
    with pytest.raises(
        EngineError, match=rf"{re.escape(version)}', but Storewise needs 3\.x; install"
    ):
        engine("riak").find({"home": str(home)})


def test_a_node_that_answers_serves_when_each_partition_is_read(tmp_path):
    node = Standin(tmp_path)
    try:
        endpoint = Endpoint("data", 0, "here", "127.0.0.1", node.port)
        gone = replace(endpoint, index=1, port=1)
        with pytest.raises(EngineError, match=r"partition\d+ is not found"):
            check_served((endpoint,), {0})
        store_keys((endpoint,))
        assert len(node.objects.keys(b"storewise")) == 16
        check_served((endpoint,), {0})
        # At r = 1 another would answer for it, and find nothing.
        node.late = 3
        for _ in range(3):
            with pytest.raises(EngineError, match="pr_val_unsatisfied"):
                check_served((endpoint,), {0})
        check_served((endpoint,), {0})
        # A node that is down itself is no fault of this one's, unless it is waited for.
        check_served((endpoint, gone), {0})
        with pytest.raises(EngineError, match=r"data1 \(127\.0\.0\.1:1\)"):
            check_served((endpoint, gone), {0, 1})
    finally:
        node.close()
