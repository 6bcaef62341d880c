"""The data directory of a node: its place, and a warning about its file system."""

from __future__ import annotations

import os
import re
from pathlib import Path

from storewise.errors import ConfigError, EngineError, translate_errors
from storewise.metrics.host import file_system, host_name, is_network
from storewise.session.coordination.cluster import NODES
from storewise.session.coordination.liveness import Session
from storewise.session.coordination.private import make_owned


def directory_of(node: str, scratch: str, kept: Path | None, live: Path, session: Session) -> Path:
    """The data directory of a node: below `scratch`, else in `kept` (the study keeps it), else
    below the session's `live` directory. ConfigError for a scratch that names no place."""
    path = os.path.expanduser(os.path.expandvars(scratch).strip())  # noqa: PTH111
    if "$" in path:
        raise ConfigError(
            f"scratch: {scratch!r} names a variable that host {host_name()} does not have; "
            "mend it in the profile"
        )
    if path and not Path(path).is_absolute():
        raise ConfigError(
            f"scratch: {scratch!r} is no absolute path on host {host_name()}; mend it in the "
            "profile (in set-resources texts stand in two pairs of quotes)"
        )
    if path:
        session_name = re.sub(r"[^A-Za-z0-9.-]", "-", f"{session.run}-{session.trial}")
        return Path(path) / f"storewise-{session_name}-{node}"
    return (kept or live / NODES / node).absolute()


def make_directory(directory: Path, node: str, run: str) -> list[str]:
    """Make a node's data directory, marked as made by `run`; returns a warning if it is on a
    network file system. EngineError if it cannot be made."""
    place = f"{node}: cannot make {directory} on host {host_name()}"
    with translate_errors(place, EngineError, "see `scratch` in the profile"):
        make_owned(directory, run)
    fstype = file_system(directory)
    if is_network(fstype):
        return [
            f"the data of {node} lies on a network file system ({fstype}); name node-local "
            "`scratch` in the profile"
        ]
    return []
