"""Valkey's slots, and the tags that put keys into them."""

from storewise.engines.valkey.cluster import SLOTS, slot_of, slots_of, tags_of


def test_keys_of_a_server_are_in_its_slots():
    # The example of the cluster specification.
    assert slot_of(b"123456789") == 0x31C3
    assert tags_of(1) == [b""]
    for servers in (2, 3, 7, 100):
        spans = [slots_of(server, servers) for server in range(servers)]
        assert [first for first, _ in spans] == [0, *(last + 1 for _, last in spans[:-1])]
        assert spans[-1][1] == SLOTS - 1
        for tag, (first, last) in zip(tags_of(servers), spans, strict=True):
            assert first <= slot_of(tag[1:-1]) <= last
