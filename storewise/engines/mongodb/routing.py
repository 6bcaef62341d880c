"""Where MongoDB keeps a document: hashed keys, split points, the routing table.

The hash is that of MongoDB's hashed indexes: MD5 over a 32-bit seed (0), the value's canonical
type as 32 bits, and the value; its first 8 bytes are a little-endian signed integer. Verified
against the server in the tests. The table is ``config.chunks``, as mongos itself reads it:
https://www.mongodb.com/docs/manual/reference/config-database/
"""

from __future__ import annotations

import hashlib
import struct
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from bson.max_key import MaxKey
from bson.min_key import MinKey
from bson.objectid import ObjectId

_SEED = 0
#: Canonical types among BSON's types, by which MongoDB orders and hashes.
_CANONICAL_STRING, _CANONICAL_OBJECT_ID = 15, 35


def hashed_id(document_id: bytes) -> int:
    """The value under which a hashed index keeps an ObjectId of these 12 bytes."""
    return _hashed(_CANONICAL_OBJECT_ID, document_id)


def hashed_text(key: bytes) -> int:
    """The value under which a hashed index keeps a string, given as UTF-8."""
    return _hashed(_CANONICAL_STRING, struct.pack("<i", len(key) + 1) + key + b"\0")


def _hashed(canonical: int, value: bytes) -> int:
    digest = hashlib.md5(
        struct.pack("<ii", _SEED, canonical) + value, usedforsecurity=False
    ).digest()
    return int.from_bytes(digest[:8], "little", signed=True)


@dataclass(frozen=True, slots=True)
class RoutingTable:
    """The chunks of one collection that is sharded on ``_id``."""

    hashed: bool
    bounds: tuple[Any, ...]
    """Lower bounds of all chunks but the first, ascending: ints if hashed, else ids."""
    shards: tuple[str, ...]
    """Names of the shards that hold the chunks."""
    text: bool = False
    """Ids are kept as strings."""

    @classmethod
    def of_chunks(
        cls, chunks: Sequence[dict[str, Any]], *, hashed: bool, text: bool = False
    ) -> RoutingTable:
        """From the documents of ``config.chunks``, in the order of their lower bounds.

        Raises ValueError for a table that does not cover the whole key space.
        """
        if not chunks or not isinstance(chunks[0]["min"]["_id"], MinKey):
            raise ValueError("the routing table does not begin at the lowest key")
        if not isinstance(chunks[-1]["max"]["_id"], MaxKey):
            raise ValueError("the routing table does not end at the highest key")
        bounds = tuple(_plain(chunk["min"]["_id"]) for chunk in chunks[1:])
        return cls(hashed, bounds, tuple(chunk["shard"] for chunk in chunks), text)

    def shard_of(self, document_id: bytes) -> str:
        """The name of the shard that holds an id."""
        key: Any = document_id
        if self.hashed:
            key = hashed_text(key) if self.text else hashed_id(key)
        return self.shards[bisect_right(self.bounds, key)]


def _plain(bound: Any) -> Any:
    if isinstance(bound, str):
        return bound.encode()
    return bound.binary if isinstance(bound, ObjectId) else bound
