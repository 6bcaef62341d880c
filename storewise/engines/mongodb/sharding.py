"""Sharding empty collections of MongoDB, so that a load finds its chunks spread already; which
shard holds a document.

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
from pymongo.errors import OperationFailure

from storewise.documents import Kind
from storewise.engines.contract.engine import Endpoint
from storewise.engines.mongodb.cluster import DATABASE, Connection, host_port, words_of
from storewise.engines.mongodb.settings import MongoSettings
from storewise.engines.support.servers import wait_until
from storewise.engines.support.splits import split_points
from storewise.errors import EngineError

#: Another change of chunks is under way; it takes less than a second each.
_LOCK_BUSY, _CONFLICTING = 46, 117
_SPREAD_SECONDS = 120.0
_LOOK_EVERY = 0.2
_SEED = 0
#: Canonical types among BSON's types, by which MongoDB orders and hashes.
_CANONICAL_STRING, _CANONICAL_OBJECT_ID = 15, 35


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


def _splits(kind: Kind, settings: MongoSettings, shards: int) -> list[Any] | None:
    """Split points of an empty collection, one chunk for each shard; None where its values are
    not known before the load."""
    name = key_field(kind, settings)
    # Another id has the digest of its document's file, too.
    if name != "_id" and not any(f.name == name and f.type == "id" for f in kind.fields):
        return None
    points = split_points(kind, shards)
    if len(points) != shards - 1:
        return None
    as_text = name == "_id" and _is_text(kind)
    return [point.decode() if as_text else ObjectId(point) for point in points]


def _is_text(kind: Kind) -> bool:
    return kind.fields[0].type == "key"


def needs_balancer(kinds: tuple[Kind, ...], settings: MongoSettings, shards: int) -> bool:
    """Whether some collection cannot be split before its values are known."""
    return settings.shard_key == "ranged" and any(
        _splits(kind, settings, shards) is None for kind in kinds
    )


def shard_collections(mongo: Connection, kinds: tuple[Kind, ...], settings: MongoSettings) -> None:
    """Shard the collections of `kinds`, which are empty or sharded already, and spread them.

    The balancer works only where there is something that could not be spread beforehand: chunks
    that move during a measurement would be measured, too.
    """
    admin = mongo.admin
    shards = sorted(
        (shard["_id"] for shard in mongo.config.shards.find({}, {"_id": 1})),
        key=lambda name: int(name.removeprefix("shard")),
    )
    balance = needs_balancer(kinds, settings, len(shards))
    admin.command("balancerStart" if balance else "balancerStop")
    admin.command("enableSharding", DATABASE)
    for kind in kinds:
        name = key_field(kind, settings)
        namespace = f"{DATABASE}.{kind.table}"
        hashed = settings.shard_key == "hashed"
        options: dict[str, Any] = {"key": {name: "hashed" if hashed else 1}}
        if settings.initial_chunks is not None:
            options["numInitialChunks"] = settings.initial_chunks
        admin.command("shardCollection", namespace, **options)
        points = None if hashed else _splits(kind, settings, len(shards))
        if points is not None:
            _split(mongo, namespace, name, shards, points)
        if hashed or points is not None:
            _await_spread(mongo, namespace, len(shards))


def _split(
    mongo: Connection, namespace: str, name: str, shards: list[str], points: list[Any]
) -> None:
    """One chunk for each shard, of equal parts of the space of ids."""
    if not points or len(_chunks(mongo, namespace)) > 1:
        return
    for point in points:
        _change(mongo, {"split": namespace, "middle": {name: point}})
    # The chunk below the first point stays or goes like the others.
    lowest = "" if isinstance(points[0], str) else ObjectId(bytes(12))
    for point, shard in zip([lowest, *points], shards, strict=True):
        _change(mongo, {"moveChunk": namespace, "find": {name: point}, "to": shard})


def _change(mongo: Connection, command: dict[str, Any]) -> None:
    """A command that changes chunks, again while another change is under way."""

    def lacking() -> str | None:
        try:
            mongo.admin.command(command)
        except OperationFailure as error:
            if error.code not in (_LOCK_BUSY, _CONFLICTING):
                raise
            return words_of(error)
        return None

    complaint = f"MongoDB: no {next(iter(command))} of a chunk was made"
    wait_until(lacking, _SPREAD_SECONDS, complaint, poll=_LOOK_EVERY)


def _await_spread(mongo: Connection, namespace: str, shards: int) -> None:
    def lacking() -> str | None:
        holding = {chunk["shard"] for chunk in _chunks(mongo, namespace)}
        return None if len(holding) == shards else f"they are on {len(holding)} of {shards} shards"

    complaint = f"MongoDB: the chunks of {namespace} are not spread"
    wait_until(lacking, _SPREAD_SECONDS, complaint, poll=_LOOK_EVERY)


def _chunks(mongo: Connection, namespace: str) -> list[dict[str, Any]]:
    """The chunks of a sharded collection by lower bound (config.chunks, MongoDB 5 and newer)."""
    config = mongo.config
    collection = config.collections.find_one({"_id": namespace})
    if collection is None:
        raise EngineError(f"MongoDB: {namespace} is not sharded")
    return list(config.chunks.find({"uuid": collection["uuid"]}).sort("min", 1))


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


def routing_table(mongo: Connection, kind: Kind, settings: MongoSettings) -> RoutingTable | None:
    """The routing table of a collection, None where an id alone does not say the shard."""
    if key_field(kind, settings) != "_id":
        return None
    chunks = _chunks(mongo, f"{DATABASE}.{kind.table}")
    try:
        return RoutingTable.of_chunks(
            chunks, hashed=settings.shard_key == "hashed", text=_is_text(kind)
        )
    except ValueError as error:
        raise EngineError(f"MongoDB: {kind.table}: {error}") from error


def shard_nodes(mongo: Connection, data: tuple[Endpoint, ...]) -> dict[str, str]:
    """The first node of each shard: its primary, unless that has failed."""
    by_host = {host_port(endpoint): endpoint for endpoint in data}
    nodes = {}
    for shard in mongo.config.shards.find():
        hosts = shard["host"].split("/", maxsplit=1)[-1].split(",")
        members = [by_host[host] for host in hosts if host in by_host]
        if not members:
            raise EngineError(f"MongoDB: no node of this session is a member of {shard['host']}")
        nodes[shard["_id"]] = min(members, key=lambda endpoint: endpoint.index).name
    return nodes
