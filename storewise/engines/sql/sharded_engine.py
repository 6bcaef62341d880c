"""Engines of independent SQL servers: nodes that know nothing of each other."""

from __future__ import annotations

from dataclasses import replace
from typing import ClassVar, Literal

from pydantic import Field as Setting

from storewise.engines.contract.engine import Cluster, Mode
from storewise.engines.sql.reads import FLAGS
from storewise.engines.sql.sharded_client import ShardedClient, Shared
from storewise.engines.support.batches import prepare
from storewise.engines.support.server_spec import ConfigSettings, SpecEngine


class ShardedSettings(ConfigSettings):
    """Settings of every engine whose documents are sharded by the client."""

    scan_mode: Literal["global", "owner"] = Setting(
        default="global",
        description="a scan merges all servers, or asks only the server of its start id",
    )


class ShardedEngine(SpecEngine):
    """Servers that share the documents by a hash of their ids."""

    flags = replace(
        FLAGS,
        embedded=False,
        authentication=True,
        owner=True,
    )
    client: ClassVar[type[ShardedClient]]

    def connect(self, cluster: Cluster, mode: Mode) -> ShardedClient:
        settings = self.settings_of(cluster.settings)
        if mode == "write":
            prepare(cluster.kinds)
        return self.client(Shared.of_servers(cluster, mode, settings)).connected()
