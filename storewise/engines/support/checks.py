"""What every engine checks before it connects: settings, level, directories."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path
from typing import TypeVar

from pydantic import ValidationError

from storewise.engines.contract.engine import Cluster, Engine, EngineSettings, Mode
from storewise.errors import EngineError

_Settings = TypeVar("_Settings", bound=EngineSettings)


def parse_settings(model: type[_Settings], engine: Engine, cluster: Cluster) -> _Settings:
    """The engine's settings of a cluster; EngineError that names each wrong key."""
    try:
        return model.model_validate(dict(cluster.settings))
    except ValidationError as error:
        problems = "; ".join(
            f"{'.'.join(map(str, problem['loc']))}: {problem['msg']}" for problem in error.errors()
        )
        known = ", ".join(model.model_fields) or "none"
        raise EngineError(f"settings of {engine.name}: {problems} (known: {known})") from error


def consistency_of(engine: Engine, cluster: Cluster) -> str:
    """The cluster's consistency level, the engine's first where it names none."""
    level = cluster.consistency or next(iter(engine.consistencies))
    if level not in engine.consistencies:
        raise EngineError(
            f"{engine.name} has no consistency level {level!r}; "
            f"it has {', '.join(engine.consistencies)}"
        )
    return level


def store_directories(engine: Engine, cluster: Cluster, mode: Mode) -> tuple[Path, ...]:
    """The cluster's store directories, checked; a writer's one is made where it is missing."""
    if mode == "write":
        if len(cluster.stores) != 1:
            raise EngineError(
                f"{engine.name}: a writing client needs one store directory of its own, "
                f"not {len(cluster.stores)}"
            )
        try:
            cluster.stores[0].mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise EngineError(f"{engine.name}: cannot make the store directory: {error}") from error
    elif not cluster.stores:
        raise EngineError(f"{engine.name}: there is no store directory to read from")
    for directory in cluster.stores:
        if not directory.is_dir():
            raise EngineError(f"{engine.name}: {directory} is not a directory")
    return cluster.stores


def directory_bytes(directories: Iterable[Path]) -> int:
    """Bytes of all files below the directories, holes not counted.

    The size of a file counts, not its blocks, because file systems report blocks late (NFS,
    Lustre) or after compression; only where fewer bytes are allocated than the size says, as in a
    file with holes, do the blocks count. A file that vanishes during the walk counts nothing.
    """
    total = 0
    for directory in directories:
        for root, _, names in os.walk(directory):
            for name in names:
                try:
                    status = (Path(root) / name).stat()
                except FileNotFoundError:
                    continue
                allocated = status.st_blocks * 512
                total += min(status.st_size, allocated) if allocated else status.st_size
    return total
