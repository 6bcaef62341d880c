"""Riak's clusters from start to end, what happens when a node fails, and whole studies.

The nodes are those of a stand-in (`support.riak`): it shows that the engine does what it was
written to do, not that Riak takes it. With RIAK_HOME (or STOREWISE_RIAK_HOME) set, the tests of
running clusters run on that Riak, too, and so do the contract tests of all engines.
"""

import os
import re
import signal
import socket

import psutil
import pytest
from support.paths import SMALL
from support.riak.release import make_release
from support.servers.local import running
from support.servers.samples import sample
from support.waiting import wait_until
from support.workspace import Workspace

from storewise.documents import KINDS, Kind
from storewise.engines.contract.engine import Schema
from storewise.engines.contract.server import Topology
from storewise.engines.registry import engine
from storewise.engines.riak.connection import Connection
from storewise.engines.riak.messages import pb
from storewise.errors import EngineError

VARIABLES = ("STOREWISE_RIAK_HOME", "RIAK_HOME")
REAL = next(filter(None, map(os.environ.get, VARIABLES)), None)
HOMES = ["stand-in", *(["real"] if REAL else [])]
DOCUMENTS = sample(8, alignments=80)
#: Three real nodes need one to two minutes to become one cluster, more on a busy host.
_STUDY_SECONDS = 1200.0 if REAL else 300.0


@pytest.fixture(autouse=True)
def unnamed(monkeypatch):
    """Tests name their Riak."""
    for variable in VARIABLES:
        monkeypatch.delenv(variable, raising=False)


@pytest.fixture(params=HOMES)
def home(request, tmp_path):
    return str(REAL) if request.param == "real" else str(make_release(tmp_path))


@pytest.fixture
def release(tmp_path):
    return make_release(tmp_path)


# -- running clusters ---------------------------------------------------------------------------


@pytest.mark.parametrize("nodes", [1, 3])
def test_a_cluster_from_start_to_end(home, tmp_path, nodes):
    place = tmp_path / "cluster"
    shape = Topology(nodes=nodes, replicas=nodes, memory_mb=512)
    with running("riak", place, shape, {"home": home}) as result:
        cluster = result.cluster
        assert {e.name for e in cluster.endpoints} == {f"data{k}" for k in range(nodes)}
        for server in result.servers.values():
            cookie = server.node.directory / ".erlang.cookie"
            assert cookie.stat().st_mode & 0o077 == 0
            tree = psutil.Process(server.pid)
            for process in (tree, *tree.children(recursive=True)):
                assert cookie.read_text().strip() not in " ".join(process.cmdline())
        client = engine("riak").connect(cluster, "write")
        client.create(Schema())
        for kind in KINDS:
            client.insert(kind, DOCUMENTS[kind])
        client.close()
        reader = engine("riak").connect(cluster, "read")
        owners = set()
        for kind in KINDS:
            ids = [d["_id"] for d in DOCUMENTS[kind]]
            assert reader.get_many(kind, ids) == DOCUMENTS[kind]
            owners |= {reader.owner(kind, document_id) for document_id in ids}
        assert owners == {f"data{k}" for k in range(nodes)}
        reader.close()
        pids = [server.pid for server in result.servers.values()]
        text = (place / "data0.log").read_text()
        assert text, "the server's own log goes where Storewise keeps it"
    assert not any(map(psutil.pid_exists, pids))
    assert not (place / "data0").exists()
    assert not left_of(place)


def _on():
    """Nothing ends the command."""


def left_of(place):
    """Programs of the nodes below a directory, which is their home: epmd is none of the tree."""
    return [
        process.info["name"]
        for process in psutil.process_iter(["name", "environ"])
        if (process.info["environ"] or {}).get("HOME", "").startswith(f"{place}/data")
    ]


def spread(cluster, kind, ids):
    """Those whose replicas all lie on different nodes.

    A ring of 2^k partitions cannot be shared by three nodes so that this holds for every key.
    """
    connection, names = Connection(cluster.endpoints, 0, 60), len(cluster.endpoints)
    result = []
    for key in ids:
        get = pb.RpbGetBucketKeyPreflistReq(bucket=kind.table.encode(), key=key)
        found = connection.request(get, pb.RpbGetBucketKeyPreflistResp).preflist
        assert len(found) == names
        if len({holder.node for holder in found}) == names:
            result.append(key)
    connection.close()
    return result


