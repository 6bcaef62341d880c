"""Riak's nodes become one cluster, in recorded words."""

from dataclasses import replace
from pathlib import Path

from support.riak.recordings import all_recorded, recorded
from support.servers.nodes import make_node

from storewise.engines.contract.engine import Endpoint
from storewise.engines.contract.server import ClusterContext, Installation, Topology
from storewise.engines.registry import engine
from storewise.engines.riak.cluster import join
from storewise.errors import EngineError

RELEASE = {"riak": Path("/r/bin/riak"), "escript": Path("/r/erts-1/bin/escript")}


def join_with(answers, index=0):
    """Join as node `index` of three; each command gives its next answer, or always its last one.
    Returns the commands."""
    node = make_node(
        engine("riak"),
        f"data{index}",
        Topology(nodes=3, replicas=3),
        address="127.0.0.1",
        installation=Installation(RELEASE, "Riak KV 3.2.3"),
    )
    peer = Endpoint("data", 0, "here", "127.0.0.1", 20999, node.ports)
    peers = tuple(replace(peer, index=k) for k in range(3))
    asked = []

    def run(command, seconds):
        assert command[:2] == ("/r/erts-1/bin/escript", "/r/bin/nodetool")
        assert command[2:5] == ("-name", f"riak{index + 1}@127.0.0.1", "rpc")
        asked.append(command[6:])
        given = answers[command[6]]
        record = given.pop(0) if len(given) > 1 else given[0]
        if record["exit_status"]:
            raise EngineError(record["stdout"])
        return record["stdout"]

    shared = (node.topology, node.settings, node.consistency, node.credentials)
    context = ClusterContext(*shared, lambda _: peers, lambda: None)
    join(node, context, run, sleep=lambda _: None)
    return asked


def test_a_join():
    away = recorded("join a node that is not there")
    answers = {"staged_join": [away, {**away, "exit_status": 1}, recorded("join")]}
    assert join_with(answers, index=1) == [("staged_join", '[["riak1@127.0.0.1"]]')] * 3


def test_the_first_node_makes_one_cluster_of_all():
    """Recorded on three nodes, from the joins to the last transfer."""
    answers = {
        "print_staged": [recorded("plan before the joins"), recorded("plan with all staged")],
        "commit_staged": [recorded("commit")],
        "member_status": [
            recorded("member-status before the commit"),
            *all_recorded("member-status while partitions are on their way"),
            recorded("member-status of three nodes"),
        ],
        "ringready": [
            recorded("ringready with one of three nodes killed"),
            recorded("ringready of three nodes"),
        ],
    }
    asked = [function for function, _ in join_with(answers)]
    assert [len(left) for left in answers.values()] == [1, 1, 1, 1]
    assert asked[:3] == ["print_staged", "print_staged", "commit_staged"], "one plan for all"
    assert asked[-3:] == ["ringready", "member_status", "ringready"]
