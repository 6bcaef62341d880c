"""Valkey as an engine: what a server is given to start with, slots, tags, and what fits."""

import pytest

from storewise.documents import Field, Kind
from storewise.engines.contract.server import Content, Topology
from storewise.engines.valkey.cluster import SLOTS, slot_of, slots_of, tag_of
from storewise.engines.valkey.engine import ValkeyEngine
from storewise.errors import EngineError

ENGINE = ValkeyEngine()
KEYED = Kind("usertable", (Field("_id", "key", ""), Field("field0", "str", "")))


def test_keys_of_a_server_are_in_its_slots():
    # The example of the cluster specification.
    assert slot_of(b"123456789") == 0x31C3
    assert tag_of(0, 1) == b""
    for servers in (2, 3, 7, 100):
        spans = [slots_of(server, servers) for server in range(servers)]
        assert [first for first, _ in spans] == [0, *(last + 1 for _, last in spans[:-1])]
        assert spans[-1][1] == SLOTS - 1
        for server, (first, last) in enumerate(spans):
            assert first <= slot_of(tag_of(server, servers)[1:-1]) <= last


def test_what_does_not_fit_is_refused_with_the_figures():
    shape = Topology(nodes=2, memory_mb=1000)
    fits = {KEYED: Content(900_000, 1100.0), Kind.RNA: Content(10, 100.0)}
    ENGINE.check_room(shape, {}, fits)
    with pytest.raises(EngineError, match=r"1,000,010 documents.*2 nodes.*1,200 MB.*memory_share"):
        ENGINE.check_room(shape, {}, {**fits, KEYED: Content(1_000_000, 1100.0)})
    ENGINE.check_room(shape, {"memory_share": 0.9}, {KEYED: Content(1_000_000, 1100.0)})
    ENGINE.check_room(shape, {}, {})
