"""Riak as an engine: what it is given to start with, and its nodes' joining, in recorded words."""

import logging
import re
from dataclasses import replace
from pathlib import Path

import pytest
from support.fake_time import FakeTime
from support.riak.recordings import all_recorded, recorded

from storewise.engines.contract.engine import Endpoint
from storewise.engines.contract.server import (
    Credentials,
    Installation,
    Node,
    NodeSpec,
    Settling,
    Topology,
)
from storewise.engines.riak.cluster import Joiner
from storewise.engines.riak.engine import RiakEngine
from storewise.engines.riak.installation import VARIABLES
from storewise.engines.riak.launch import PORTS, cookie_of
from storewise.errors import EngineError


@pytest.fixture(autouse=True)
def unnamed(monkeypatch):
    """Tests name their Riak."""
    for variable in VARIABLES:
        monkeypatch.delenv(variable, raising=False)


# -- what it starts -----------------------------------------------------------------------------


def node_of(directory, index=0, level="durable", nodes=3, **settings):
    ports = {name: 21000 + 10 * index + at for at, name in enumerate(PORTS)}
    endpoint = Endpoint("data", 0, "here", "10.1.2.3", 20999, {**ports, "epmd": 20555})
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
        peers=(endpoint, replace(endpoint, index=1)),
        ports=ports,
    )


def conf_of(launch):
    text = launch.files["etc/riak.conf"]
    return dict(line.split(" = ", 1) for line in text.splitlines())


def test_the_configuration_of_a_node(tmp_path):
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
    # MapReduce would let whoever reaches a port run any function of Erlang's.
    assert {conf[f"cluster.job.riak_kv.map_reduce{js}"] for js in ("", "_js")} == {"disabled"}
    assert all(conf[f"platform_{name}_dir"].startswith("./") for name in ("data", "log", "etc"))
    assert "{inet_dist_use_interface, {10,1,2,3}}" in launch.files["etc/advanced.config"]
    # All nodes of a session use the port of the first one's epmd.
    assert launch.environment["ERL_EPMD_PORT"] == "20555"
    assert launch.environment["ERL_EPMD_ADDRESS"] == "10.1.2.3"


def test_secrets_are_in_files_only(tmp_path):
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
def test_levels_and_settings(tmp_path, level, settings, lines):
    conf = conf_of(RiakEngine().launch(node_of(tmp_path, level=level, **settings)))
    assert {key: conf.get(key) for key in lines} == lines


def test_what_cannot_be_started_is_refused(tmp_path):
    riak = RiakEngine()
    with pytest.raises(EngineError, match="memory keeps nothing on disk"):
        riak.launch(node_of(tmp_path, backend="memory"))
    with pytest.raises(EngineError, match="another `scratch`"):
        riak.launch(node_of(tmp_path / "a directory"))
    for shape, settings, words in (
        (Topology(nodes=9), {"ring_size": 8}, "larger power of two"),
        (Topology(nodes=3, replicas=2), {"r": 3}, "setting r: 3 of 2 replicas"),
    ):
        with pytest.raises(EngineError, match=words):
            riak.roles(shape, settings)


def test_ports_without_a_guard_are_named(tmp_path):
    riak = RiakEngine()
    (spec,) = riak.roles(Topology(), {})
    assert not riak.flags.authentication
    assert set(riak.open_ports(spec, Topology(), {})) == {"client port", *PORTS} - {"distribution"}
    guards = riak.peer_guards(Endpoint("data", 0, "h", "a", 1, dict.fromkeys(PORTS, 2)))
    assert guards["http"] == "nothing" and "cookie" in guards["distribution"]


# -- joining ------------------------------------------------------------------------------------


