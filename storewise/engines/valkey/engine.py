"""Valkey, and Redis: a server that keeps all documents in memory, or a cluster of several.

Starting a server is in `launch`, the bootstrap of a cluster in `cluster`, which server has what in
`slots`, what clients do in `client`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, ClassVar

from storewise.documents import ID_BYTES, Kind
from storewise.engines.contract.engine import Client, Cluster, Endpoint, Flags, Mode
from storewise.engines.contract.server import (
    BootstrapContext,
    Content,
    Credentials,
    Installation,
    JoinContext,
    Launch,
    Node,
    NodeSpec,
    ServerEngine,
    Topology,
)
from storewise.engines.support.installation import find_installation
from storewise.engines.support.servers import check_topology, data_nodes
from storewise.engines.valkey import cluster as valkey_cluster
from storewise.engines.valkey.client import ValkeyClient, open_shared
from storewise.engines.valkey.launch import BUS, PROGRAM, launch_of
from storewise.engines.valkey.settings import CONSISTENCIES, ValkeySettings
from storewise.errors import EngineError

#: The first series in which a whole range of slots is one command and the bus has a port of choice.
_LEAST = 7
#: What a document takes at least beside its BSON, its key and its id in the order, bytes. Measured
#: in Valkey 9.1.2 on 50,000 documents: 165 (`align`), 302 (`rna`, whose texts are long).
_EACH = 116
#: Of ids that are texts: those of YCSB, `user` and a number of 63 bits.
_KEY_BYTES = 22


class ValkeyEngine(ServerEngine):
    """Valkey's servers."""

    name = "valkey"
    title = "Valkey"
    titles = ("Valkey", "Redis")
    flags = Flags(
        embedded=False,
        authentication=True,
        updates=True,
        deletes=True,
        scans=True,
        owner=True,
    )
    consistencies: ClassVar[Mapping[str, str]] = CONSISTENCIES
    lossy_levels = frozenset(CONSISTENCIES) - {"durable"}
    consistency_aliases: ClassVar[Mapping[str, str]] = {"strong": "durable", "weak": "memory"}
    Settings = ValkeySettings
    guard = "password (ACL)"
    packages = ("valkey", "libvalkey")
    programs = (PROGRAM,)
    in_memory = True
    install_hint = (
        "fetch Valkey with `storewise install valkey`, install the package valkey or redis-server "
        "(7 or newer), or name its directory in the setting `home` or in STOREWISE_VALKEY_BIN"
    )

    def roles(self, topology: Topology, settings: Mapping[str, Any]) -> tuple[NodeSpec, ...]:
        self.settings_of(settings)
        check_topology(self.name, topology, one_copy="its servers hold each document once")
        return data_nodes(topology, ports=(BUS,) if topology.nodes > 1 else ())

    def find(self, settings: Mapping[str, Any]) -> Installation:
        """Valkey's server, else Redis's; EngineError for one that is too old."""
        installed = find_installation(
            self.title,
            ((PROGRAM, "redis-server"),),
            settings,
            variable="STOREWISE_VALKEY_BIN",
            version=(PROGRAM, "--version"),
            own=self.name,
            usual=("/opt/valkey*/bin", "/usr/local/valkey*/bin"),
            hint=self.install_hint,
        )
        known = re.search(r"(Valkey|Redis) server v=((\d+)\.\S+)", installed.version)
        path = installed.programs[PROGRAM]
        if known is None:
            raise EngineError(f"{path} says no version: {installed.version!r}")
        if int(known[3]) < _LEAST:
            raise EngineError(
                f"{path} is {known[1]} {known[2]}; {_LEAST} or newer is taken; {self.install_hint}"
            )
        return replace(installed, version=f"{known[1]} {known[2]}")

    def launch(self, node: Node) -> Launch:
        return launch_of(node, self.settings_of(node.settings))

    def not_ready_reason(self, endpoint: Endpoint, credentials: Credentials) -> str | None:
        return valkey_cluster.not_ready_reason(endpoint, credentials)

    def join(self, context: JoinContext) -> None:
        valkey_cluster.check_memory(context, self.settings_of(context.node.settings))

    def bootstrap(self, context: BootstrapContext) -> None:
        super().bootstrap(context)
        valkey_cluster.bootstrap(context)

    def wait_recovered(self, context: JoinContext) -> None:
        valkey_cluster.wait_recovered(context)

    def check_room(
        self, topology: Topology, settings: Mapping[str, Any], contents: Mapping[Kind, Content]
    ) -> None:
        chosen: ValkeySettings = self.settings_of(settings)
        room = topology.nodes * chosen.most_bytes(topology.memory_mb)
        needed = sum(c.documents * (c.bytes + _beside(kind)) for kind, c in contents.items())
        if needed > room:
            documents = sum(content.documents for content in contents.values())
            raise EngineError(
                f"valkey keeps all documents in memory: {documents:,} documents take at least "
                f"{needed / 2**20:,.0f} MB, and {topology.nodes} nodes of {topology.memory_mb:,} "
                f"MB have {room / 2**20:,.0f} MB for them; give the nodes more (factor "
                "`node_memory_mb`, setting `memory_share`), take more nodes, or load less"
            )

    def peer_guards(self, endpoint: Endpoint) -> Mapping[str, str]:
        return dict.fromkeys(endpoint.ports, "nothing")

    def open_ports(
        self, spec: NodeSpec, topology: Topology, settings: Mapping[str, Any]
    ) -> Mapping[str, str]:
        if topology.nodes == 1:
            return {}
        return {BUS: "join the cluster and take over what others hold"}

    def connect(self, cluster: Cluster, mode: Mode) -> Client:
        return ValkeyClient(open_shared(self, cluster, mode)).connected()


def _beside(kind: Kind) -> int:
    """Bytes that a document of a kind takes beside its BSON, at least."""
    size = ID_BYTES if kind.fields[0].type == "id" else _KEY_BYTES
    return _EACH + len(kind.table) + 2 * size
