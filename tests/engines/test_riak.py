"""Riak as an engine: finding it, starting and joining nodes, what happens when one fails.

The nodes are those of a stand-in (`riak_standin`): it shows that the engine does what it was
written to do, not that Riak takes it. With RIAK_HOME (or STOREWISE_RIAK_HOME) set, the tests of
running clusters run on that Riak, too, and so do the contract tests of all engines.
"""

from __future__ import annotations

import logging
import os
import re
import signal
import socket
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import psutil
import pytest
from engine_samples import sample
from harness import SMALL, Workspace, wait_until
from riak_standin_release import make_release

from storewise.documents import Kind
from storewise.engines import riak_pb as pb
from storewise.engines.base import Cluster, Endpoint, Schema
from storewise.engines.registry import engine
from storewise.engines.riak import RiakEngine
from storewise.engines.riak_conf import PORTS, cookie_of, endpoint_name
from storewise.engines.riak_install import VARIABLES
from storewise.engines.server import (
    Credentials,
    Installation,
    Launch,
    Node,
    NodeSpec,
    Settling,
    Topology,
)
from storewise.errors import EngineError
from storewise.session.local import running

REAL = next(filter(None, map(os.environ.get, VARIABLES)), None)
HOMES = ["stand-in", *(["real"] if REAL else [])]
DOCUMENTS = sample(8, alignments=80)


