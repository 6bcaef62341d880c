"""Sharding empty collections of MongoDB, so that a load finds its chunks spread already."""

from __future__ import annotations

import time
from typing import Any

from bson.objectid import ObjectId
from pymongo.errors import OperationFailure

from storewise.documents import Kind
from storewise.engines.contract.engine import Endpoint
from storewise.engines.mongodb.cluster import DATABASE, Connection, host_port, node_name
from storewise.engines.mongodb.routing import RoutingTable
from storewise.engines.mongodb.settings import MongoSettings
from storewise.engines.support.splits import split_points
from storewise.errors import EngineError

#: Another change of chunks is under way; it takes less than a second each.
_LOCK_BUSY, _CONFLICTING = 46, 117
_SPREAD_SECONDS = 120.0
_LOOK_EVERY = 0.2


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
    own = name == "_id"
    if not own and not any(f.name == name and f.type == "id" for f in kind.fields):
        return None
    points = split_points(kind, shards)
    if len(points) != shards - 1:
        return None
    return [point.decode() if _is_text(kind) and own else ObjectId(point) for point in points]


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
        _patiently(mongo, {"split": namespace, "middle": {name: point}})
    # The chunk below the first point stays or goes like the others.
    lowest = "" if isinstance(points[0], str) else ObjectId(bytes(12))
    for point, shard in zip([lowest, *points], shards, strict=True):
        _patiently(mongo, {"moveChunk": namespace, "find": {name: point}, "to": shard})


def _patiently(mongo: Connection, command: dict[str, Any]) -> None:
    end = time.monotonic() + _SPREAD_SECONDS
    while True:
        try:
            mongo.admin.command(command)
        except OperationFailure as error:
            if error.code not in (_LOCK_BUSY, _CONFLICTING) or time.monotonic() > end:
                raise
            time.sleep(_LOOK_EVERY)
        else:
            return


def _await_spread(mongo: Connection, namespace: str, shards: int) -> None:
    end = time.monotonic() + _SPREAD_SECONDS
    while True:
        holding = {chunk["shard"] for chunk in _chunks(mongo, namespace)}
        if len(holding) == shards:
            return
        if time.monotonic() > end:
            raise EngineError(
                f"MongoDB: the chunks of {namespace} are on {len(holding)} of {shards} shards "
                f"after {_SPREAD_SECONDS:.0f} s"
            )
        time.sleep(_LOOK_EVERY)


def _chunks(mongo: Connection, namespace: str) -> list[dict[str, Any]]:
    """The chunks of a sharded collection by lower bound (config.chunks, MongoDB 5 and newer)."""
    config = mongo.config
    collection = config.collections.find_one({"_id": namespace})
    if collection is None:
        raise EngineError(f"MongoDB: {namespace} is not sharded")
    return list(config.chunks.find({"uuid": collection["uuid"]}).sort("min", 1))


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
    names = {host_port(endpoint): endpoint for endpoint in data}
    found = {}
    for shard in mongo.config.shards.find():
        hosts = shard["host"].split("/", maxsplit=1)[-1].split(",")
        members = [names[host] for host in hosts if host in names]
        if not members:
            raise EngineError(f"MongoDB: no node of this session is a member of {shard['host']}")
        found[shard["_id"]] = node_name(min(members, key=lambda endpoint: endpoint.index))
    return found
