"""Shards that the client makes: their shapes, and how ids are spread over them."""

from collections import Counter

import pytest

from storewise.documents import KINDS, make_id
from storewise.engines.contract.engine import HashPlacement
from storewise.engines.contract.server import Topology
from storewise.engines.registry import engine
from storewise.errors import EngineError


@pytest.mark.parametrize("name", ["mariadb", "postgres"])
def test_shapes_that_shards_cannot_have_are_refused(name):
    described = engine(name)
    for shape, word in (
        (Topology(nodes=0), "nodes"),
        (Topology(replicas=2), "replicas"),
        (Topology(routers=1), "routers"),
    ):
        with pytest.raises(EngineError, match=word):
            described.roles(shape, {})
    assert [s.name for s in described.roles(Topology(nodes=3), {})] == ["data0", "data1", "data2"]


@pytest.mark.parametrize("servers", [2, 3, 4, 7, 8, 16])
def test_the_hash_spreads_consecutive_ids_evenly(servers):
    placement = HashPlacement(servers)
    number = 16_000
    for kind in KINDS:
        result = Counter(
            placement.store_of(make_id(b"\x01\x5a\xff\x33\x00\x80\x07", kind, n))
            for n in range(number)
        )
        assert len(result) == servers
        assert max(result.values()) < 1.1 * number / servers
    # A known answer: stored data depend on them.
    assert HashPlacement(servers).store_of(bytes(range(12))) == 0x9270C965 % servers
