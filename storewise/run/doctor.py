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
from storewise.engines.registry import engine, engine_names, is_engine
from storewise.errors import EngineError
from storewise.estimate.work import slow_disk_note
from storewise.ssearch.parse.compiled import CORE
from storewise.yamlfile import nearest

#: Programs and packages beside the engines: name, what it is for, what to install.
PROGRAMS = (
    ("ssearch36", "searching FASTA files (inputs: search)", "Debian fasta3, bioconda fasta3"),
    ("sbatch", "profiles/slurm, aws", "run on a host of a Slurm cluster that submits jobs"),
    ("qsub", "profiles/pbs", "run on a host of a PBS cluster that submits jobs"),
)
PACKAGES = (
    ("snakemake", "all of it", "make env"),
    ("snakemake-executor-plugin-slurm", "profiles/slurm", "make env"),
    ("snakemake-executor-plugin-pbs", "profiles/pbs", "make env"),
)


@dataclass(frozen=True, slots=True)
class Finding:
    """Whether an engine or tool runs on this host."""

    name: str
    kind: str
    """``engine`` or ``tool``."""
    runs: bool
    version: str
    """Empty where it does not run."""
    advice: str
    """Why not, and what to install; empty where it runs."""
    place: str = ""
    """The directory of the servers' programs or jars; empty where there are none."""
    note: str = ""
    """Advice for studies with it, such as on slow disks; may be empty."""


def examine_engines(settings: Mapping[str, Mapping[str, Any]]) -> list[Finding]:
    """The engines named by the keys, each with its settings."""
    return [_examine_engine(name, chosen) for name, chosen in settings.items()]


def missing_engines(settings: Mapping[str, Mapping[str, Any]]) -> dict[str, str]:
    """The named engines that cannot run on this host, each with the reason."""
    return {
        finding.name: finding.advice for finding in examine_engines(settings) if not finding.runs
    }


def examine(names: Iterable[str] = ()) -> list[Finding]:
    """The engines of these names, by default all engines and tools."""
    wanted = list(names)
    findings = examine_engines({name: {} for name in wanted or engine_names()})
    if wanted:
        return findings
    for tools, find, missing in (
        (PROGRAMS, shutil.which, "not on PATH"),
        (PACKAGES, _version, "not installed"),
    ):
        for name, purpose, hint in tools:
            found = find(name)
            advice = "" if found else f"{missing}; needed for {purpose}: {hint}"
            findings.append(Finding(name, "tool", bool(found), found or "", advice))
    return [*findings, _core()]


def _core() -> Finding:
    advice = (
        "not built; outputs are read at about a third of its speed: install a C compiler and "
        "Python's headers (Debian: gcc python3-dev), then `make -B env`"
    )
    built = "built, for any Python from 3.11 on"
    return Finding("compiled core", "tool", CORE, built if CORE else "", "" if CORE else advice)


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def _examine_engine(name: str, settings: Mapping[str, Any]) -> Finding:
    note = ""
    try:
        store = engine(name)
        note = "; ".join(slow_disk_note(name, level) for level in store.slow_levels)
        there = store.find(settings) if isinstance(store, ServerEngine) else None
        clients = [f"{client} {its}" for client, its in store.versions(settings).items()]
    except EngineError as error:
        if not is_engine(name):
            known = engine_names()
            advice = f"there is no such engine{nearest(name, known)}; known: {', '.join(known)}"
            return Finding(name, "engine", False, "", advice)
        return Finding(name, "engine", False, "", str(error), note=note)
    if there is None:
        return Finding(name, "engine", True, ", ".join(clients), "", note=note)
    path = next(iter(there.programs.values()))
    place = path if path.is_dir() else path.parent
    return Finding(name, "engine", True, ", ".join([there.version, *clients]), "", str(place), note)


def host_line() -> str:
    """Name, system, Python and user of this host, in a line."""
    user = "root" if os.geteuid() == 0 else f"uid {os.geteuid()}"
    return (
        f"{platform.node()}, {platform.system()} {platform.release()}, "
        f"Python {platform.python_version()}, {user}"
    )
