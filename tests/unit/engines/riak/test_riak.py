"""Riak as an engine: its open ports, and its nodes' joining, in recorded words."""

import logging
from dataclasses import replace

import pytest
from support.fake_time import FakeTime
from support.riak.recordings import all_recorded, recorded
from support.servers.nodes import make_node

from storewise.engines.contract.engine import Endpoint
from storewise.engines.contract.server import JoinContext, Topology
from storewise.engines.riak.cluster import Joiner
from storewise.engines.riak.engine import RiakEngine
from storewise.engines.riak.launch import PORTS
from storewise.errors import EngineError


def node_of(index=0, address="10.1.2.3"):
    node = make_node(RiakEngine(), f"data{index}", Topology(nodes=3, replicas=3), address=address)
    peer = Endpoint("data", 0, "here", address, 20999, node.ports)
    return replace(node, peers=tuple(replace(peer, index=k) for k in range(3)))


def test_whoever_reaches_a_port_rules_unless_a_cookie_guards_it():
    riak = RiakEngine()
    assert not riak.flags.authentication
    guards = riak.peer_guards(Endpoint("data", 0, "h", "a", 1, dict.fromkeys(PORTS, 2)))
    assert guards["http"] == "nothing" and "cookie" in guards["distribution"]


class _Told:
    """A node's job as far as `join` sees it, with commands that say what a test wants."""

    def __init__(self, index, address="10.1.2.3", **says):
        self.asked = []
        self.says = says
        self.context = JoinContext(
            node=node_of(index, address),
            endpoints=lambda _: self.context.node.peers,
            run=lambda command, seconds: self.run(tuple(command[2:])),
            raise_if_aborted=lambda: None,
            log=logging.getLogger("test"),
        )

    def run(self, words):
        """The next of the outputs of these words, or always their only one."""
        self.asked.append(words)
        name = "_".join(words[:2] if words[0] == "cluster" else words[:1]).replace("-", "_")
        output = self.says.get(name, "")
        if isinstance(output, list):
            output = output.pop(0) if len(output) > 1 else output[0]
        if output.startswith(("Node ", "Failed")):
            raise EngineError(f"data: riak ended with status 1; it says:\n{output}")
        return output

    def join(self, time):
        Joiner(self.context, clock=time.clock, sleep=time.sleep).join()


def test_a_join_that_cannot_succeed():
    for reason in ("different ring_creation_size", "already a member of a cluster"):
        told = _Told(1, cluster_join=f"Failed: this has a {reason}")
        with pytest.raises(EngineError, match=rf"data1: .*join riak1@10\.1\.2\.3 \({reason}"):
            RiakEngine().join(told.context)


def test_waiting_has_an_end_that_says_what_riak_said():
    own_time = FakeTime()
    joining = _Told(1, cluster_join="Node riak1@10.1.2.3 is not reachable!")
    with pytest.raises(EngineError, match=r"(?s)data1: its joining riak1@.* within.*not reachable"):
        joining.join(own_time)
    assert own_time.now == 1180.5, "looked at every half a second for three minutes"
    first = _Told(0, cluster_plan="There are no staged changes")
    with pytest.raises(EngineError, match=r"no plan with riak2@.*, riak3@.*no staged changes"):
        first.join(own_time)
    assert own_time.now == 1361.0
    slow = _Told(
        0,
        cluster_plan="\n".join(f"join           'riak{k}@10.1.2.3'" for k in (2, 3)),
        cluster_commit="Cluster changes committed",
        member_status="valid     100.0%     34.4%    'riak1@10.1.2.3'",
    )
    with pytest.raises(EngineError, match=r"data0: the partitions did not all reach.*34\.4%"):
        slow.join(own_time)
    assert own_time.now == 1961.5, "ten minutes for the partitions"
    assert slow.asked.count(("cluster", "commit")) == 1, "one plan for all"


def test_the_words_of_a_real_riak_are_understood():
    """Recorded on three nodes, from the joins to the last transfer."""
    said = {
        "wait_for_service": [recorded("wait-for-service right after the first pong")],
        "cluster_plan": [recorded("plan before the joins"), recorded("plan with all staged")],
        "cluster_commit": [recorded("commit")],
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
    # Riak's commands end so also where their words tell of an error.
    assert {record["exit_status"] for records in said.values() for record in records} == {0}
    texts = {name: [str(record["stdout"]) for record in said[name]] for name in said}
    message = _Told(0, "127.0.0.1", **texts)
    message.join(FakeTime())
    assert [len(left) for left in texts.values()] == [1, 1, 1, 1, 1]
    verbs = [words[0] if words[0] != "cluster" else words[1] for words in message.asked]
    assert verbs[:4] == ["wait-for-service", "plan", "plan", "commit"]
    assert verbs[-3:] == ["ringready", "member-status", "ringready"]
