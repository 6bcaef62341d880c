"""State and sizes as HBase's servers tell them, most at the HTTP ports of masters and region
servers.

Metrics: https://hbase.apache.org/book.html#hbase_metrics
"""

from __future__ import annotations

import json
import socket
from collections.abc import Iterable, Sequence
from contextlib import closing
from http.client import HTTPConnection, HTTPException
from pathlib import Path
from typing import Any

from storewise.engines.contract.engine import Endpoint
from storewise.engines.hbase.connection import Connection
from storewise.engines.support.servers import wait_until
from storewise.errors import EngineError
from storewise.metrics.host import tree_bytes

_SECONDS = 5.0


def _get(endpoint: Endpoint, path: str) -> Any:
    """The JSON that a server returns by HTTP; raises EngineError if there is none."""
    try:
        address = endpoint.address, endpoint.ports["info"]
        with closing(HTTPConnection(*address, timeout=_SECONDS)) as connection:
            connection.request("GET", path, headers={"Accept": "application/json"})
            return json.loads(connection.getresponse().read())
    except (OSError, HTTPException, ValueError) as error:
        raise EngineError(str(error) or repr(error)) from error


def metrics(endpoint: Endpoint, part: str) -> dict[str, Any]:
    """The metrics of a ``Master`` or a ``RegionServer``; empty if it has none at the moment."""
    found = _get(endpoint, f"/jmx?qry=Hadoop:service=HBase,name={part},sub=Server")
    beans = found.get("beans") or [{}]
    return dict(beans[0])


def not_ready_reason(endpoint: Endpoint) -> str | None:
    """The reason why a server is not ready; None if it is. A master is ready when it is
    initialised: then all region servers have reported, and tables are spread over them."""
    try:
        if endpoint.role == "thrift":
            with closing(Connection(endpoint, _SECONDS)) as gateway:
                gateway.ping()
            return None
        if endpoint.role == "zookeeper":
            socket.create_connection((endpoint.address, endpoint.port), _SECONDS).close()
            return None
        if endpoint.role == "regionserver":
            return None if metrics(endpoint, "RegionServer") else "it is starting"
        master = metrics(endpoint, "Master")
    except (OSError, EngineError) as error:
        return str(error)
    if master.get("masterFinishedInitializationTime"):
        return None
    return f"it is not initialised, and knows {master.get('numRegionServers', 0)} region servers"


def unreachable(servers: Iterable[Endpoint]) -> str:
    """The servers that do not answer, for an error message: a gateway does not always name them."""
    problems = []
    for endpoint in servers:
        try:
            metrics(endpoint, "RegionServer")
        except EngineError as error:
            where = f"{endpoint.name} on host {endpoint.host} at {endpoint.address}:{endpoint.port}"
            problems.append(f"{where} cannot be reached ({error})")
    return f" ({'; '.join(problems)})" if problems else ""


def disk_bytes(servers: Sequence[Endpoint]) -> int:
    """All files below the root directory, where it is a directory that this host sees.

    Elsewhere (HDFS, other hosts' disks) what the region servers count: one copy of the tables'
    files, and what their memory holds, which the write-ahead logs have as well. EngineError where
    one of them does not answer.
    """
    try:
        properties = _get(servers[0], "/conf?format=json")["properties"]
        root = next(str(p["value"]) for p in properties if p["key"] == "hbase.rootdir")
        if root.startswith("file:") and (path := Path(root.removeprefix("file://"))).is_dir():
            return tree_bytes((path,))
        return sum(map(_table_bytes, servers))
    except EngineError as error:
        raise EngineError(f"hbase: disk size: {error}{unreachable(servers)}") from error


def _table_bytes(endpoint: Endpoint) -> int:
    server: dict[str, Any] = {}

    def pending_reason() -> str | None:
        server.update(metrics(endpoint, "RegionServer"))
        return None if server else "it shows no metrics at the moment"

    # HBase hides its metrics for half a second after tables were created or dropped.
    wait_until(pending_reason, _SECONDS, endpoint.name)
    return int(server["storeFileSize"]) + int(server["memStoreSize"])
