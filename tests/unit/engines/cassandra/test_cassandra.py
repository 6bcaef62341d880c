"""Cassandra: nodes, options, the ring's parts and requests that are sent again; no server."""

import json
from types import SimpleNamespace

import pytest
from cassandra import WriteTimeout
from support.fake_time import FakeTime
from support.servers.cassandra import ENGINE, RING, node_of

from storewise.documents import Kind
from storewise.engines.cassandra.client import CassandraClient, bounds
from storewise.engines.cassandra.launch import initial_token
from storewise.engines.contract.server import Credentials, Topology
from storewise.engines.support.table import make_table
from storewise.errors import EngineError


def values_of(launch):
    return json.loads(launch.files["cassandra.yaml"])


def test_nodes_of_a_topology():
    specs = ENGINE.roles(Topology(nodes=3, replicas=2, memory_mb=700, threads=2), {})
    assert {(s.meets, s.ports, s.memory_mb, s.threads) for s in specs} == {
        (("data",), ("gossip",), 700, 2)
    }
    (alone,) = ENGINE.roles(Topology(), {})
    assert alone.meets == ()
    assert ENGINE.open_ports(alone, Topology(), {}) == {}
    assert "gossip" in ENGINE.open_ports(specs[0], Topology(nodes=3), {})


@pytest.mark.parametrize("network", [False, True])
def test_a_launch_hides_its_secrets_and_listens_on_one_address(network):
    for index in range(RING):
        node = node_of(index, network=network)
        launch = ENGINE.launch(node)
        values = values_of(launch)
        message = repr((launch.command, launch.environment, launch.steps))
        assert node.credentials.password not in message and node.credentials.key not in message
        assert values["listen_address"] == values["rpc_address"] == node.address
        assert values["authenticator"] == "PasswordAuthenticator"
        assert values["authorizer"] == "CassandraAuthorizer"
        assert "remote.port" not in message and "cassandra.jmx" not in message
        seeds = values["seed_provider"][0]["parameters"][0]["seeds"]
        assert seeds.split(",") == [f"{p.address}:{p.ports['gossip']}" for p in node.peers]
        # The role whose password everybody knows: only where nobody else can log in.
        (delay,) = (w for w in launch.command if "superuser_setup_delay_ms" in w)
        assert int(delay.split("=")[1]) > 10**11
        assert bool(launch.steps) == (index == 0)
        if launch.steps:
            first = json.loads(launch.files["first.json"])
            assert "-Dcassandra.superuser_setup_delay_ms=200" in first["command"]
            assert first["closed"]["require_client_auth"] is True


def test_a_node_alone_gossips_with_nobody():
    for network in (False, True):
        node = node_of(nodes=1, network=network)
        assert values_of(ENGINE.launch(node))["listen_address"] == "127.0.0.1"
    with pytest.raises(EngineError, match="addresses of all 3 nodes"):
        ENGINE.launch(node_of(peers=()))


def test_sessions_of_one_name_are_two_clusters():
    """A node that finds another session's at a port that was its peer's does not join it."""
    secrets = [Credentials.make(), Credentials.make()]
    names = [
        {values_of(ENGINE.launch(node_of(k, credentials=mine)))["cluster_name"] for k in range(3)}
        for mine in secrets
    ]
    assert [len(result) for result in names] == [1, 1]
    assert names[0] != names[1]
    assert not any(secrets[0].key[:8] in name for name in names[0])


def test_options_by_level_and_memory():
    modes = {
        level: values_of(ENGINE.launch(node_of(consistency=level)))["commitlog_sync"]
        for level in ENGINE.consistencies
    }
    assert modes.pop("durable") == "batch"
    assert set(modes.values()) == {"periodic"}
    small = ENGINE.launch(node_of(settings={"heap_share": 0.25, "jvm_options": ["-XX:+UseZGC"]}))
    assert {"-Xmx512M", "-Xms512M", "-XX:+UseZGC"} <= set(small.command)
    more = ENGINE.launch(node_of(settings={"config": {"concurrent_writes": 64}}))
    assert values_of(more)["concurrent_writes"] == 64


def test_the_ring_has_equal_parts():
    for nodes in (1, 2, 3, 7):
        tokens = sorted(initial_token(node_of(k, nodes)) for k in range(nodes))
        assert len(set(tokens)) == nodes
        assert tokens[0] >= -(2**63) and tokens[-1] < 2**63
        parts = [
            (b - a) % 2**64 or 2**64 for a, b in zip(tokens, [*tokens[1:], tokens[0]], strict=True)
        ]
        assert max(parts) - min(parts) <= nodes


def test_bounds_are_those_of_the_server():
    columns = make_table(Kind.ALIGN, study_fields=False)
    score, z, gene = (columns.column(name) for name in ("s_w", "z", "gene"))
    assert bounds(score, 1.5, 3.5) == [(">=", 2), ("<=", 3)]
    assert bounds(score, 1.2, 1.8) is None
    assert bounds(score, None, 1e300) == [(">=", -(2**63)), ("<=", 2**63 - 1)]
    assert bounds(z, 0.0, None) == [(">=", 0.0), ("<=", float("inf"))]
    assert str(bounds(z, 0.0, -0.0)) == "[('>=', -0.0), ('<=', 0.0)]"
    assert bounds(gene, "A", "A") == [("=", "A")]
    assert bounds(gene, "A", None) == [(">=", "A")]
    assert bounds(gene, None, None) == []


def test_a_request_that_the_server_gave_up_twice_is_sent_again():
    """After the server's own limit, as where its disk hesitates."""
    own_time = FakeTime()
    answers = iter([*[WriteTimeout("10 s are over", write_type=0)] * 2, None])

    def ask():
        own_time.spend(10.0)
        if error := next(answers):
            raise error
        return "written"

    shared = SimpleNamespace(closed=False, endpoints=())
    client = CassandraClient(shared, clock=own_time.clock, sleep=own_time.sleep)
    assert client._try("insert", ask) == "written"
    assert own_time.sleeps == [0.25, 0.25]
