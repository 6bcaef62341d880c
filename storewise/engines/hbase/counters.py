"""State and sizes as HBase's servers tell them: /jmx of their HTTP ports, `srvr` of ZooKeeper.

Metrics: https://hbase.apache.org/book.html#hbase_metrics; the `srvr` command:
https://zookeeper.apache.org/doc/r3.8.4/zookeeperAdmin.html#sc_4lw
"""

from __future__ import annotations

import socket
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from storewise.engines.contract.engine import Endpoint
from storewise.engines.hbase.launch import INFO, MASTER, REGION
from storewise.engines.support.servers import get_json, wait_until
from storewise.errors import EngineError
from storewise.metrics.host import tree_bytes

_SECONDS = 5.0
_PROBE_SECONDS = 2.0
_METRICS_SECONDS = 5.0
_MOST_BYTES = 65_536


def zookeeper_not_ready(endpoint: Endpoint) -> str | None:
    """Why ZooKeeper is not ready; None if it answers ``srvr`` with its version and mode."""
    answer = b""
    try:
        with socket.create_connection((endpoint.address, endpoint.port), _SECONDS) as connection:
            connection.settimeout(_SECONDS)
            connection.sendall(b"srvr")
            while len(answer) < _MOST_BYTES and (more := connection.recv(4096)):
                answer += more
    except OSError as error:
        return str(error)
    if b"Zookeeper version" in answer and b"Mode:" in answer:
        return None
    return f"it answered: {answer[:200].decode(errors='replace').strip() or 'nothing'}"


def _get(endpoint: Endpoint, path: str) -> Any:
    return get_json(endpoint.address, endpoint.ports[INFO], path, _SECONDS)


def jmx(endpoint: Endpoint, bean: str) -> dict[str, Any]:
    """The attributes of ``Hadoop:service=HBase,{bean}``, none where there is no such bean.

    Raises OSError or ValueError where nobody answers.
    """
    beans = _get(endpoint, f"/jmx?qry=Hadoop:service=HBase,{bean}").get("beans", [])
    return dict(beans[0]) if beans else {}


def root_of(endpoint: Endpoint) -> str:
    """The root directory of a running server, as a URI; OSError or ValueError without an answer."""
    answer = _get(endpoint, "/conf?format=json&name=hbase.rootdir")
    # Hadoop 3 answers what was asked, Hadoop 2 with all properties.
    every = answer.get("properties") or [answer.get("property", {})]
    for entry in every:
        if entry.get("key") == "hbase.rootdir":
            return str(entry["value"])
    raise ValueError(f"{endpoint.name} does not tell its hbase.rootdir")


def disk_bytes(servers: Iterable[Endpoint]) -> int:
    """All files below the root directory, where it is a directory that this host sees.

    Elsewhere (HDFS, other hosts' disks) what the region servers count: one copy of the tables'
    files, and what their memory holds, which the write-ahead logs have as well. EngineError where
    one of them does not answer.
    """
    every = tuple(servers)
    for endpoint in every:
        try:
            scheme, _, path = root_of(endpoint).partition("://")
        except (OSError, ValueError):
            continue
        if scheme == "file" and Path(path).is_dir():
            return tree_bytes((Path(path),))
        break
    try:
        return sum(map(_table_bytes, every))
    except (OSError, ValueError) as error:
        raise EngineError(f"hbase: disk size: {error}{unreachable(every)}") from error


def _table_bytes(endpoint: Endpoint) -> int:
    server: dict[str, Any] = {}

    def pending_reason() -> str | None:
        server.update(jmx(endpoint, "name=RegionServer,sub=Server"))
        return None if "storeFileSize" in server else "its metrics are away"

    # HBase takes its metrics away for half a second whenever tables come or go.
    wait_until(pending_reason, _METRICS_SECONDS, f"hbase: no disk size of {endpoint.name}")
    return int(server["storeFileSize"]) + int(server["memStoreSize"])


def server_not_ready(endpoint: Endpoint) -> str | None:
    """Why a master is not initialised, or a region server not started; None if it is."""
    bean, attribute = (
        ("Master", "masterFinishedInitializationTime")
        if endpoint.role == MASTER
        else ("RegionServer", "regionServerStartTime")
    )
    try:
        server = jmx(endpoint, f"name={bean},sub=Server")
    except (OSError, ValueError) as error:
        return str(error)
    return None if server.get(attribute) else f"its {attribute} is {server.get(attribute)}"


def region_servers(master: Endpoint) -> int:
    """The number of live region servers that a master knows; OSError or ValueError if it does not
    answer."""
    return int(jmx(master, "name=Master,sub=Server").get("numRegionServers", 0))


def unreachable(servers: Iterable[Endpoint]) -> str:
    """Those of the servers to which no connection can be made, or that do not answer on one, as an
    addition to an error."""
    problems = []
    for endpoint in servers:
        where = f"{endpoint.name} on host {endpoint.host} at {endpoint.address}:{endpoint.port}"
        try:
            socket.create_connection((endpoint.address, endpoint.port), _PROBE_SECONDS).close()
        except OSError as error:
            problems.append(f"{where} cannot be reached ({error})")
            continue
        try:
            jmx(endpoint, "name=RegionServer,sub=Server")
        except TimeoutError:
            # The kernel makes connections for a process that stands still, too.
            problems.append(f"{where} takes connections but does not answer within {_SECONDS:g} s")
        except (OSError, ValueError):
            continue  # it answers, and the error has what it says
    return f" ({'; '.join(problems)})" if problems else ""


def holding(endpoints: Iterable[Endpoint]) -> tuple[Endpoint, ...]:
    """Those of the servers that hold documents."""
    every = tuple(endpoints)
    regions = tuple(e for e in every if e.role == REGION)
    return regions or tuple(e for e in every if e.role == MASTER)
