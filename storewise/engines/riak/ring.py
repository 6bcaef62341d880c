"""Names of nodes, and which partition of Riak's ring a key falls to.

Riak hashes the Erlang term ``{Bucket, Key}`` in its external format with SHA-1 into a ring of
2^160, cut into equal partitions; a key belongs to the partition with the next index after its hash
(chash:key_of, chash:next_index and riak_core_util:chash_std_keyfun; DeCandia et al., Dynamo, SOSP
2007, section 4.2). Format of terms: https://www.erlang.org/doc/apps/erts/erl_ext_dist.html
"""

from __future__ import annotations

from hashlib import sha1

from storewise.engines.contract.engine import Endpoint


def node_name(endpoint: Endpoint) -> str:
    """The name of the Erlang node at an endpoint, as in riak.conf.j2."""
    return f"riak{endpoint.index + 1}@{endpoint.address}"


def partition_of(bucket: bytes, key: bytes, ring_size: int) -> int:
    """Number of the first partition of a key's preference list, from 0."""
    term = b"\x83h\x02" + b"".join(b"m" + len(x).to_bytes(4, "big") + x for x in (bucket, key))
    place = int.from_bytes(sha1(term, usedforsecurity=False).digest(), "big")
    return (place // ((1 << 160) // ring_size) + 1) % ring_size


def ring_size(nodes: int) -> int:
    """Partitions of the ring: the power of two that gives each node eight or more, from 16 to
    Riak's limit of 1,024."""
    return min(1024, max(16, 1 << (8 * nodes - 1).bit_length()))
