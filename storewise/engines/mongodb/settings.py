"""Settings of MongoDB in a study."""

from __future__ import annotations

from typing import Literal

from pydantic import Field as Setting

from storewise.engines.contract.server import Topology
from storewise.engines.support.server_spec import ConfigSettings, ServerSpec

SPEC = ServerSpec.read(__package__)


class MongoSettings(ConfigSettings):
    """Settings of MongoDB; `config` is for data nodes, by full names such as
    ``replication.oplogSizeMB``."""

    spec = SPEC
    sharded: Literal["auto", "always"] = Setting(
        default="auto",
        description="`always`: one node is a cluster of one shard behind routers, too",
    )
    shard_key_field: str = Setting(
        default="_id",
        description="the shard key, hashed; collections without this field are sharded on `_id`",
    )

    def is_sharded(self, topology: Topology) -> bool:
        """One shard needs no routers, unless the study asks for them."""
        return topology.nodes > 1 or topology.routers > 0 or self.sharded == "always"
