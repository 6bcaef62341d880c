"""What a study may say of Cassandra, and what its levels of consistency are."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from cassandra import ConsistencyLevel
from pydantic import Field as Setting
from pydantic import field_validator

from storewise.engines.support.java import JavaSettings
from storewise.engines.support.servers import refuse_reserved


@dataclass(frozen=True, slots=True)
class Level:
    """One level of consistency: of the client's requests, and of the servers' commit logs.

    https://cassandra.apache.org/doc/5.0/cassandra/architecture/dynamo.html#tunable-consistency and
    https://cassandra.apache.org/doc/5.0/cassandra/architecture/storage-engine.html#commit-log
    """

    requests: int
    """The driver's constant, for reads and writes alike."""
    synced: bool
    """Whether a write is acknowledged only when it is in the commit log on disk."""


LEVELS: Mapping[str, Level] = {
    "durable": Level(ConsistencyLevel.QUORUM, synced=True),
    "relaxed": Level(ConsistencyLevel.ONE, synced=False),
    "one": Level(ConsistencyLevel.ONE, synced=False),
    "quorum": Level(ConsistencyLevel.QUORUM, synced=False),
    "all": Level(ConsistencyLevel.ALL, synced=False),
}
CONSISTENCIES: Mapping[str, str] = {
    "durable": "QUORUM, commitlog_sync: batch; most replicas have it in commit logs on disk",
    "relaxed": "the same as `one`",
    "one": "ONE, commitlog_sync: periodic; one replica has it, its disk follows within 10 s",
    "quorum": "QUORUM, commitlog_sync: periodic; most replicas have it, disks follow within 10 s",
    "all": "ALL, commitlog_sync: periodic; each replica has it, disks follow within 10 s",
}


class CassandraSettings(JavaSettings):
    """Settings of Cassandra."""

    concurrency: int = Setting(
        default=128, ge=1, le=2048, description="requests in flight of one client thread"
    )
    batch_rows: int = Setting(
        default=1,
        ge=1,
        le=1000,
        description="rows of one replica in an unlogged batch; 1: each row is a request",
    )
    nulls: Literal["written", "unset"] = Setting(
        default="written",
        description="`unset`: null fields are left out, which keeps those of an older document",
    )
    page_rows: int = Setting(
        default=1000, ge=1, description="rows of a page of an answer with many rows"
    )
    compressor: Literal["lz4", "zstd", "snappy", "deflate", "none"] = Setting(
        default="lz4", description="of the tables on disk"
    )
    compaction: Literal["size-tiered", "leveled", "unified"] = Setting(
        default="size-tiered", description="how tables are merged on disk (`unified`: from 5.0)"
    )
    file_cache_share: float = Setting(
        default=0.1, gt=0, lt=0.5, description="cache of file chunks, as a share of the memory"
    )
    ring_delay_seconds: float | None = Setting(
        default=None,
        gt=0,
        description="wait for news of the ring; else 30, on loopback 5, of one node 1",
    )
    config: dict[str, Any] = Setting(
        default_factory=dict,
        description="more options of cassandra.yaml, such as `concurrent_writes: 64`",
    )

    @field_validator("config")
    @classmethod
    def _not_reserved(cls, config: dict[str, Any]) -> dict[str, Any]:
        refuse_reserved(config, __package__)
        return config
