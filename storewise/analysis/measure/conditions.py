"""The conditions of a study in words: its config, hosts, versions and inputs."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pandas as pd

from storewise.analysis.common.engines import consistency, title
from storewise.analysis.common.text import binary, level
from storewise.analysis.files.parts import Part, host_of, instance_of, part_versions
from storewise.analysis.model.tables import Tables


def conditions(tables: Tables) -> dict[str, list[str]]:
    """Condition -> its distinct values over all trials; unknown ones are left out."""
    study = tables.results.study
    measured = [p for p in tables.results.parts if p.worker is not None or p.node is not None]

    def distinct(value: Callable[[Mapping[str, Any]], object]) -> list[str]:
        texts = {str(value(part.conditions) or "") for part in measured}
        return sorted(texts - {"", "unknown"})

    terms = {
        "seed": [str(study.get("seed", "unknown"))],
        "repeats": [str(study.get("repeats", "unknown"))],
        "workload": [str(study.get("workload", "alignments"))],
        "phases": list(map(_phase, study.get("phases", []))),
        "factors": _factors(tables.trials, tables.results.factors),
        "hosts": distinct(lambda part: ": ".join(host_of(part))),
        "EC2 instances": distinct(_instance),
        "operating system": distinct(lambda part: (part.get("host") or {}).get("system")),
        "file system of the stores": distinct(lambda part: part.get("store_file_system")),
        "sampled disk": distinct(lambda part: part.get("sampled_disk")),
        "engine settings": _settings(study),
        "consistency": _consistency(tables.trials),
        "versions": _versions(measured),
        "inputs": _inputs(tables),
    }
    return {term: values for term, values in terms.items() if values}


def _phase(phase: Mapping[str, Any]) -> str:
    params = {k: v for k, v in (phase.get("params") or {}).items() if v is not None}
    words = ", ".join(f"{k} {v}" for k, v in params.items())
    text = ": ".join(filter(None, [str(phase["name"]), words]))
    steps = phase.get("steps") or []
    return f"{text} ({len(steps)} steps: {json.dumps(steps)})" if steps else text


def _factors(trials: pd.DataFrame, factors: Sequence[str]) -> list[str]:
    """Levels in their order, numbers first."""
    levels = {name: set(trials[name].dropna()) for name in factors if len(trials)}
    ordered = {
        name: sorted(found, key=lambda one: (isinstance(one, str), one))
        for name, found in levels.items()
    }
    return [f"{name}: {', '.join(map(level, found))}" for name, found in ordered.items()]


def _instance(part: Mapping[str, Any]) -> str:
    """Type, price class, zone and image of the instance that a part was measured on."""
    names = {"type": "", "life_cycle": "", "zone": "zone ", "image": "image "}
    instance = instance_of(part)
    return ", ".join(f"{name}{instance.get(key, '?')}" for key, name in names.items() if instance)


def _settings(study: Mapping[str, Any]) -> list[str]:
    return [
        f"{title(name)}: {json.dumps(settings) if settings else 'defaults'}"
        for name, settings in (study.get("engines") or {}).items()
    ]


def _consistency(trials: pd.DataFrame) -> list[str]:
    """The guarantees of each consistency level that was measured."""
    if "consistency" not in trials:
        return []
    pairs = sorted(set(zip(trials["engine"], trials["consistency"], strict=True)))
    told = [(title(name), promise, consistency(name, promise)) for name, promise in pairs]
    return [f"{store}, {promise}: {meaning}" for store, promise, meaning in told if meaning]


def _versions(parts: Sequence[Part]) -> list[str]:
    by_name: dict[str, set[str]] = {}
    for part in parts:
        for name, version in part_versions(part):
            # A server's version includes its product's name.
            known = "server" if name.startswith("server of") else name
            by_name.setdefault(known, set()).add(version)
    return [f"{name} {', '.join(sorted(versions))}" for name, versions in sorted(by_name.items())]


def _inputs(tables: Tables) -> list[str]:
    total = tables.results.inputs
    if total is None:
        return []
    documents = f", {total.documents:,} documents" if total.documents is not None else ""
    return [f"{total.files:,} files, {binary(total.bytes)} on disk{documents}"]
