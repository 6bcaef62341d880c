"""Riak's messages and ring: published bytes, bytes of a real Erlang."""

import hashlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from storewise.engines.riak import ring
from storewise.engines.riak.messages import ALL, HEADER, QUORUM, frame, pb

#: The example of "PBC Fetch Object" in Riak's documentation.
FETCHED = bytes.fromhex(
    "00 00 00 4A 0A 0A 26 0A 02 76 32 2A 16 33 53 44 6C 66 34 49 4E 4B 7A 38 68 4E 64 68 79 49 6D"
    "4B 49 72 75 38 BB D7 A2 DE 04 40 E0 B9 06 12 1F 6B CE 61 60 60 60 CC 60 CA 05 52 2C AC C2 5B"
    "3F 65 30 25 32 E5 B1 32 EC 56 B7 3D CA 97 05 00"
)
QUORUM_BYTES = "fd ff ff ff 0f"


@pytest.mark.parametrize(
    ("message", "sent"),
    [
        (pb.RpbPingReq(), "00 00 00 01 01"),
        (pb.RpbGetReq(bucket=b"b", key=b"k"), "00 00 00 07 09 0A 01 62 12 01 6B"),
        (
            pb.RpbGetReq(bucket=b"b", key=b"k", r=QUORUM, pr=1, head=True),
            f"00 00 00 11 09 0A 01 62 12 01 6B 18 {QUORUM_BYTES} 20 01 40 01",
        ),
        (
            pb.RpbPutReq(
                bucket=b"b",
                key=b"k",
                vclock=b"v",
                content=pb.RpbContent(value=b"{}", content_type=b"j"),
                w=1,
                dw=QUORUM,
            ),
            "00 00 00 1B 0B 0A 01 62 12 01 6B 1A 01 76 22 07 0A 02 7B 7D 12 01 6A "
            f"28 01 30 {QUORUM_BYTES}",
        ),
        (
            pb.RpbDelReq(bucket=b"b", key=b"k", vclock=b"v"),
            "00 00 00 0A 0D 0A 01 62 12 01 6B 22 01 76",
        ),
        (
            pb.RpbGetBucketKeyPreflistReq(bucket=b"b", key=b"k"),
            "00 00 00 07 21 0A 01 62 12 01 6B",
        ),
    ],
)
def test_frames_as_they_are_sent(message, sent):
    assert frame(message) == bytes.fromhex(sent)


def test_answers():
    length, code = HEADER.unpack(FETCHED[:5])
    assert length == len(FETCHED) - 4 and code == 10
    found = pb.RpbGetResp.FromString(FETCHED[5:])
    assert [content.value for content in found.content] == [b"v2"]
    assert found.vclock == FETCHED[-31:]
    tombstone = pb.RpbGetResp.FromString(bytes.fromhex("0a 04 0a 00 58 01"))
    assert tombstone.content[0].deleted
    assert pb.RpbErrorResp.FromString(b"\x0a\x08overload\x10\x00").errmsg == b"overload"
    (holder,) = pb.RpbGetBucketKeyPreflistResp.FromString(
        bytes.fromhex("0a 07 08 05 12 01 6e 18 01")
    ).preflist
    assert (holder.partition, holder.node, holder.primary) == (5, b"n", True)
    # "4294967295-2", "-3" in the documentation.
    assert (QUORUM, ALL) == (4294967293, 4294967292)


@given(st.binary(max_size=20), st.binary(min_size=1, max_size=20))
def test_the_partition_begins_next_behind_the_hash(bucket, key):
    # As term_to_binary in Erlang/OTP 25: term_to_binary({<<"rna">>, <<1, 2, 3>>}) is
    # 131, 104, 2, 109, 0, 0, 0, 3, 114, 110, 97, 109, 0, 0, 0, 3, 1, 2, 3.
    sizes = [len(part).to_bytes(4, "big") for part in (bucket, key)]
    term = bytes([131, 104, 2, 109]) + sizes[0] + bucket + bytes([109]) + sizes[1] + key
    place = int(hashlib.sha1(term).hexdigest(), 16)
    for size in (16, 64, 1024):
        begins = ring.partition_of(bucket, key, size) * (2**160 // size)
        distance = (begins - place) % 2**160
        assert 0 < distance <= 2**160 // size


def test_the_ring_grows_with_the_nodes():
    sizes = {n: ring.ring_size(n) for n in (1, 2, 3, 4, 5, 8, 9, 200)}
    assert sizes == {1: 16, 2: 16, 3: 32, 4: 32, 5: 64, 8: 64, 9: 128, 200: 1024}
