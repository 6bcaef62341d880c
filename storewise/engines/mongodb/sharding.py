"""Sharding empty collections of MongoDB, so that a load finds its chunks spread already; which
node holds a document."""

from __future__ import annotations

import hashlib
import struct
from bisect import bisect_right

from bson.objectid import ObjectId

from storewise.documents import Kind
from storewise.engines.mongodb.connection import DATABASE, Connection
from storewise.engines.mongodb.settings import MongoSettings
from storewise.errors import EngineError

#: What MongoDB's hash puts before a value: a seed, and the value's type in the order of types.
_SEED = 0
_STRING, _OBJECT_ID = 15, 35


def key_field(kind: Kind, settings: MongoSettings) -> str:
    """The shard key of a collection: the study's field where its documents have it."""
    names = {field.name for field in kind.fields}
    return settings.shard_key_field if settings.shard_key_field in names else "_id"


def check_key_field(settings: MongoSettings, kinds: tuple[Kind, ...]) -> None:
    """EngineError where no document of these kinds has the shard key."""
    known = sorted({field.name for kind in kinds for field in kind.fields})
    if settings.shard_key_field not in known:
        raise EngineError(
            f"setting shard_key_field: no document has a field {settings.shard_key_field!r}; "
            f"fields: {', '.join(known)}"
        )


def shard_collections(mongo: Connection, kinds: tuple[Kind, ...], settings: MongoSettings) -> None:
    """Shard the collections of `kinds` by hashed keys, and turn the balancer off.

    They must be empty or already sharded; the server spreads their chunks. Chunks that migrate
    during a measurement would be measured, too.
    """
    admin = mongo.admin
    admin.command("enableSharding", DATABASE)
    for kind in kinds:
        key = {key_field(kind, settings): "hashed"}
        admin.command("shardCollection", f"{DATABASE}.{kind.table}", key=key)
    admin.command("balancerStop")


class ShardMap:
    """The node of each id of a collection that is sharded on ``_id``.

    Known from ``config.chunks``, by which mongos routes, too
    (https://www.mongodb.com/docs/manual/reference/config-database/). The node is the shard's first
    one, which is its primary unless it fails.
    """

    def __init__(self, mongo: Connection, kind: Kind, data_nodes: int) -> None:
        config = mongo.get_database("config")
        (collection,) = config.collections.find({"_id": f"{DATABASE}.{kind.table}"})
        chunks = list(config.chunks.find({"uuid": collection["uuid"]}).sort("min", 1))
        replicas = data_nodes // config.shards.count_documents({})
        self._bounds = [chunk["min"]["_id"] for chunk in chunks[1:]]
        self._nodes = [
            f"data{int(chunk['shard'].removeprefix('shard')) * replicas}" for chunk in chunks
        ]

    def node_of(self, stored_id: ObjectId | str) -> str:
        """The name of the node that holds a document, by its ``_id`` as it is stored."""
        return self._nodes[bisect_right(self._bounds, hashed_key(stored_id))]


def hashed_key(value: ObjectId | str) -> int:
    """The value under which a hashed index keeps an ``_id``, as the server's
    ``$toHashedIndexKey`` gives it: the first 8 bytes of an MD5, as a little-endian integer."""
    if isinstance(value, str):
        text = value.encode()
        content = struct.pack("<iii", _SEED, _STRING, len(text) + 1) + text + b"\0"
    else:
        content = struct.pack("<ii", _SEED, _OBJECT_ID) + value.binary
    digest = hashlib.md5(content, usedforsecurity=False).digest()
    return int.from_bytes(digest[:8], "little", signed=True)
