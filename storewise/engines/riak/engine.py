"""Riak KV: a ring of equal nodes, each key on `replicas` of them.

How a node is started is in `server.yaml` and `riak.conf.j2`, joining in `cluster`, the messages in
`messages.yaml`, where clients connect and try again in `connection`, what they do in `client`. When
a node dies: `docs/engines/riak.md`.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar, Literal

from pydantic import Field as Setting

from storewise.engines.contract.engine import Client, Cluster, Endpoint, Flags, Mode
from storewise.engines.contract.server import (
    ClusterContext,
    Credentials,
    Installation,
    Launch,
    Node,
    NodeSpec,
    Run,
    Topology,
)
from storewise.engines.riak import cluster as riak_cluster
from storewise.engines.riak.client import RiakClient, Shared
from storewise.engines.riak.ring import ring_size
from storewise.engines.support.installation import environment_of, place_of, usual_places
from storewise.engines.support.server_spec import ConfigSettings, ServerSpec, SpecEngine
from storewise.engines.support.servers import numbered_nodes
from storewise.errors import EngineError


class RiakSettings(ConfigSettings):
    """Settings of Riak in a study."""

    spec = ServerSpec.read(__package__)
    backend: Literal["leveldb", "bitcask", "leveled"] = Setting(
        default="leveldb", description="what keeps the data of a partition (`storage_backend`)"
    )


class RiakEngine(SpecEngine):
    """Riak KV's nodes."""

    name = "riak"
    flags = Flags(
        embedded=False, replicas=True, updates=True, deletes=True, count="none", owner=True
    )
    slow_levels: ClassVar[Mapping[str, float]] = {"durable": 100.0}
    Settings = RiakSettings
    ready_seconds = 180.0

    def roles(self, topology: Topology, settings: Mapping[str, Any]) -> tuple[NodeSpec, ...]:
        return tuple(replace(s, meets=("data",)) for s in super().roles(topology, settings))

    def find(self, settings: Mapping[str, Any]) -> Installation:
        """The release on this host: a directory with ``bin/riak``, ``releases`` and ``erts-*``.

        It is the one that ``settings["home"]``, STOREWISE_RIAK_HOME or RIAK_HOME names (also after
        loading ``settings["module"]``), else where packages put it. The ``riak`` on the PATH is a
        launcher of the package.
        """
        environment, variables = environment_of(settings), self.spec.variables
        known = {**os.environ, **environment}
        named = settings.get("home") or next(filter(None, map(known.get, variables)), None)
        if named:
            places, looked = [place_of(named), place_of(named).parent], named
        else:
            places = usual_places(self.spec.usual_places)
            looked = ", ".join([*variables, *self.spec.usual_places])
        # The versions of Erlang's machine and of the release, as in all releases of OTP:
        # https://www.erlang.org/doc/system/release_structure.html
        records = (place / "releases" / "start_erl.data" for place in places)
        if (record := next(filter(Path.is_file, records), None)) is None:
            raise EngineError(
                f"Riak KV: no release (a directory with bin/riak, releases and erts-*; looked in "
                f"{looked}); {self.spec.install_hint}"
            )
        erts, version = [*record.read_text(encoding="utf-8").split(), "", ""][:2]
        if not version.startswith("3."):
            raise EngineError(
                f"Riak KV: {record} has version {version!r}, but Storewise needs 3.x; "
                f"{self.spec.install_hint}"
            )
        place = record.parent.parent
        programs = {
            "riak": place / "bin" / "riak",
            "escript": place / f"erts-{erts}" / "bin" / "escript",
            "boot": place / "releases" / version / "start",
        }
        return Installation(programs, f"Riak KV {version}", environment)

    def launch(self, node: Node) -> Launch:
        size = ring_size(node.topology.nodes)
        return self.spec.launch(node, self.settings_of(node.settings), ring_size=size)

    def not_ready_reason(self, endpoint: Endpoint, credentials: Credentials) -> str | None:
        return riak_cluster.not_ready_reason(endpoint)

    def join(self, node: Node, context: ClusterContext, run: Run) -> None:
        riak_cluster.join(node, context, run)

    def bootstrap(self, context: ClusterContext) -> None:
        super().bootstrap(context)
        riak_cluster.bootstrap(context)

    def wait_recovered(self, node: Node, raise_if_aborted: Callable[[], None]) -> None:
        riak_cluster.wait_recovered(node, raise_if_aborted)

    def connect(self, cluster: Cluster, mode: Mode) -> Client:
        """EngineError within seconds where no node answers."""
        self.settings_of(cluster.settings)
        shared = Shared(mode=mode, kinds=cluster.kinds, endpoints=numbered_nodes(cluster))
        return RiakClient(shared).connected()
