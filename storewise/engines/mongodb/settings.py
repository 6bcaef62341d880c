"""What a study may say of MongoDB, and what its levels of consistency are."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from pydantic import Field as Setting
from pydantic import field_validator

from storewise.engines.contract.server import ServerSettings
from storewise.engines.support.servers import refuse_reserved

#: Options of MongoClient by level: https://www.mongodb.com/docs/manual/reference/write-concern/
WRITE_CONCERNS: Mapping[str, Mapping[str, Any]] = {
    "durable": {"w": "majority", "journal": True, "wTimeoutMS": 60_000},
    "relaxed": {"w": 1, "journal": False},
    "journaled": {"w": 1, "journal": True},
    "majority": {"w": "majority", "journal": False, "wTimeoutMS": 60_000},
    "unacknowledged": {"w": 0},
}
CONSISTENCIES: Mapping[str, str] = {
    "durable": "w: majority, j: true; most members of the replica set have it in their journals",
    "relaxed": "w: 1, j: false; the primary has it in memory, its journal follows within 0.1 s",
    "journaled": "w: 1, j: true; the primary has it in its journal, a failover may lose it",
    "majority": "w: majority, j: false; most members have it in memory",
    "unacknowledged": "w: 0; it was sent, nobody has answered",
}


class MongoSettings(ServerSettings):
    """Settings of MongoDB."""

    sharded: Literal["auto", "always"] = Setting(
        default="auto",
        description="`always`: one node is a cluster of one shard behind routers, too",
    )
    config_servers: Literal[1, 3] = Setting(
        default=1, description="members of the config servers' replica set"
    )
    shard_key: Literal["hashed", "ranged"] = Setting(
        default="hashed", description="how the key of a document chooses its shard"
    )
    shard_key_field: str = Setting(
        default="_id",
        description="the key; collections without this field are sharded on `_id`",
    )
    read_preference: Literal[
        "primary", "primaryPreferred", "secondary", "secondaryPreferred", "nearest"
    ] = Setting(default="primary", description="which member of a replica set answers reads")
    config: dict[str, Any] = Setting(
        default_factory=dict,
        description="more options of mongod, such as `replication.oplogSizeMB: 990`",
    )

    @field_validator("config")
    @classmethod
    def _not_reserved(cls, config: dict[str, Any]) -> dict[str, Any]:
        for key in flattened(config):
            if "__" in key:  # `__exec` runs a program for a value, `__rest` asks a server for it
                raise ValueError(f"{key} is no option of mongod")
        refuse_reserved(flattened(config), __package__)
        return config


def flattened(options: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Nested and dotted options alike, as dotted ones."""
    flat: dict[str, Any] = {}
    for key, value in options.items():
        if isinstance(value, Mapping):
            flat |= flattened(value, f"{prefix}{key}.")
        else:
            flat[f"{prefix}{key}"] = value
    return flat


def nested(options: Mapping[str, Any]) -> dict[str, Any]:
    """Dotted options as the nested mapping of a MongoDB configuration file."""
    tree: dict[str, Any] = {}
    for key, value in options.items():
        *path, last = key.split(".")
        branch = tree
        for part in path:
            branch = branch.setdefault(part, {})
        branch[last] = value
    return tree
