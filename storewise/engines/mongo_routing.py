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

from storewise.documents import ID_BYTES

_SEED = 0
#: The canonical type of an ObjectId among BSON's types, by which MongoDB orders and hashes.
_CANONICAL_OBJECT_ID = 35


def hashed_id(document_id: bytes) -> int:
    """The value under which a hashed index keeps an ObjectId of these 12 bytes."""
    digest = hashlib.md5(
        struct.pack("<ii", _SEED, _CANONICAL_OBJECT_ID) + document_id, usedforsecurity=False
    ).digest()
    return int.from_bytes(digest[:8], "little", signed=True)


def split_ids(parts: int) -> list[bytes]:
    """The `parts` - 1 ids that cut the space of ids into equal ranges.

    Ids begin with a digest, so equal ranges hold about equal numbers of files.
    """
    whole = 1 << 32
    return [
        (number * whole // parts).to_bytes(4, "big") + bytes(ID_BYTES - 4)
        for number in range(1, parts)
    ]


@dataclass(frozen=True, slots=True)
class RoutingTable:
    """The chunks of one collection that is sharded on ``_id``."""

    hashed: bool
    bounds: tuple[Any, ...]
    """Lower bounds of all chunks but the first, ascending: ints if hashed, else 12 bytes."""
    shards: tuple[str, ...]
    """Names of the shards that hold the chunks."""

    @classmethod
    def of_chunks(cls, chunks: Sequence[dict[str, Any]], *, hashed: bool) -> RoutingTable:
        """From the documents of ``config.chunks``, in the order of their lower bounds.

        Raises ValueError for a table that does not cover the whole key space.
        """
        if not chunks or not isinstance(chunks[0]["min"]["_id"], MinKey):
            raise ValueError("the routing table does not begin at the lowest key")
        if not isinstance(chunks[-1]["max"]["_id"], MaxKey):
            raise ValueError("the routing table does not end at the highest key")
        bounds = tuple(_plain(chunk["min"]["_id"]) for chunk in chunks[1:])
        return cls(hashed, bounds, tuple(chunk["shard"] for chunk in chunks))

    def shard_of(self, document_id: bytes) -> str:
        """The name of the shard that holds an id."""
        key = hashed_id(document_id) if self.hashed else document_id
        return self.shards[bisect_right(self.bounds, key)]


def _plain(bound: Any) -> Any:
    return bound.binary if isinstance(bound, ObjectId) else bound
