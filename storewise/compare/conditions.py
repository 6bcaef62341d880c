"""What differs between two studies beside their figures: the config, versions, hosts, seeds."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from statistics import geometric_mean
from typing import Any

from storewise.analysis.common.text import binary
from storewise.analysis.files.parts import instance_of
from storewise.analysis.model.tables import Tables

#: Keys of a study that only name it.
_NAMES = ("name", "title")
#: What of a host's facts matters to its speed.
_HOST = ("name", "processor", "cpus", "memory_bytes", "system")
#: Warnings that say that a study's figures are of fewer or of other trials than it asked for, or of
#: a store that did not do its work. Without them a comparison would hide that from its reader.
DOUBTS = (
    *("wrong_documents", "wrong_number", "operation_errors", "answered_by_client"),
    *("failed_trial", "missing_trials", "missing_worker", "missing_node", "missing_session"),
    *("unreadable_part", "unreadable_log", "no_study", "other_study"),
    *("older_config", "other_config", "mixed_hosts", "mixed_versions", "busy_host"),
)


@dataclass(frozen=True, slots=True)
class Difference:
    """One thing that is not the same: its name, and what it is in A and in B (empty: not there)."""

    what: str
    a: str
    b: str


def differences(a: Tables, b: Tables) -> list[Difference]:
    """Config of the resolved studies, key by key, then conditions of the trials."""
    studies = (a.results.study, b.results.study)
    if all(studies):
        of_studies = _unequal(*(dict(_flat(study)) for study in studies))
    else:
        words = ["read" if study else "cannot be read" for study in studies]
        of_studies = [Difference("study.json (its keys are not compared)", *words)]
    return of_studies + _unequal(conditions(a), conditions(b))


def _unequal(a: Mapping[str, str], b: Mapping[str, str]) -> list[Difference]:
    return [
        Difference(name, a.get(name, ""), b.get(name, ""))
        for name in {**a, **b}
        if a.get(name, "") != b.get(name, "")
    ]


def _flat(value: Any, name: str = "") -> Iterator[tuple[str, str]]:
    """Keys with dots and their values as text; phases and others with a name by that."""
    if isinstance(value, Mapping) and value:
        for key, inner in value.items():
            if name or key not in _NAMES:
                yield from _flat(inner, f"{name}.{key}" if name else str(key))
    elif (
        isinstance(value, list)
        and value
        and all(isinstance(one, Mapping) and "name" in one for one in value)
    ):
        for one in value:
            rest = {key: inner for key, inner in one.items() if key != "name"}
            yield from _flat(rest, f"{name}.{one['name']}")
    elif isinstance(value, str):
        yield name, value
    elif value is not None:
        yield name, json.dumps(value, sort_keys=True, ensure_ascii=False)


def conditions(tables: Tables) -> dict[str, str]:
    """What trials ran under, by name; where they differ among themselves, all that there was."""
    values: dict[str, set[str]] = {}
    for part in tables.results.parts:
        stored = part.conditions
        for name, version in (stored.get("versions") or {}).items():
            values.setdefault(f"version of {name}", set()).add(str(version))
        host = stored.get("host") or {}
        for name in _HOST:
            if name in host:
                value = binary(host[name]) if name == "memory_bytes" else str(host[name])
                values.setdefault(f"host: {name.removesuffix('_bytes')}", set()).add(value)
        if instance := instance_of(stored):
            value = f"{instance.get('type', '?')} {instance.get('life_cycle', '?')}"
            values.setdefault("host: instance", set()).add(value)
        if stored.get("store_file_system"):
            values.setdefault("file system of stores", set()).add(str(stored["store_file_system"]))
    nodes = tables.nodes
    for column, name in (("version", "version of servers"), ("host", "hosts of servers")):
        if column in nodes and len(nodes):
            values[name] = set(map(str, nodes[column].dropna()))
    words = {name: ", ".join(sorted(several)) for name, several in values.items()}
    inputs = tables.results.inputs
    if inputs is not None:
        documents = "" if inputs.documents is None else f", {inputs.documents:,} documents"
        words["inputs"] = f"{inputs.files:,} files, {inputs.bytes:,} bytes{documents}"
    return words


def doubts(tables: Tables, side: str) -> list[str]:
    """Of warnings that say on what else a side's figures rest, one note per kind."""
    kinds: dict[str, list[str]] = {}
    for warning in tables.warnings:
        if warning.code in DOUBTS:
            where = f"{warning.trial}: " if warning.trial else ""
            kinds.setdefault(warning.code, []).append(where + warning.message)
    return [
        f"{side}, warning {code}: {texts[0]}"
        + (f"; and {len(texts) - 1} more" if len(texts) > 1 else "")
        for code, texts in kinds.items()
    ]


def canary_ratio(a: Tables, b: Tables) -> float | None:
    """The processor's canary of B over that of A, geometric means; None where one has none."""
    means = []
    for canary in (a.canary, b.canary):
        values = canary.loc[(canary["metric"] == "canary_cpu") & (canary["value"] > 0), "value"]
        if values.empty:
            return None
        means.append(geometric_mean(values))
    return means[1] / means[0]
