"""Riak's frames and ring: published bytes, bytes of a real Erlang, and properties."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.riak.standin import hash_of, pack, unpack

from storewise.engines.riak import protocol as pb
from storewise.engines.riak import ring
from storewise.errors import EngineError

#: The example of "PBC Fetch Object" in Riak's documentation.
FETCH = bytes.fromhex("00 00 00 07 09 0A 01 62 12 01 6B")
FETCHED = bytes.fromhex(
    "00 00 00 4A 0A 0A 26 0A 02 76 32 2A 16 33 53 44 6C 66 34 49 4E 4B 7A 38 68 4E 64 68 79 49 6D"
    "4B 49 72 75 38 BB D7 A2 DE 04 40 E0 B9 06 12 1F 6B CE 61 60 60 60 CC 60 CA 05 52 2C AC C2 5B"
    "3F 65 30 25 32 E5 B1 32 EC 56 B7 3D CA 97 05 00"
)
VALUES = st.integers(0, 2**64 - 1) | st.binary(max_size=300)
FIELDS = st.lists(st.tuples(st.integers(1, 2**20), VALUES), max_size=8)


def test_published_frames():
    assert pb.get_request(b"b", b"k") == FETCH
    result = pb.read_get(FETCHED[5:])
    assert result is not None and result.values == (b"v2",)
    assert result.vclock is not None and result.vclock == FETCHED[-31:]
    assert pb.frame(pb.PING) == bytes.fromhex("00 00 00 01 01")
    assert pb.frame(pb.SERVER_INFO) == bytes.fromhex("00 00 00 01 07")
    # "4294967295-1", "-2", "-3" there.
    assert pb.QUORUMS == {"one": 4294967294, "quorum": 4294967293, "all": 4294967292}


def test_put_and_delete_name_their_fields():
    body = pb.put_request(b"rna", b"\x01" * 12, b"{}", w=2, dw=1, vclock=b"v")
    assert body[4] == pb.PUT and int.from_bytes(body[:4], "big") == len(body) - 4
    fields = unpack(body[5:])
    assert unpack(fields.pop(4)) == {1: b"{}", 2: b"application/json"}
    assert fields == {1: b"rna", 2: b"\x01" * 12, 3: b"v", 5: 2, 6: 1}
    gone = pb.delete_request(b"rna", b"k", vclock=b"v", r=1, w=2, dw=3)
    assert unpack(gone[5:]) == {1: b"rna", 2: b"k", 4: b"v", 5: 1, 6: 2, 9: 3}
    assert unpack(pb.get_request(b"b", b"k", r=2, head=True)[5:]) == {1: b"b", 2: b"k", 3: 2, 8: 1}


def test_answers():
    assert pb.read_get(b"") is None
    tombstone = pack((1, pack((1, b""), (11, 1))), (2, b"v"))
    assert pb.read_get(tombstone) is None
    siblings = pb.read_get(pack((1, pack((1, b"a"))), (1, pack((1, b"b")))))
    assert siblings is not None and siblings.values == (b"a", b"b")
    assert pb.read_error(pack((1, b"overload"), (2, 0))) == "overload"
    assert pb.read_error(b"") == "an error without words"
    assert pb.read_server_info(pack((1, b"riak1@h"), (2, b"3.2.2"))) == ("riak1@h", "3.2.2")
    item = pack((1, 5), (2, b"riak1@h"), (3, 1))
    assert pb.read_preference(pack((1, item))) == [pb.Holder(5, "riak1@h", True)]
    with pytest.raises(pb.Malformed, match="lacks 3"):
        pb.read_preference(pack((1, pack((1, 5), (2, b"n")))))
    with pytest.raises(pb.Malformed, match="is a number"):
        pb.read_get(pack((1, 7)))


@given(FIELDS)
def test_a_message_comes_back(fields):
    data = pb.message(*fields)
    assert data == pack(*fields)
    assert list(pb.fields(data)) == fields


@given(FIELDS, st.data())
def test_a_message_that_is_cut_is_an_error_or_shorter(fields, data):
    whole = pb.message(*fields)
    cut = whole[: data.draw(st.integers(0, len(whole)))]
    try:
        result = list(pb.fields(cut))
    except pb.Malformed:
        return
    assert result == fields[: len(result)] and pb.message(*result) == cut


@given(st.binary(max_size=200))
def test_no_bytes_are_worse_than_an_error(data):
    for read in (pb.read_get, pb.read_error, pb.read_server_info, pb.read_preference):
        try:
            read(data)
        except (EngineError, UnicodeDecodeError) as error:
            assert isinstance(error, pb.Malformed), error


def test_fields_of_fixed_width_are_skipped_over_and_groups_refused():
    data = b"\x19" + b"8" * 8 + b"\x25" + b"4" * 4 + b"\x28\x01"
    assert list(pb.fields(data)) == [(3, b"8" * 8), (4, b"4" * 4), (5, 1)]
    for wrong, words in (
        (b"\x0b", "unknown type 3"),
        (b"\x02\x00", "without a number"),
        (b"\x08" + b"\xff" * 10, "64 bits"),
        (b"\x08" + b"\xff" * 9 + b"\x7f", "64 bits"),
        (b"\x08\x80", "within a number"),
        (b"\x0a\x05ab", "within field 1"),
    ):
        with pytest.raises(pb.Malformed, match=words):
            list(pb.fields(wrong))


def test_terms_as_erlang_writes_them():
    """Bytes of term_to_binary in Erlang/OTP 25."""
    assert ring.external_term(b"rna", b"\x01\x02\x03") == bytes(
        [131, 104, 2, 109, 0, 0, 0, 3, 114, 110, 97, 109, 0, 0, 0, 3, 1, 2, 3]
    )


@given(st.binary(max_size=20), st.binary(min_size=1, max_size=20))
def test_the_partition_begins_next_behind_the_hash(bucket, key):
    place = hash_of(bucket, key)
    assert ring.hash_of(bucket, key) == place
    for size in (8, 16, 64, 1024):
        begins = ring.partition_of(bucket, key, size) * (2**160 // size)
        distance = (begins - place) % 2**160
        assert 0 < distance <= 2**160 // size


def test_the_ring_grows_with_the_nodes():
    sizes = {n: ring.default_ring_size(n) for n in (1, 2, 3, 4, 5, 8, 9, 200)}
    assert sizes == {1: 16, 2: 16, 3: 32, 4: 32, 5: 64, 8: 64, 9: 128, 200: 1024}
