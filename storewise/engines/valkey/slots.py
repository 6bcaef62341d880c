"""Which server of a cluster holds a document: hash slots and the tags of keys.

A cluster has 16,384 hash slots, each on one server. A key's slot is the CRC-16 of the key, or of
the text in braces in it (https://valkey.io/topics/cluster-spec/). Commands of several keys, and
transactions, must have all keys in one slot. So each server has a tag, which the keys of all its
documents begin with: a batch is one transaction on each server, and a document and its place in
the order of ids are never apart. The server of a document is that of its id's hash
(`HashPlacement`).
"""

from __future__ import annotations

from binascii import crc_hqx
from functools import lru_cache
from itertools import count

SLOTS = 1 << 14


def slot_of(text: bytes) -> int:
    """The slot of a key, or of the text in its braces."""
    return crc_hqx(text, 0) % SLOTS


def slots_of(server: int, servers: int) -> tuple[int, int]:
    """The first and the last slot of a server of so many."""
    return server * SLOTS // servers, (server + 1) * SLOTS // servers - 1


@lru_cache
def tag_of(server: int, servers: int) -> bytes:
    """What the keys on a server begin with; nothing where it is alone."""
    if servers == 1:
        return b""
    first, last = slots_of(server, servers)
    number = next(n for n in count() if first <= slot_of(b"%d" % n) <= last)
    return b"{%d}" % number
