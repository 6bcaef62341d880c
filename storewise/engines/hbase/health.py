"""State and sizes as HBase's servers tell them, at the HTTP ports of masters and region servers.

Metrics: https://hbase.apache.org/book.html#hbase_metrics
"""

from __future__ import annotations

import socket
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from storewise.engines.contract.engine import Endpoint
from storewise.engines.support.servers import get_json, wait_until
from storewise.errors import EngineError
from storewise.metrics.host import tree_bytes

_SECONDS = 5.0
_CONNECT_SECONDS = 2.0
_METRICS_SECONDS = 5.0


def not_listening_reason(endpoint: Endpoint) -> str | None:
    """Why no connection can be made to a server; None if one can."""
    try:
        socket.create_connection((endpoint.address, endpoint.port), _CONNECT_SECONDS).close()
    except OSError as error:
        return f"cannot be reached ({error})"
    return None


def jmx(endpoint: Endpoint, bean: str) -> dict[str, Any]:
    """The attributes of ``Hadoop:service=HBase,{bean}``, none where there is no such bean.

    Raises OSError or ValueError where nobody answers.
    """
    path = f"/jmx?qry=Hadoop:service=HBase,{bean}"
    beans = get_json(endpoint.address, endpoint.ports["info"], path, _SECONDS).get("beans", [])
    return dict(beans[0]) if beans else {}


def server_not_ready(endpoint: Endpoint) -> str | None:
    """Why a master is not initialised, or a region server not started; None if it is."""
    bean, attribute = (
        ("Master", "masterFinishedInitializationTime")
        if endpoint.role == "master"
        else ("RegionServer", "regionServerStartTime")
    )
    try:
        server = jmx(endpoint, f"name={bean},sub=Server")
    except (OSError, ValueError) as error:
        return str(error)
    return None if server.get(attribute) else f"its {attribute} is {server.get(attribute)}"


def missing_region_servers(master: Endpoint, wanted: int) -> str | None:
    """Why a master does not know all region servers; None if it does."""
    try:
        known = jmx(master, "name=Master,sub=Server").get("numRegionServers", 0)
    except (OSError, ValueError) as error:
        return str(error)
    if known >= wanted:
        return None
    return f"it knows {known} of {wanted} region servers; their logs say why"


def unreachable(servers: Iterable[Endpoint]) -> str:
    """Those of the servers to which no connection can be made, or that do not answer on one, as an
    addition to an error: gateways do not always say it."""
    problems = []
    for endpoint in servers:
        problem = not_listening_reason(endpoint)
        if problem is None:
            try:
                jmx(endpoint, "name=RegionServer,sub=Server")
            except TimeoutError:
                # The kernel makes connections for a process that stands still, too.
                problem = f"takes connections but does not answer within {_SECONDS:g} s"
            except (OSError, ValueError):
                continue  # it answers, and the error has what it says
        if problem is not None:
            where = f"{endpoint.name} on host {endpoint.host} at {endpoint.address}:{endpoint.port}"
            problems.append(f"{where} {problem}")
    return f" ({'; '.join(problems)})" if problems else ""


def holding(endpoints: Sequence[Endpoint]) -> tuple[Endpoint, ...]:
    """Those of the servers that hold documents."""
    regions = tuple(e for e in endpoints if e.role == "regionserver")
    return regions or tuple(e for e in endpoints if e.role == "master")


def disk_bytes(servers: Sequence[Endpoint]) -> int:
    """All files below the root directory, where it is a directory that this host sees.

    Elsewhere (HDFS, other hosts' disks) what the region servers count: one copy of the tables'
    files, and what their memory holds, which the write-ahead logs have as well. EngineError where
    one of them does not answer.
    """
    try:
        scheme, _, path = _root_of(servers[0]).partition("://")
        if scheme == "file" and Path(path).is_dir():
            return tree_bytes((Path(path),))
        return sum(map(_table_bytes, servers))
    except (OSError, ValueError) as error:
        raise EngineError(f"hbase: disk size: {error}{unreachable(servers)}") from error


def _root_of(endpoint: Endpoint) -> str:
    """The root directory of a running server, as a URI."""
    conf = get_json(endpoint.address, endpoint.ports["info"], "/conf?format=json", _SECONDS)
    return next(str(p["value"]) for p in conf["properties"] if p["key"] == "hbase.rootdir")


def _table_bytes(endpoint: Endpoint) -> int:
    server: dict[str, Any] = {}

    def pending_reason() -> str | None:
        server.update(jmx(endpoint, "name=RegionServer,sub=Server"))
        return None if "storeFileSize" in server else "its metrics are away"

    # HBase takes its metrics away for half a second whenever tables come or go.
    wait_until(pending_reason, _METRICS_SECONDS, f"hbase: no disk size of {endpoint.name}")
    return int(server["storeFileSize"]) + int(server["memStoreSize"])