class _Told:
    """A node's job as far as `settle` sees it, with commands that say what a test wants."""

    def __init__(self, tmp_path, index, **says):
        node = node_of(tmp_path, index)
        self.asked = []
        self.settling = Settling(
            node=node,
            endpoints=lambda _: tuple(
                replace(node.peers[0], index=index) for index in range(node.topology.nodes)
            ),
            run=lambda command, seconds: self.run(tuple(command[2:]), says),
            check=lambda: None,
            log=logging.getLogger("test"),
        )

    def run(self, words, says):
        self.asked.append(words)
        output = says.get("_".join(words[:2]).replace("-", "_"), "")
        if output.startswith(("Node ", "Failed")):
            raise EngineError(f"data: riak ended with status 1; it says:\n{output}")
        return output


@pytest.mark.parametrize(
    "reason", ["different ring_creation_size", "already a member of a cluster"]
)
def test_a_join_that_cannot_succeed(tmp_path, reason):
    message = _Told(tmp_path, 1, cluster_join=f"Failed: this has a {reason}")
    with pytest.raises(EngineError, match=rf"data1: riak cannot join riak1@10\.1\.2\.3 \({reason}"):
        RiakEngine().settle(message.settling)


def test_waiting_has_an_end_that_says_what_riak_said(tmp_path):
    own_time = FakeTime()

    def settle(told):
        Joiner(told.settling, clock=own_time.clock, sleep=own_time.sleep).settle()

    joining = _Told(tmp_path, 1, cluster_join="Node riak1@10.1.2.3 is not reachable!")
    with pytest.raises(EngineError, match=r"(?s)data1: its joining riak1@.* within.*not reachable"):
        settle(joining)
    assert own_time.now == 1180.5, "looked at every half a second for three minutes"
    staged = "\n".join(f"join           'riak{k}@10.1.2.3'" for k in (2, 3))
    first = _Told(tmp_path, 0, cluster_plan="There are no staged changes")
    with pytest.raises(EngineError, match=r"no plan with riak2@.*, riak3@.*no staged changes"):
        settle(first)
    assert own_time.now == 1361.0
    moving = "valid     100.0%     34.4%    'riak1@10.1.2.3'"
    slow = _Told(
        tmp_path,
        0,
        cluster_plan=staged,
        cluster_commit="Cluster changes committed",
        member_status=moving,
    )
    with pytest.raises(EngineError, match=r"data0: the partitions did not all reach.*34\.4%"):
        settle(slow)
    assert own_time.now == 1961.5, "ten minutes for the partitions"
    commits = [words for words in slow.asked if words == ("cluster", "commit")]
    assert len(commits) == 1, "one plan for all"


def test_the_words_of_a_real_riak_are_understood(tmp_path):
    """Recorded on three nodes, from the joins to the last transfer."""
    output = {
        "wait-for-service": [recorded("wait-for-service right after the first pong")],
        "cluster_plan": [recorded("plan before the joins"), recorded("plan with all staged")],
        "cluster_commit": [recorded("commit")],
        "member-status": [
            recorded("member-status before the commit"),
            *all_recorded("member-status while partitions are on their way"),
            recorded("member-status of three nodes"),
        ],
        "ringready": [
            recorded("ringready with one of three nodes killed"),
            recorded("ringready of three nodes"),
        ],
    }
    message = _Told(tmp_path, 0)

    def run(command, _):
        words = command[2:]
        message.asked.append(tuple(words))
        records = output["_".join(words[:2]) if words[0] == "cluster" else words[0]]
        record = records.pop(0) if len(records) > 1 else records[0]
        assert record["exit_status"] == 0, "also where the words tell of an error"
        return str(record["stdout"])

    message.settling.run = run
    message.settling.node = replace(message.settling.node, address="127.0.0.1")
    endpoint = message.settling.node.peers[0]
    message.settling.endpoints = lambda _: tuple(
        replace(endpoint, address="127.0.0.1", index=index) for index in range(3)
    )
    own_time = FakeTime()
    Joiner(message.settling, clock=own_time.clock, sleep=own_time.sleep).settle()
    assert [len(records) for records in output.values()] == [1, 1, 1, 1, 1]
    verbs = [words[0] if words[0] != "cluster" else words[1] for words in message.asked]
    assert verbs[:4] == ["wait-for-service", "plan", "plan", "commit"]
    assert verbs[-3:] == ["ringready", "member-status", "ringready"]
