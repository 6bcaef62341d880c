"""How a node of MongoDB is started: the command line and the options of mongod and mongos.

Options: https://www.mongodb.com/docs/manual/reference/configuration-options/ and
/reference/parameters/.
"""

from __future__ import annotations

import json
from typing import Any

from storewise.engines.contract.server import Launch, Node
from storewise.engines.mongodb.cluster import CONFIG_SET, is_sharded, shard_name
from storewise.engines.mongodb.connection import SET_NAME, host_port
from storewise.engines.mongodb.settings import MongoSettings, flattened, nested
from storewise.errors import EngineError

#: The least that WiredTiger takes for its cache, GB.
_LEAST_CACHE_GB = 0.25
#: An end in order waits that long for the other members, which end at the same time, ms.
_STEP_DOWN_MS = 1000


def launch_of(node: Node, settings: MongoSettings, hint: str) -> Launch:
    """How to start a node. Pure. EngineError, with `hint`, for a router without mongos."""
    router = node.spec.role == "router"
    options = _common(node) | (_router(node) if router else _server(node, settings))
    program = "mongos" if router else "mongod"
    path = node.installation.programs.get(program)
    if path is None:
        raise EngineError(
            f"MongoDB: a sharded cluster needs mongos, and there is none beside "
            f"{node.installation.programs['mongod']}; {hint}"
        )
    return Launch(
        command=(str(path), "--config", str(node.directory / f"{program}.conf")),
        # JSON is YAML, which MongoDB reads.
        files={
            f"{program}.conf": json.dumps(nested(options), indent=1) + "\n",
            "key": node.credentials.key,
        },
        directories=() if router else ("data",),
        stop_seconds=60.0,
    )


def _common(node: Node) -> dict[str, Any]:
    """What mongod and mongos take alike, as dotted options."""
    options: dict[str, Any] = {
        "net.bindIp": node.address,
        "net.port": node.port,
        "net.unixDomainSocket.enabled": False,
        "security.keyFile": str(node.directory / "key"),
        "setParameter.diagnosticDataCollectionEnabled": False,
        # Else whoever is on this host may make the first user, with all rights, until the
        # bootstrap has made one; it knows the key itself.
        "setParameter.enableLocalhostAuthBypass": False,
        "systemLog.quiet": True,
    }
    if ":" in node.address:
        options["net.ipv6"] = True
    return options


def _router(node: Node) -> dict[str, Any]:
    hosts = ",".join(host_port(peer) for peer in node.peers if peer.role == "config")
    if not hosts:
        raise EngineError(f"{node.spec.name}: a router needs the config servers' endpoints")
    return {
        "sharding.configDB": f"{CONFIG_SET}/{hosts}",
        "setParameter.mongosShutdownTimeoutMillisForSignaledShutdown": _STEP_DOWN_MS,
    }


def _server(node: Node, settings: MongoSettings) -> dict[str, Any]:
    cache = max(_LEAST_CACHE_GB, 0.5 * node.spec.memory_mb / 1024)
    options: dict[str, Any] = {
        "security.authorization": "enabled",
        "setParameter.shutdownTimeoutMillisForSignaledShutdown": _STEP_DOWN_MS,
        "storage.dbPath": str(node.directory / "data"),
        "storage.wiredTiger.engineConfig.cacheSizeGB": round(cache, 3),
    }
    if node.spec.role == "config":
        options["replication.replSetName"] = CONFIG_SET
        options["sharding.clusterRole"] = "configsvr"
        return options
    if is_sharded(node.topology, settings.sharded == "always"):
        number = node.spec.index // node.topology.replicas
        options["replication.replSetName"] = shard_name(number)
        options["sharding.clusterRole"] = "shardsvr"
    elif node.topology.replicas > 1:
        options["replication.replSetName"] = SET_NAME
    return options | flattened(settings.config)
