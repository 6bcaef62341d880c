"""Cassandra: nodes, the ring's parts and requests that are sent again, without a server."""

import pytest
from cassandra import WriteTimeout
from support.fake_time import FakeTime
from support.servers.nodes import make_node

from storewise.documents import Kind
from storewise.engines.cassandra.client import bounds
from storewise.engines.cassandra.connection import retried
from storewise.engines.cassandra.engine import CassandraEngine
from storewise.engines.cassandra.launch import initial_token
from storewise.engines.contract.server import Topology
from storewise.engines.support.table import make_table

ENGINE = CassandraEngine()


def test_the_ring_has_equal_parts():
    for nodes in (1, 2, 3, 7):
        tokens = sorted(
            initial_token(make_node(ENGINE, f"data{k}", Topology(nodes=nodes)))
            for k in range(nodes)
        )
        assert len(set(tokens)) == nodes
        assert tokens[0] >= -(2**63) and tokens[-1] < 2**63
        parts = [
            (b - a) % 2**64 or 2**64 for a, b in zip(tokens, [*tokens[1:], tokens[0]], strict=True)
        ]
        assert max(parts) - min(parts) <= nodes


def test_bounds_are_those_of_the_server():
    columns = make_table(Kind.ALIGN, study_fields=False)
    score, z, gene = (columns.column(name) for name in ("s_w", "z", "gene"))
    assert bounds(score, ">", 2) == [(">", 2)]
    assert bounds(gene, "=", "A") == [("=", "A")]
    assert str(bounds(z, "=", 0.0)) == "[('>=', -0.0), ('<=', 0.0)]"
    assert str(bounds(z, ">=", 0.0)) == "[('>=', -0.0), ('<=', inf)]"
    assert str(bounds(z, ">", -0.0)) == "[('>', 0.0), ('<=', inf)]"
    assert str(bounds(z, "<", 0.0)) == "[('<', -0.0)]"
    assert str(bounds(z, "<=", -0.0)) == "[('<=', 0.0)]"


def test_a_request_that_the_server_gave_up_twice_is_sent_again():
    """After the server's own limit, as where its disk hesitates; not for longer than the limit."""
    own_time, errors = FakeTime(), [None]

    def ask():
        own_time.spend(10.0)
        if error := errors.pop():
            raise error
        return "written"

    slow = WriteTimeout("10 s are over", write_type=0)
    errors += [slow] * 2
    assert retried(ask, own_time.clock, own_time.sleep) == "written"
    assert own_time.sleeps == [0.25, 0.25]
    errors += [slow] * 9
    with pytest.raises(WriteTimeout):
        retried(ask, own_time.clock, own_time.sleep)
    assert len(errors) == 5
