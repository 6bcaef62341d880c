"""What a study may say of HBase, and what its levels of consistency are.

Properties of the servers: https://hbase.apache.org/book.html#hbase_default_configurations
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from pydantic import Field as Setting
from pydantic import field_validator, model_validator

from storewise.engines.support.java import JavaSettings
from storewise.engines.support.servers import refuse_reserved


@dataclass(frozen=True, slots=True)
class Level:
    """How a put is written ahead: https://hbase.apache.org/book.html#wal.durability"""

    durability: str
    """Of each put, as HBase calls it."""
    hsync: bool = False
    """The property ``hbase.wal.hsync``: a sync of the log reaches the disk, not only memory."""


LEVELS: Mapping[str, Level] = {
    "durable": Level("SYNC_WAL", hsync=True),
    "relaxed": Level("SKIP_WAL"),
    "async": Level("ASYNC_WAL"),
    "sync": Level("SYNC_WAL"),
}
CONSISTENCIES: Mapping[str, str] = {
    "durable": "SYNC_WAL, hbase.wal.hsync=true; an acknowledged put is in the write-ahead log: in "
    "HDFS on the disks of all its data nodes (hsync); in local files as far as Hadoop's library "
    "goes: 3.3 and newer sync the disk, 2.10 hands it to the operating system only",
    "relaxed": "SKIP_WAL; no write-ahead log: a crash of a region server loses what it has not yet "
    "flushed from its memory, up to the whole load",
    "async": "ASYNC_WAL; the write-ahead log follows later: a crash of a region server loses the "
    "last puts",
    "sync": "SYNC_WAL, hbase.wal.hsync=false (HBase's own default); an acknowledged put is in the "
    "memory of HDFS's data nodes (hflush), or of this operating system for local files: it "
    "survives a crash of the server, not of the machines",
}

#: A region server refuses to start where both shares together leave less than a fifth.
_CACHES = 0.8


class HbaseSettings(JavaSettings):
    """Settings of HBase."""

    gateway: Literal["thrift2", "happybase"] = Setting(
        default="thrift2",
        description="how documents travel: HBase's Thrift 2 server, or its Thrift 1 server by the "
        "library happybase (which has no level `async`)",
    )
    layout: Literal["json", "columns"] | None = Setting(
        default=None,
        description="one cell with the document as JSON, or a cell for each field; null: `columns` "
        "for records with keys of their own, such as YCSB's, of which an update is one request "
        "then, else `json`",
    )
    distributed: bool = Setting(
        default=False,
        description="one node, too, is a cluster of ZooKeeper, a master and a region server",
    )
    rootdir: str | None = Setting(
        default=None,
        description="where HBase keeps its data, such as `hdfs://name:8020/user/me/hbase` or a "
        "directory that all its hosts share; each trial has its own below; else the files of the "
        "node, or of node zookeeper0 where there are several. HADOOP_CONF_DIR tells how to reach "
        "HDFS",
    )
    regions_per_server: int = Setting(
        default=2, ge=1, le=256, description="regions of each table for each region server"
    )
    buffer: int = Setting(
        default=0,
        ge=0,
        le=1_000_000,
        description="documents of a kind that a client thread collects before it sends them (as "
        "autoflush=false); 0: each batch is sent at once",
    )
    compression: Literal["none", "gz", "snappy", "lz4", "zstd"] = Setting(
        default="none", description="of the tables' blocks; all but gz need libraries of the site"
    )
    block_encoding: Literal["none", "prefix", "diff", "fast_diff", "row_index_v1"] = Setting(
        default="none", description="of the keys in the tables' blocks"
    )
    block_cache_share: float = Setting(
        default=0.4, ge=0, le=0.7, description="the block cache as a share of a server's heap"
    )
    memstore_share: float = Setting(
        default=0.4, ge=0.1, le=0.7, description="unflushed writes at most, as a share of the heap"
    )
    session_seconds: int = Setting(
        default=90,
        ge=6,
        le=300,
        description="after so long without a sign of life one of several region servers counts as "
        "dead (a standalone server: 10 s)",
    )
    operation_seconds: int = Setting(
        default=25, ge=1, le=600, description="for so long the gateway tries a request, retries too"
    )
    config: dict[str, str | int | float | bool] = Setting(
        default_factory=dict, description="more properties of hbase-site.xml, by their names there"
    )

    @field_validator("rootdir")
    @classmethod
    def _a_place(cls, rootdir: str | None) -> str | None:
        if rootdir is not None and not (rootdir.startswith("/") or "://" in rootdir):
            raise ValueError(f"{rootdir!r} is neither an absolute path nor a URI")
        return rootdir

    @field_validator("config")
    @classmethod
    def _not_reserved(cls, config: dict[str, Any]) -> dict[str, Any]:
        refuse_reserved(config, __package__)
        return config

    @model_validator(mode="after")
    def _shares(self) -> HbaseSettings:
        if self.block_cache_share + self.memstore_share > _CACHES + 1e-9:
            raise ValueError(
                f"block_cache_share and memstore_share together are above {_CACHES}, which HBase "
                "refuses"
            )
        return self