def test_one_of_three_nodes_is_killed_and_nothing_fails(home, tmp_path):
    """n_val 3, r = w = quorum."""
    shape = Topology(nodes=3, replicas=3, memory_mb=512)
    with running("riak", tmp_path / "c", shape, {"home": home}, "quorum") as result:
        writer = engine("riak").connect(result.cluster, "write")
        writer.create(Schema())
        writer.insert(Kind.ALIGN, DOCUMENTS[Kind.ALIGN])
        documents = {d["_id"]: d for d in DOCUMENTS[Kind.ALIGN]}
        ids = spread(result.cluster, Kind.ALIGN, list(documents))
        assert len(ids) > len(documents) / 2
        expected = [documents[i] for i in ids]
        threads = [writer.open_thread() for _ in range(3)]
        assert all(thread.get_many(Kind.ALIGN, ids) == expected for thread in threads)
        server = result.servers["data1"]
        os.kill(server.pid, signal.SIGKILL)
        wait_until(server.failure, 20, "the end of data1")
        assert re.search(r"data1: .*Riak KV.*was ended by SIGKILL", str(server.failure()))
        for thread in threads:
            assert thread.get_many(Kind.ALIGN, ids) == expected
            assert [thread.get(Kind.ALIGN, i) for i in ids[:20]] == expected[:20]
            changed = [{**document, "gene": "NEW"} for document in expected]
            thread.insert(Kind.ALIGN, changed)
            assert thread.get_many(Kind.ALIGN, ids) == changed
            thread.insert(Kind.ALIGN, expected)
        writer.close()


@pytest.mark.parametrize("nodes", [1, 3])
def test_a_node_that_was_killed_is_ready_again_when_nothing_is_missing(home, tmp_path, nodes):
    """A real node answers seconds before it serves: others stand in for it and find nothing."""
    place = tmp_path / "c"
    with running("riak", place, Topology(nodes=nodes, memory_mb=512), {"home": home}) as result:
        server = result.servers[f"data{nodes - 1}"]
        client = engine("riak").connect(result.cluster, "write")
        client.insert(Kind.RNA, DOCUMENTS[Kind.RNA])
        server.kill()
        if nodes == 1:
            with pytest.raises(EngineError, match=rf"riak: data0 .*:{server.endpoint.port}"):
                client.insert(Kind.RNA, DOCUMENTS[Kind.RNA])
        server.again(_on)
        ids = [d["_id"] for d in DOCUMENTS[Kind.RNA]]
        assert client.get_many(Kind.RNA, ids) == DOCUMENTS[Kind.RNA]
        client.close()
    assert not left_of(place)


# -- failures -----------------------------------------------------------------------------------


def failing(tmp_path, release, match, nodes=1, **settings):
    with pytest.raises(EngineError, match=match) as caught:
        shape = Topology(nodes=nodes)
        with running("riak", tmp_path / "c", shape, {"home": str(release), **settings}):
            pass
    assert not list((tmp_path / "c").glob("data?/")), "no directory is left"
    assert not [p for p in psutil.process_iter(["cmdline"]) if str(tmp_path) in _line(p)]
    return str(caught.value)


def _line(process):
    return " ".join(process.info["cmdline"] or ())


def test_a_configuration_that_riak_refuses(release, tmp_path):
    output = failing(
        tmp_path,
        release,
        r"data0: sh ended with status 1 on host",
        config={"no.such.line": 1},
    )
    assert "You've tried to set no.such.line, but there is no setting with that name" in output


def test_a_port_that_somebody_took(release, tmp_path, monkeypatch):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        monkeypatch.setattr("storewise.session.server.server.free_port", _ports_with(port))
        output = failing(tmp_path, release, r"data0: the server of Riak KV .* ended with status 1")
    assert "Failed to start listener: Address already in use (eaddrinuse)" in output


def _ports_with(taken):
    """As if the second port (of HTTP) had been taken since it was looked at."""
    from storewise.session.server.address import free_port

    calls = iter(range(1000))
    return lambda *arguments: taken if next(calls) == 1 else free_port(*arguments)


def test_a_node_that_ends_while_it_starts(release, tmp_path):
    program = release / "erts-12.3.2/bin/erlexec"
    program.write_text("#!/bin/sh\necho no more files >&2\nexit 1\n")
    output = failing(tmp_path, release, "data[01]: the server of Riak KV", nodes=2)
    assert "no more files" in output


# -- the whole workflow -------------------------------------------------------------------------


@pytest.mark.long("it waits for a scheduler or for servers", limit=_STUDY_SECONDS + 60)
@pytest.mark.parametrize(
    ("nodes", "replicas"), [pytest.param(1, 1, marks=pytest.mark.all_cells), (3, 3)]
)
def test_a_study_from_beginning_to_end(home, tmp_path, nodes, replicas):
    place = Workspace(tmp_path)
    place.copy_inputs(SMALL)
    place.finishes(
        "inputs: {paths: data}\n"
        f"engines: {{riak: {{home: {home}}}}}\n"
        f"factors: {{workers: 2, nodes: {nodes}, replicas: {replicas}}}\n"
        "phases:\n"
        "  - write: {batch_size: 200}\n"
        "  - read: {operations: 200}\n",
        timeout=_STUDY_SECONDS,
    )
    logs = [path.name for path in place.results.glob("logs/*/*data*")]
    assert logs, "the servers' logs are kept"