@pytest.fixture(autouse=True)
def unnamed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tests name their Riak."""
    for variable in VARIABLES:
        monkeypatch.delenv(variable, raising=False)


@pytest.fixture(params=HOMES)
def home(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    return str(REAL) if request.param == "real" else str(make_release(tmp_path))


@pytest.fixture
def release(tmp_path: Path) -> Path:
    return make_release(tmp_path)


# -- finding it ---------------------------------------------------------------------------------


def test_a_release_is_found_by_its_directory(
    release: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    riak = RiakEngine()
    for named in (release, release / "bin", release.parent):
        found = riak.find({"home": str(named)})
        assert found.version == "Riak KV 3.2.2"
        assert found.programs == {"riak": release / "bin/riak"}
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
    with pytest.raises(EngineError, match=r"no release.*on PATH.*/usr/lib/riak.*install OpenRiak"):
        riak.find({})


@pytest.mark.parametrize("version", ["2.9.10", "4.0.0", "riak-2.2.3"])
def test_other_versions_are_refused(tmp_path: Path, version: str) -> None:
    home = make_release(tmp_path, version)
    number = version.removeprefix("riak-")
    with pytest.raises(
        EngineError, match=rf"{re.escape(number)}, and Storewise runs 3\.x; install"
    ):
        RiakEngine().find({"home": str(home)})


def test_what_is_no_release_is_refused(release: Path, tmp_path: Path) -> None:
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


# -- what it starts -----------------------------------------------------------------------------


def node_of(
    directory: Path, index: int = 0, level: str = "durable", nodes: int = 3, **settings: Any
) -> Node:
    ports = {name: 21000 + 10 * index + at for at, name in enumerate(PORTS)}
    own = Endpoint("data", 0, "here", "10.1.2.3", 20999, {**ports, "epmd": 20555})
    return Node(
        spec=NodeSpec("data", index, memory_mb=1000, meets=("data",), ports=PORTS),
        topology=Topology(nodes=nodes, replicas=min(nodes, 3)),
        settings=settings,
        consistency=level,
        session="s",
        directory=directory,
        address="10.1.2.3",
        port=20999,
        installation=Installation({"riak": Path("/opt/riak/bin/riak")}, "Riak KV 3.2.2"),
        credentials=Credentials("u", "the-password", "the-key"),
        peers=(own, replace(own, index=1)),
        ports=ports,
    )


def conf_of(launch: Launch) -> dict[str, str]:
    text = launch.files["etc/riak.conf"]
    return dict(line.split(" = ", 1) for line in text.splitlines())  # type: ignore[misc]


def test_the_configuration_of_a_node(tmp_path: Path) -> None:
    node = node_of(tmp_path / "data1", 1)
    launch = RiakEngine().launch(node)
    conf = conf_of(launch)
    assert conf["nodename"] == "riak2@10.1.2.3"
    assert conf["listener.protobuf.internal"] == "10.1.2.3:20999"
    assert conf["listener.http.internal"] == f"10.1.2.3:{node.ports['http']}"
    assert (conf["handoff.ip"], conf["handoff.port"]) == ("10.1.2.3", str(node.ports["handoff"]))
    assert conf["mdc.cluster_manager"] == f"10.1.2.3:{node.ports['cluster_manager']}"
    for end in ("minimum", "maximum"):
        assert conf[f"erlang.distribution.port_range.{end}"] == str(node.ports["distribution"])
    assert (conf["ring_size"], conf["buckets.default.n_val"]) == ("32", "3")
    assert conf["storage_backend"] == "leveldb" and conf["leveldb.maximum_memory"] == "500MB"
    assert conf["leveldb.sync_on_write"] == "on" and conf["buckets.default.dw"] == "quorum"
    assert conf["buckets.default.allow_mult"] == "false"
    assert all(conf[f"platform_{name}_dir"].startswith("./") for name in ("data", "log", "etc"))
    assert "{inet_dist_use_interface, {10,1,2,3}}" in launch.files["etc/advanced.config"]
    # All nodes of a session use the port of the first one's epmd.
    assert launch.environment["ERL_EPMD_PORT"] == "20555"
    assert launch.environment["ERL_EPMD_ADDRESS"] == "10.1.2.3"


def test_secrets_are_in_files_only(tmp_path: Path) -> None:
    node = node_of(tmp_path / "data0")
    launch = RiakEngine().launch(node)
    cookie = cookie_of(node.credentials)
    assert cookie in launch.files["etc/riak.conf"] and launch.files[".erlang.cookie"] == cookie
    seen = repr((launch.command, launch.steps, launch.environment))
    for secret in (cookie, "the-key", "the-password"):
        assert secret not in seen
    assert "the-key" not in repr(launch.files) and "the-password" not in repr(launch.files)
    other = cookie_of(Credentials("u", "the-password", "another-key"))
    assert other != cookie and re.fullmatch("c[0-9a-f]{48}", cookie)


@pytest.mark.parametrize(
    ("level", "settings", "lines"),
    [
        ("relaxed", {}, {"leveldb.sync_on_write": None, "buckets.default.r": "quorum"}),
        ("one", {}, {"buckets.default.r": "1", "buckets.default.dw": "1"}),
        ("all", {}, {"buckets.default.r": "all", "buckets.default.w": "all"}),
        ("quorum", {"dw": 1, "w": "all"}, {"buckets.default.dw": "1", "buckets.default.w": "all"}),
        ("durable", {"backend": "bitcask"}, {"bitcask.sync.strategy": "o_sync"}),
        ("durable", {"backend": "leveled"}, {"leveled.sync_strategy": "sync"}),
        ("relaxed", {"backend": "memory"}, {"storage_backend": "memory"}),
        ("one", {"memory_share": 0.01}, {"leveldb.maximum_memory": "128MB"}),
        ("one", {"ring_size": 64, "anti_entropy": "passive"}, {"ring_size": "64"}),
        ("one", {"config": {"leveldb.threads": 5, "x.y": True}}, {"x.y": "true"}),
    ],
)
def test_levels_and_settings(
    tmp_path: Path, level: str, settings: dict[str, Any], lines: dict[str, str | None]
) -> None:
    conf = conf_of(RiakEngine().launch(node_of(tmp_path, level=level, **settings)))
    assert {key: conf.get(key) for key in lines} == lines


def test_what_cannot_be_started_is_refused(tmp_path: Path) -> None:
    riak = RiakEngine()
    with pytest.raises(EngineError, match="memory keeps nothing on disk"):
        riak.launch(node_of(tmp_path, backend="memory"))
    with pytest.raises(EngineError, match="another `scratch`"):
        riak.launch(node_of(tmp_path / "a directory"))
    for shape, settings, words in (
        (Topology(nodes=0), {}, "0 nodes"),
        (Topology(routers=1), {}, "no routers"),
        (Topology(nodes=2, replicas=3), {}, r"3 replicas \(n_val\) on 2 nodes"),
        (Topology(nodes=9), {"ring_size": 8}, "larger power of two"),
        (Topology(nodes=3, replicas=2), {"r": 3}, "setting r: 3 of 2 replicas"),
    ):
        with pytest.raises(EngineError, match=words):
            riak.roles(shape, settings)
    names = [spec.name for spec in riak.roles(Topology(nodes=3, replicas=3), {})]
    assert names == ["data0", "data1", "data2"]


def test_ports_without_a_guard_are_named(tmp_path: Path) -> None:
    riak = RiakEngine()
    (spec,) = riak.roles(Topology(), {})
    assert not riak.flags.authentication
    assert set(riak.open_ports(spec, Topology(), {})) == {"client port", *PORTS} - {"distribution"}
    guards = riak.peer_guards(Endpoint("data", 0, "h", "a", 1, dict.fromkeys(PORTS, 2)))
    assert guards["http"] == "nothing" and "cookie" in guards["distribution"]


# -- running clusters ---------------------------------------------------------------------------


@pytest.mark.parametrize("nodes", [1, 3])
def test_a_cluster_from_start_to_end(home: str, tmp_path: Path, nodes: int) -> None:
    place = tmp_path / "cluster"
    shape = Topology(nodes=nodes, replicas=nodes, memory_mb=512)
    with running("riak", place, shape, {"home": home}) as found:
        cluster = found.cluster
        assert {e.name for e in cluster.endpoints} == {f"data{k}" for k in range(nodes)}
        secret = cookie_of(Credentials.read(place / "credentials.json"))
        for server in found.servers.values():
            tree = psutil.Process(server.pid)
            for process in (tree, *tree.children(recursive=True)):
                assert secret not in " ".join(process.cmdline())
            mode = (server.node.directory / ".erlang.cookie").stat().st_mode
            assert mode & 0o077 == 0
        client = engine("riak").connect(cluster, "write")
        client.create(Schema())
        for kind in Kind:
            client.insert(kind, DOCUMENTS[kind])
        client.close()
        reader = engine("riak").connect(cluster, "read")
        owners = set()
        for kind in Kind:
            ids = [d["_id"] for d in DOCUMENTS[kind]]
            assert reader.get_many(kind, ids) == DOCUMENTS[kind]
            owners |= {reader.owner(kind, document_id) for document_id in ids}
        assert owners == {f"data{k}" for k in range(nodes)}
        status = reader.status()
        assert status["servers"] == nodes and status["node_puts_total"] >= len(DOCUMENTS[Kind.RNA])
        reader.close()
        pids = [server.pid for server in found.servers.values()]
        text = (place / "data0.log").read_text()
        assert text, "the server's own log goes where Storewise keeps it"
    assert not any(map(psutil.pid_exists, pids))
    assert not (place / "data0").exists()


def spread(cluster: Cluster, kind: Kind, ids: list[bytes]) -> list[bytes]:
    """Those whose replicas all lie on different nodes.

    A ring of 2^k partitions cannot be shared by three nodes so that this holds for every key.
    """
    connection = pb.Connection(cluster.endpoints[0], connect=5, seconds=60)
    found = []
    for key in ids:
        body = pb.message((1, kind.table.encode()), (2, key))
        said = connection.request(pb.frame(pb.PREFERENCE, body), pb.PREFERENCE_ANSWER)
        nodes = [holder.node for holder in pb.read_preference(said)]
        assert len(nodes) == 3 and set(nodes) <= set(map(endpoint_name, cluster.endpoints))
        if len(set(nodes)) == 3:
            found.append(key)
    connection.close()
    return found


def test_one_of_three_nodes_is_killed_and_nothing_fails(home: str, tmp_path: Path) -> None:
    """n_val 3, r = w = quorum."""
    shape = Topology(nodes=3, replicas=3, memory_mb=512)
    with running("riak", tmp_path / "c", shape, {"home": home}, "quorum") as found:
        writer = engine("riak").connect(found.cluster, "write")
        writer.create(Schema())
        writer.insert(Kind.ALIGN, DOCUMENTS[Kind.ALIGN])
        documents = {d["_id"]: d for d in DOCUMENTS[Kind.ALIGN]}
        ids = spread(found.cluster, Kind.ALIGN, list(documents))
        assert len(ids) > len(documents) / 2
        expected = [documents[i] for i in ids]
        threads = [writer.for_thread() for _ in range(3)]
        assert all(thread.get_many(Kind.ALIGN, ids) == expected for thread in threads)
        server = found.servers["data1"]
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
        assert writer.status()["servers"] == 2
        assert writer.status()["client.reconnects"] > 0
        writer.close()


def test_what_was_acknowledged_survives_the_death_of_its_node(home: str, tmp_path: Path) -> None:
    with running("riak", tmp_path / "c", Topology(memory_mb=512), {"home": home}) as found:
        (server,) = found.servers.values()
        client = engine("riak").connect(found.cluster, "write")
        client.insert(Kind.RNA, DOCUMENTS[Kind.RNA])
        os.kill(server.pid, signal.SIGKILL)
        wait_until(server.failure, 20, "the end of data0")
        with pytest.raises(EngineError, match=rf"insert: data0 at .*:{server.endpoint.port}"):
            client.insert(Kind.RNA, DOCUMENTS[Kind.RNA])
        server.restart()
        server.wait_ready(lambda: None)
        ids = [d["_id"] for d in DOCUMENTS[Kind.RNA]]

        def there() -> bool:
            """A real node answers pings before its partitions serve."""
            try:
                return client.get_many(Kind.RNA, ids) == DOCUMENTS[Kind.RNA]
            except EngineError:
                return False

        wait_until(there, 60, "all documents after the restart")
        client.close()


# -- failures -----------------------------------------------------------------------------------


def failing(tmp_path: Path, release: Path, match: str, nodes: int = 1, **settings: Any) -> str:
    with pytest.raises(EngineError, match=match) as caught:
        shape = Topology(nodes=nodes)
        with running("riak", tmp_path / "c", shape, {"home": str(release), **settings}):
            pass
    assert not list((tmp_path / "c").glob("data?/")), "no directory is left"
    assert not [p for p in psutil.process_iter(["cmdline"]) if str(tmp_path) in _line(p)]
    return str(caught.value)


def _line(process: psutil.Process) -> str:
    return " ".join(process.info["cmdline"] or ())


def test_a_configuration_that_riak_refuses(release: Path, tmp_path: Path) -> None:
    said = failing(
        tmp_path,
        release,
        r"data0: riak ended with status 1 on host",
        config={"no.such.line": 1},
    )
    assert "You've tried to set no.such.line, but there is no setting with that name" in said


def test_a_release_that_makes_no_arguments(release: Path, tmp_path: Path) -> None:
    script = release / "bin/riak"
    script.write_text("#!/bin/sh\nexit 0\n")
    said = failing(tmp_path, release, "data0: sh ended with status 1")
    assert "riak chkconfig has made no vm.*.args" in said


def test_a_port_that_somebody_took(
    release: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        monkeypatch.setattr("storewise.session.server.free_port", _ports_with(port))
        said = failing(tmp_path, release, r"data0: the server of Riak KV .* ended with status 1")
    assert "Failed to start listener: Address already in use (eaddrinuse)" in said


def _ports_with(taken: int) -> Callable[..., int]:
    """As if the second port (of HTTP) had been taken since it was looked at."""
    from storewise.session.address import free_port

    calls = iter(range(1000))
    return lambda *arguments: taken if next(calls) == 1 else free_port(*arguments)


def test_a_node_that_ends_while_it_starts(release: Path, tmp_path: Path) -> None:
    text = (release / "bin/riak").read_text()
    (release / "bin/riak").write_text(
        text.replace(
            "os.chdir(root)",
            "os.chdir(root)\nif sys.argv[1] == 'foreground': sys.exit('no more files')",
        )
    )
    said = failing(tmp_path, release, "data[01]: the server of Riak KV", nodes=2)
    assert "no more files" in said


class _Told:
    """A node's job as far as `settle` sees it, with commands that say what a test wants."""

    def __init__(self, tmp_path: Path, index: int, **says: str) -> None:
        node = node_of(tmp_path, index)
        self.asked: list[tuple[str, ...]] = []
        self.settling = Settling(
            node=node,
            endpoints=lambda _: tuple(
                replace(node.peers[0], index=index) for index in range(node.topology.nodes)
            ),
            run=lambda command, seconds: self.run(tuple(command[2:]), says),
            check=lambda: None,
            log=logging.getLogger("test"),
        )

    def run(self, words: tuple[str, ...], says: dict[str, str]) -> str:
        self.asked.append(words)
        return says.get("_".join(words[:2]).replace("-", "_"), "")


