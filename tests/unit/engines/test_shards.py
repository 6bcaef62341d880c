"""Shards that the client makes: their shapes, and how ids are spread over them."""

from collections import Counter

import pytest

from storewise.documents import KINDS, make_id
from storewise.engines.contract.engine import HashPlacement
from storewise.engines.contract.server import Topology
from storewise.engines.registry import engine


@pytest.mark.parametrize("name", ["mariadb", "postgres"])
def test_shards_are_nodes_of_their_own(name):
    specs = engine(name).roles(Topology(nodes=3, threads=2, memory_mb=512), {})
    result = [(s.name, s.threads, s.memory_mb) for s in specs]
    assert result == [("data0", 2, 512), ("data1", 2, 512), ("data2", 2, 512)]


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
