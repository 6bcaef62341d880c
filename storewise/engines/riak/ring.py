"""Which partition of Riak's ring a key falls to.

Riak hashes the Erlang term ``{Bucket, Key}`` in its external format with SHA-1 into a ring of
2^160, cut into `ring_size` equal partitions; a key belongs to the partition that begins next
behind its hash (chash:key_of, chash:next_index and riak_core_util:chash_std_keyfun; DeCandia et
al., Dynamo, SOSP 2007, section 4.2). Format of terms:
https://www.erlang.org/doc/apps/erts/erl_ext_dist.html
"""

from __future__ import annotations

from hashlib import sha1

_BITS = 160
_VERSION, _SMALL_TUPLE, _BINARY = 131, 104, 109
#: What Riak takes for the number of partitions.
LEAST_RING, MOST_RING = 8, 1024
#: Partitions of a node at least: enough that nodes differ by little in what they hold.
_EACH = 8


def external_term(bucket: bytes, key: bytes) -> bytes:
    """``term_to_binary({Bucket, Key})`` of two binaries."""
    binaries = (bytes((_BINARY,)) + len(part).to_bytes(4, "big") + part for part in (bucket, key))
    return bytes((_VERSION, _SMALL_TUPLE, 2)) + b"".join(binaries)


def hash_of(bucket: bytes, key: bytes) -> int:
    """Place of a key on the ring, from 0 to 2^160 - 1."""
    return int.from_bytes(sha1(external_term(bucket, key), usedforsecurity=False).digest(), "big")


def partition_of(bucket: bytes, key: bytes, ring_size: int) -> int:
    """Number of the first partition of a key's preference list, from 0."""
    return (hash_of(bucket, key) // ((1 << _BITS) // ring_size) + 1) % ring_size


def default_ring_size(nodes: int) -> int:
    """A power of two with eight partitions or more for each node, from 16."""
    size = 2 * LEAST_RING
    while size < _EACH * nodes and size < MOST_RING:
        size *= 2
    return size
