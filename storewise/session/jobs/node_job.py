"""What the job of a node is told, and where its server may listen and keep its data."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from pathlib import Path

from storewise.engines.contract.server import NodeSpec, ServerEngine
from storewise.errors import ConfigError, EngineError
from storewise.metrics.host import file_system, host_name, is_network
from storewise.session.coordination.cluster import NODES
from storewise.session.coordination.liveness import Session
from storewise.session.server.address import is_loopback
from storewise.study.trial import Trial


@dataclass(frozen=True, slots=True)
class NodeJob:
    """What the job of one node is told."""

    trial: Trial
    node: str
    live: Path
    result: Path
    server_log: Path
    kept: Path
    """Where the data directory lies if the study keeps it (and no scratch is named)."""
    scratch: str = ""
    """Node-local directory, variables such as $TMPDIR allowed; empty: below the session's."""
    interface: str = "lo"
    ports: str = ""
    runtime_minutes: float | None = None
    """Wall time of the job, as it was asked of the scheduler."""


def check_ports(engine: ServerEngine, spec: NodeSpec, trial: Trial, address: str) -> list[str]:
    """Warnings about a node's ports; ConfigError for ports off loopback that nothing guards and
    that the study does not allow."""
    open_ports = engine.open_ports(spec, trial.topology, trial.settings)
    if not open_ports or is_loopback(address):
        return []
    names = "; ".join(f"{name}: who reaches it can {what}" for name, what in open_ports.items())
    if not trial.allow_open_ports:
        raise ConfigError(
            f"{engine.title} would listen on {address} with ports that nothing guards ({names}); "
            "if your network allows it, say `allow_open_ports: true` in the study, or use one host "
            "and loopback"
        )
    return [f"{engine.title} listened on {address} with ports that nothing guards ({names})"]


def node_directory(job: NodeJob, session: Session) -> Path:
    """Where a node keeps its data; ConfigError for a scratch that names no place."""
    scratch = os.path.expanduser(os.path.expandvars(job.scratch).strip())  # noqa: PTH111
    if "$" in scratch:
        raise ConfigError(
            f"scratch: {job.scratch!r} names a variable that host {host_name()} does not have; "
            "mend it in the profile"
        )
    if scratch and not Path(scratch).is_absolute():
        raise ConfigError(
            f"scratch: {job.scratch!r} is no absolute path on host {host_name()}; mend it in the "
            "profile (in set-resources texts stand in two pairs of quotes)"
        )
    if scratch:
        session_name = re.sub(r"[^A-Za-z0-9.-]", "-", f"{session.run}-{session.trial}")
        return Path(scratch) / f"storewise-{session_name}-{job.node}"
    if job.trial.keep_data:
        return job.kept.absolute()
    return (job.live / NODES / job.node).absolute()


def make_directory(directory: Path, node: str) -> list[str]:
    """Make a node's directory; returns warnings about its file system."""
    try:
        directory.mkdir(parents=True, mode=0o700)
    except OSError as error:
        raise EngineError(
            f"{node}: cannot make {directory} on host {host_name()}: {error.strerror}; see "
            "`scratch` in the profile"
        ) from error
    fstype = file_system(directory)
    if is_network(fstype):
        return [
            f"the data of {node} lies on a network file system ({fstype}); name node-local "
            "`scratch` in the profile"
        ]
    return []
