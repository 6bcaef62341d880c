"""`storewise doctor`: what can run here, in which version, and what to install if not."""

from __future__ import annotations

import os
import platform
import shutil
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from storewise.engines.contract.server import ServerEngine
from storewise.engines.registry import ENGINES, engine
from storewise.errors import EngineError

#: Programs and packages beside the engines: name, what it is for, what to install.
PROGRAMS = (
    ("ssearch36", "searching FASTA files (inputs: search)", "Debian fasta3, bioconda fasta3"),
    ("sbatch", "profiles/slurm, aws", "run on a host of a Slurm cluster that submits jobs"),
    ("qsub", "profiles/pbs", "run on a host of a PBS cluster that submits jobs"),
)
PACKAGES = (
    ("snakemake", "all of it", "make env"),
    ("snakemake-executor-plugin-slurm", "profiles/slurm", "make env"),
    ("snakemake-executor-plugin-cluster-generic", "profiles/pbs", "make env"),
)


@dataclass(frozen=True, slots=True)
class Finding:
    """What is known of one engine or tool on this host."""

    name: str
    kind: str
    """``engine`` or ``tool``."""
    runs: bool
    version: str
    """Empty where it does not run."""
    advice: str
    """Why not, and what to install; empty where it runs."""


def examine_engines(settings: Mapping[str, Mapping[str, Any]]) -> list[Finding]:
    """The engines named by the keys, each with its settings."""
    return [_engine(name, own) for name, own in settings.items()]


def missing_engines(settings: Mapping[str, Mapping[str, Any]]) -> dict[str, str]:
    """Those of the engines named by the keys that cannot run on this host, and why not."""
    return {found.name: found.advice for found in examine_engines(settings) if not found.runs}


def examine(names: Iterable[str] = ()) -> list[Finding]:
    """The engines of these names, by default all engines and tools."""
    wanted = list(names)
    found = examine_engines({name: {} for name in wanted or ENGINES})
    if wanted:
        return found
    for program, purpose, hint in PROGRAMS:
        where = shutil.which(program)
        advice = "" if where else f"not on PATH; needed for {purpose}: {hint}"
        found.append(Finding(program, "tool", where is not None, where or "", advice))
    for package, purpose, hint in PACKAGES:
        try:
            found.append(Finding(package, "tool", True, version(package), ""))
        except PackageNotFoundError:
            advice = f"not installed; needed for {purpose}: {hint}"
            found.append(Finding(package, "tool", False, "", advice))
    return found


def _engine(name: str, settings: Mapping[str, Any]) -> Finding:
    try:
        found = engine(name)
        if isinstance(found, ServerEngine):
            installation = found.find(settings)
            clients = found.versions()
            text = ", ".join([installation.version, *(f"{k} {v}" for k, v in clients.items())])
        else:
            text = ", ".join(f"{k} {v}" for k, v in found.versions().items())
    except EngineError as error:
        return Finding(name, "engine", False, "", str(error))
    return Finding(name, "engine", True, text, "")


def host_line() -> str:
    """This host in a line."""
    user = "root" if os.geteuid() == 0 else f"uid {os.geteuid()}"
    return (
        f"{platform.node()}, {platform.system()} {platform.release()}, "
        f"Python {platform.python_version()}, {user}"
    )
