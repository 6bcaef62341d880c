"""What a study may say of Cassandra, and what its levels of consistency are."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

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
    server: Mapping[str, str]
    """Options of cassandra.yaml."""


_BATCH = {"commitlog_sync": "batch"}
_PERIODIC = {"commitlog_sync": "periodic", "commitlog_sync_period": "10000ms"}
LEVELS: Mapping[str, Level] = {
    "durable": Level(ConsistencyLevel.QUORUM, _BATCH),
    "relaxed": Level(ConsistencyLevel.ONE, _PERIODIC),
    "one": Level(ConsistencyLevel.ONE, _PERIODIC),
    "quorum": Level(ConsistencyLevel.QUORUM, _PERIODIC),
    "all": Level(ConsistencyLevel.ALL, _PERIODIC),
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
    config: dict[str, Any] = Setting(
        default_factory=dict,
        description="more options of cassandra.yaml, such as `concurrent_writes: 64`",
    )

    @field_validator("config")
    @classmethod
    def _not_reserved(cls, config: dict[str, Any]) -> dict[str, Any]:
        refuse_reserved(config, __package__)
        return config
