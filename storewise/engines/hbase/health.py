"""State and sizes as HBase's servers tell them, at the HTTP ports of masters and region servers.

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
from storewise.engines.support.servers import wait_until
from storewise.errors import EngineError
from storewise.metrics.host import tree_bytes

_SECONDS = 5.0
_METRICS_SECONDS = 5.0


def _get(endpoint: Endpoint, path: str) -> Any:
    """What a server answers by HTTP; OSError or ValueError where that is no JSON."""
    try:
        with closing(
            HTTPConnection(endpoint.address, endpoint.ports["info"], timeout=_SECONDS)
        ) as connection:
            connection.request("GET", path, headers={"Accept": "application/json"})
            return json.loads(connection.getresponse().read())
    except HTTPException as error:
        raise ValueError(f"{endpoint}: {error!r}") from error


def jmx(endpoint: Endpoint, bean: str) -> dict[str, Any]:
    """The attributes of ``Hadoop:service=HBase,{bean}``, none where there is no such bean.

    Raises OSError or ValueError where nobody answers.
    """
    path = f"/jmx?qry=Hadoop:service=HBase,{bean}"
    beans = _get(endpoint, path).get("beans", [])
    return dict(beans[0]) if beans else {}


def not_ready_reason(endpoint: Endpoint) -> str | None:
    """Why a server cannot serve yet; None if it can. A master can when it has been initialised,
    which is when all region servers have told it of themselves: tables are spread over them."""
    try:
        if endpoint.role == "zookeeper":
            address = endpoint.address, endpoint.port
            socket.create_connection(address, _SECONDS).close()
            return None
        if endpoint.role == "regionserver":
            return None if jmx(endpoint, "name=RegionServer,sub=Server") else "it is starting"
        master = jmx(endpoint, "name=Master,sub=Server")
    except (OSError, ValueError) as error:
        return str(error)
    if master.get("masterFinishedInitializationTime"):
        return None
    return f"it is not initialised, and knows {master.get('numRegionServers', 0)} region servers"


def unreachable(servers: Iterable[Endpoint]) -> str:
    """Those of the servers that do not answer, as an addition to an error: gateways do not always
    say it."""
    problems = []
    for endpoint in servers:
        try:
            jmx(endpoint, "name=RegionServer,sub=Server")
            continue
        except TimeoutError:
            problem = f"does not answer within {_SECONDS:g} s"
        except OSError as error:
            problem = f"cannot be reached ({error})"
        except ValueError:
            continue  # it answers, and the error has what it says
        where = f"{endpoint.name} on host {endpoint.host} at {endpoint.address}:{endpoint.port}"
        problems.append(f"{where} {problem}")
    return f" ({'; '.join(problems)})" if problems else ""


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
    conf = _get(endpoint, "/conf?format=json")
    return next(str(p["value"]) for p in conf["properties"] if p["key"] == "hbase.rootdir")


def _table_bytes(endpoint: Endpoint) -> int:
    server: dict[str, Any] = {}

    def pending_reason() -> str | None:
        server.update(jmx(endpoint, "name=RegionServer,sub=Server"))
        return None if "storeFileSize" in server else "it does not show its metrics at the moment"

    # HBase hides its metrics for half a second whenever tables are created or dropped.
    wait_until(pending_reason, _METRICS_SECONDS, f"hbase: no disk size of {endpoint.name}")
    return int(server["storeFileSize"]) + int(server["memStoreSize"])
