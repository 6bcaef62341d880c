"""What a study may say of Riak, and what its levels of consistency are."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from pydantic import Field as Setting
from pydantic import field_validator

from storewise.engines.contract.server import ServerSettings
from storewise.engines.riak.ring import LEAST_RING, MOST_RING, default_ring_size
from storewise.engines.support.servers import refuse_reserved
from storewise.errors import EngineError

Quorum = int | Literal["one", "quorum", "all"]
Backend = Literal["leveldb", "bitcask", "leveled", "memory"]

CONSISTENCIES: Mapping[str, str] = {
    "durable": "r, w and dw quorum; each replica's backend syncs every write to its disk",
    "relaxed": "r, w and dw quorum, Riak's own defaults; nothing is synced",
    "one": "r, w and dw 1; nothing is synced",
    "quorum": "r, w and dw quorum, said in each request; nothing is synced (as relaxed)",
    "all": "r, w and dw all; nothing is synced",
}
#: riak.conf of a backend that syncs every write.
SYNCED: Mapping[str, tuple[str, str]] = {
    "leveldb": ("leveldb.sync_on_write", "on"),
    "bitcask": ("bitcask.sync.strategy", "o_sync"),
    "leveled": ("leveled.sync_strategy", "sync"),
}

#: `include FILE` is a line of riak.conf, too.
_KEY = re.compile(r"[A-Za-z0-9_$-]+(\.[A-Za-z0-9_$-]+)*")


class RiakSettings(ServerSettings):
    """Settings of Riak KV."""

    backend: Backend = Setting(default="leveldb", description="what keeps the data of a partition")
    ring_size: int | None = Setting(
        default=None,
        ge=LEAST_RING,
        le=MOST_RING,
        description="partitions, a power of two; else eight or more a node, from 16",
    )
    r: Quorum | None = Setting(
        default=None, description="replicas that must answer a read; else the level's"
    )
    w: Quorum | None = Setting(
        default=None, description="replicas that must have received a write; else the level's"
    )
    dw: Quorum | None = Setting(
        default=None, description="replicas whose backend must have taken it; else the level's"
    )
    memory_share: float = Setting(
        default=0.5,
        gt=0,
        le=0.8,
        description="LevelDB's memory as a share of the node's, 128 MB at least",
    )
    anti_entropy: Literal["active", "passive"] = Setting(
        default="active", description="`passive`: replicas are compared only when read"
    )
    connections: int = Setting(
        default=4,
        ge=1,
        le=64,
        description="connections of each client thread, over which its batches spread",
    )
    timeout_seconds: float = Setting(
        default=65.0, gt=0, description="time for an answer; Riak itself gives up after 60 s"
    )
    private_cookie: bool = Setting(
        default=True,
        description="`false`: the secret among nodes stands on command lines, as Riak's scripts "
        "have it",
    )
    config: dict[str, bool | int | float | str] = Setting(
        default_factory=dict, description="more lines of riak.conf, such as `leveldb.threads: 31`"
    )

    @field_validator("r", "w", "dw")
    @classmethod
    def _some_replicas(cls, value: Quorum | None) -> Quorum | None:
        if isinstance(value, int) and value < 1:
            raise ValueError("is a number of replicas from 1, or one, quorum, all")
        return value

    @field_validator("ring_size")
    @classmethod
    def _power_of_two(cls, size: int | None) -> int | None:
        if size is not None and size & (size - 1):
            raise ValueError(f"{size} is no power of two")
        return size

    @field_validator("config")
    @classmethod
    def _not_reserved(cls, config: dict[str, Any]) -> dict[str, Any]:
        refuse_reserved(config, __package__)
        for key, value in config.items():
            if not _KEY.fullmatch(key) or any(letter in str(value) for letter in "\n\r"):
                raise ValueError(f"{key!r} is no line of riak.conf")
        return config


@dataclass(frozen=True, slots=True)
class Quorums:
    """Replicas that must answer."""

    r: Quorum
    w: Quorum
    dw: Quorum


def quorums_of(settings: RiakSettings, level: str) -> Quorums:
    """The level's numbers where the settings name none."""
    usual: Quorum = {"one": "one", "all": "all"}.get(level, "quorum")  # type: ignore[assignment]
    return Quorums(settings.r or usual, settings.w or usual, settings.dw or usual)


def check_level(settings: RiakSettings, level: str) -> None:
    """EngineError for a level that the backend cannot have."""
    if level == "durable" and settings.backend not in SYNCED:
        raise EngineError(
            f"riak: backend {settings.backend} keeps nothing on disk, so it has no level "
            "`durable`; name another consistency level, such as relaxed"
        )


def ring_size_of(settings: RiakSettings, nodes: int) -> int:
    """Partitions of the ring."""
    return settings.ring_size or default_ring_size(nodes)
