"""What a study may say of HBase; its levels of consistency are in `server.yaml`."""

from __future__ import annotations

from typing import Literal

from pydantic import Field as Setting
from pydantic import field_validator

from storewise.engines.contract.server import Topology
from storewise.engines.support.java import JavaSettings
from storewise.engines.support.server_spec import ConfigSettings, ServerSpec

SPEC = ServerSpec.read(__package__)


class HbaseSettings(ConfigSettings, JavaSettings):
    """Settings of HBase."""

    spec = SPEC
    distributed: bool = Setting(
        default=False,
        description="one node, too, is a cluster of ZooKeeper, a master and a region server",
    )
    rootdir: str | None = Setting(
        default=None,
        description="where HBase keeps its data, such as `hdfs://name:8020/user/me/hbase`, or a "
        "directory that all its hosts share; HADOOP_CONF_DIR tells how to reach HDFS",
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

    @field_validator("rootdir")
    @classmethod
    def _a_place(cls, rootdir: str | None) -> str | None:
        if rootdir is not None and not (rootdir.startswith("/") or "://" in rootdir):
            raise ValueError(f"{rootdir!r} is neither an absolute path nor a URI")
        return rootdir

    def is_distributed(self, topology: Topology) -> bool:
        return topology.nodes > 1 or self.distributed
