"""What a study may say of HBase, and what its levels of consistency are."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from pydantic import Field as Setting
from pydantic import field_validator

from storewise.engines.support.java import JavaSettings
from storewise.engines.support.servers import refuse_reserved

#: How each level writes ahead (https://hbase.apache.org/book.html#wal.durability): the durability
#: of each put. At `durable` the servers have ``hbase.wal.hsync``, too: a sync of the log reaches
#: the disk, not only memory.
DURABILITIES: Mapping[str, str] = {
    "durable": "SYNC_WAL",
    "relaxed": "SKIP_WAL",
    "async": "ASYNC_WAL",
    "sync": "SYNC_WAL",
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


class HbaseSettings(JavaSettings):
    """Settings of HBase."""

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
    compression: Literal["none", "gz", "snappy", "lz4", "zstd"] = Setting(
        default="none", description="of the tables' blocks; all but gz need libraries of the site"
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
