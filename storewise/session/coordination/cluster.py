"""The files through which a session's nodes, its `form` job and its clients coordinate.

All lie in the live directory of the trial:

| file | written by | meaning |
|---|---|---|
| ``credentials/secret.json`` | open | the session's secrets, 0600 in a directory 0700 |
| ``nodes/<node>.json`` | the node's job, at its start | where it runs |
| ``addresses/<node>.json`` | the node's job | where its server will listen (if others need it) |
| ``answering/<node>.json`` | the node's job | its server answers |
| ``endpoints/<node>.json`` | the node's job | its server has joined and is ready, here |
| ``cluster.json`` | form | the cluster is formed: clients may connect |
| ``loaded`` | the first loading worker | the load has ended: nodes count their files |
| ``stop`` | close | nodes end in order |
| ``gone/<node>.json`` | the node's job | its server has ended |
"""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, TypeVar

from storewise.atomic import read_as, write_aside
from storewise.engines.contract.engine import Cluster, Endpoint
from storewise.engines.contract.server import Credentials, ServerEngine
from storewise.engines.registry import engine as engine_named
from storewise.errors import EngineError
from storewise.study.trial import Trial
from storewise.waiting import wait_for

T = TypeVar("T")
_log = logging.getLogger(__name__)

CREDENTIALS = Path("credentials/secret.json")
CLUSTER = "cluster.json"
LOADED = "loaded"
STOP = "stop"
NODES = "nodes"
ADDRESSES = "addresses"
ANSWERING = "answering"
ENDPOINTS = "endpoints"
GONE = "gone"
#: Between two looks for records of other nodes, s.
RECORD_POLL = 0.2


def server_engine(trial: Trial) -> ServerEngine:
    """The trial's engine; EngineError where it has no servers."""
    engine = engine_named(trial.engine)
    if not isinstance(engine, ServerEngine):
        raise EngineError(f"{engine.title} has no servers: it is embedded")
    return engine


def make_credentials(live: Path) -> None:
    """Make the secrets of a session."""
    path = live / CREDENTIALS
    path.parent.mkdir(mode=0o700)
    Credentials.make().write(path)


@dataclass(frozen=True, slots=True)
class StartedNode:
    """A node's job runs."""

    node: str
    host: str
    directory: str
    keep: bool = False
    """The study keeps its directory."""


@dataclass(frozen=True, slots=True)
class ReadyNode:
    """A node's server answers."""

    node: str
    endpoint: Endpoint
    version: str
    guard: str
    server_pid: int
    ready_at: float


@dataclass(frozen=True, slots=True)
class GoneNode:
    """A node's server has ended."""

    node: str
    host: str
    stop_seconds: float
    bytes: int
    kept: str
    """The data directory where the study keeps it, else empty."""


@dataclass(frozen=True, slots=True)
class FormedCluster:
    """The formed cluster, as `form` describes it to the clients."""

    endpoints: tuple[Endpoint, ...]
    versions: Mapping[str, str]
    """Versions of the servers, by node."""
    guards: Mapping[str, str]
    """Authentication of each node's port, by node."""
    formed_at: float
    form_seconds: float
    warnings: tuple[str, ...] = ()

    def server_versions(self) -> dict[str, str]:
        """The servers' versions for a result's conditions; one entry if all are the same."""
        if len(set(self.versions.values())) == 1:
            return {"server": next(iter(self.versions.values()))}
        return {f"server.{node}": version for node, version in self.versions.items()}


def publish(live: Path, kind: str, name: str, record: Any) -> None:
    """Write a record atomically: readers see all of it or nothing."""
    directory = live / kind
    directory.mkdir(exist_ok=True)
    write_aside(directory / f"{name}.json", json.dumps(asdict(record)) + "\n")


def records(live: Path, kind: str, form: type[T]) -> dict[str, T]:
    """Read the records of a kind, by name. Each call lists the directory, so that an NFS client
    asks its server. A damaged record (its host crashed) is logged and left out."""
    by_name = {}
    for path in sorted((live / kind).glob("[!.]*.json")):
        try:
            by_name[path.stem] = read_as(form, path)
        except FileNotFoundError:
            continue  # the session was removed meanwhile
        except ValueError:
            _warn_damaged(str(path))
    return by_name


@lru_cache  # log each path once
def _warn_damaged(path: str) -> None:
    _log.warning("%s is damaged and ignored: its host crashed, or the disk was full", path)


def started_nodes(live: Path) -> dict[str, StartedNode]:
    return records(live, NODES, StartedNode)


def ready_nodes(live: Path) -> dict[str, ReadyNode]:
    return records(live, ENDPOINTS, ReadyNode)


def endpoints_of(live: Path, kind: str) -> dict[str, Endpoint]:
    """Node -> the endpoint that it has published (in `ADDRESSES` or `ANSWERING`)."""
    return records(live, kind, Endpoint)


def gone_nodes(live: Path) -> dict[str, GoneNode]:
    return records(live, GONE, GoneNode)


def await_records(
    names: Sequence[str],
    known: Callable[[], Mapping[str, T]],
    check: Callable[[], None],
    log: logging.Logger,
    *,
    sleep: Callable[[float], None] | None = None,
) -> dict[str, T]:
    """The records of all `names`, as soon as all are `known`; `check` ends the wait by raising."""
    found: Mapping[str, T] = {}

    def all_known() -> bool:
        nonlocal found
        found = known() if names else {}
        return found.keys() >= {*names}

    if not all_known():
        log.info("waiting for %s", ", ".join(name for name in names if name not in found))
        wait_for(all_known, check=check, poll=RECORD_POLL, sleep=sleep)
    return {name: found[name] for name in names}


def write_cluster(path: Path, formed: FormedCluster) -> None:
    write_aside(path, json.dumps(asdict(formed), indent=1) + "\n")


def read_cluster(path: Path) -> FormedCluster:
    """Read what `form` wrote; raises OSError if it does not exist."""
    return read_as(FormedCluster, path)


def client_cluster(
    trial: Trial, live: Path, formed: FormedCluster, beside: tuple[Endpoint, ...] = ()
) -> Cluster:
    """The cluster for a client to connect to; `beside` are servers on its own host."""
    return Cluster(
        engine=trial.engine,
        endpoints=(*formed.endpoints, *beside),
        credentials=live / CREDENTIALS,
        settings=trial.settings,
        consistency=trial.consistency,
        kinds=trial.kinds(),
    )


def clock_offset(live: Path, name: str) -> float:
    """Seconds that this host's clock is ahead of the shared file system's.

    A new file's time is given by the file server (NFS) or by this host's own kernel, so that all
    hosts of a session have one reference; half of what the writing took is the uncertainty.
    """
    path = live / f".clock.{name}"
    before = time.time()
    path.touch()
    after = time.time()
    stamp = path.stat().st_mtime
    path.unlink()
    # The kernel stamps files with the time of its last tick, up to some ms ago.
    return 0.0 if before - 0.02 <= stamp <= after else (before + after) / 2 - stamp
