"""Cassandra: single documents of a server alone, with and without the driver."""

from contextlib import closing
from dataclasses import replace

import pytest
from support.servers.cassandra import ENGINE
from support.servers.samples import fill, sample
from support.servers.stores import Target

from storewise.documents import Kind
from storewise.errors import EngineError


@pytest.mark.xdist_group("cassandra")
@pytest.mark.slow
@pytest.mark.parametrize("direct", [True, False])
def test_single_documents_come_the_same_with_and_without_the_driver(clusters, direct):
    cluster = clusters.fresh(Target("cassandra", 1))
    fill(cluster, {})
    cluster = replace(cluster, settings={**cluster.settings, "direct": direct})
    with closing(ENGINE.connect(cluster, "write")) as client:
        first, second, third = sample(70, 3)[Kind.GS]
        # More than one read of a socket brings.
        second = {**second, "s": "ACGT" * 100_000, "seqid": "grün \0", "b": None}
        client.insert(Kind.GS, [first, second, third])
        for changes in ({"b": -5}, {"b": None}, {"s": "TGCA" * 100_000, "b": 2**40}, {"s": ""}):
            assert client.update(Kind.GS, second["_id"], changes)
            second = {**second, **changes}
            assert client.get(Kind.GS, second["_id"]) == second
        assert client.delete(Kind.GS, first["_id"])
        assert client.get(Kind.GS, first["_id"]) is None
        with pytest.raises(EngineError, match=r"cassandra: bind: .*column \"b\""):
            client.update(Kind.GS, third["_id"], {"b": 2**63})
        assert client.get(Kind.GS, third["_id"]) == third