@pytest.mark.parametrize(
    "reason", ["different ring_creation_size", "already a member of a cluster"]
)
def test_a_join_that_cannot_succeed(tmp_path: Path, reason: str) -> None:
    told = _Told(tmp_path, 1, cluster_join=f"Failed: this has a {reason}")
    with pytest.raises(EngineError, match=rf"data1: riak cannot join riak1@10\.1\.2\.3 \({reason}"):
        RiakEngine().settle(told.settling)


def test_waiting_has_an_end_that_says_what_riak_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("storewise.engines.riak_cluster._JOIN_SECONDS", 0.1)
    monkeypatch.setattr("storewise.engines.riak_cluster._FORM_SECONDS", 0.1)
    joining = _Told(tmp_path, 1, cluster_join="Node riak1@10.1.2.3 is not reachable!")
    with pytest.raises(EngineError, match=r"data1: its joining riak1@.* within.*\n.*not reachable"):
        RiakEngine().settle(joining.settling)
    staged = "\n".join(f"join           'riak{k}@10.1.2.3'" for k in (2, 3))
    first = _Told(tmp_path, 0, cluster_plan="There are no staged changes")
    with pytest.raises(EngineError, match=r"no plan with riak2@.*, riak3@.*\n.*no staged changes"):
        RiakEngine().settle(first.settling)
    moving = "valid     100.0%     34.4%    'riak1@10.1.2.3'"
    slow = _Told(
        tmp_path,
        0,
        cluster_plan=staged,
        cluster_commit="Cluster changes committed",
        member_status=moving,
    )
    with pytest.raises(EngineError, match=r"data0: the partitions did not all reach.*\n.*34\.4%"):
        RiakEngine().settle(slow.settling)
    commits = [words for words in slow.asked if words == ("cluster", "commit")]
    assert len(commits) == 1, "one plan for all"


# -- the whole workflow -------------------------------------------------------------------------


@pytest.mark.e2e
@pytest.mark.parametrize(("nodes", "replicas"), [(1, 1), (3, 3)])
def test_a_study_from_beginning_to_end(
    home: str, tmp_path: Path, nodes: int, replicas: int
) -> None:
    place = Workspace(tmp_path)
    place.copy_inputs(SMALL)
    place.finishes(
        "inputs: {paths: data}\n"
        f"engines: {{riak: {{home: {home}}}}}\n"
        f"factors: {{workers: 2, nodes: {nodes}, replicas: {replicas}}}\n"
        "phases:\n"
        "  - write: {batch_size: 200}\n"
        "  - read: {operations: 200}\n"
    )
    logs = [path.name for path in place.results.glob("logs/*/*data*")]
    assert logs, "the servers' logs are kept"
