"""What differs between two studies beside their figures: the config, versions, hosts."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from storewise.analysis.files.parts import Part, instance_of
from storewise.analysis.model.tables import Tables

#: Keys of a study that only name it.
_NAMES = ("name", "title")
#: What of a host's facts matters to its speed.
_HOST = ("name", "processor", "cpus", "memory_bytes", "system")


@dataclass(frozen=True, slots=True)
class Difference:
    """One thing that is not the same: what it is in old and in new (empty: not there)."""

    what: str
    old: str
    new: str


def differences(old: Tables, new: Tables) -> list[Difference]:
    """Config of the resolved studies, key by key, then conditions of the trials."""
    before, after = ({**dict(_flat(one.results.study)), **conditions(one)} for one in (old, new))
    return [
        Difference(name, before.get(name, ""), after.get(name, ""))
        for name in {**before, **after}
        if before.get(name) != after.get(name)
    ]


def _flat(value: Any, name: str = "") -> Iterator[tuple[str, str]]:
    """Keys with dots and their values as text; phases and others with a name by that."""
    if isinstance(value, Mapping) and value:
        for key, inner in value.items():
            if name or key not in _NAMES:
                yield from _flat(inner, f"{name}.{key}" if name else str(key))
    elif value and isinstance(value, list) and all(isinstance(one, Mapping) for one in value):
        for place, one in enumerate(value):
            rest = {key: inner for key, inner in one.items() if key != "name"}
            yield from _flat(rest, f"{name}.{one.get('name', place)}")
    elif value is not None:
        text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
        yield name, text


def conditions(tables: Tables) -> dict[str, str]:
    """What trials ran under, by name; where they differ among themselves, all that there was."""
    values: dict[str, set[str]] = {}
    for part in tables.results.parts:
        for name, value in _flat(_facts(part)):
            values.setdefault(name, set()).add(value)
    for column in ("version", "host"):
        if column in tables.nodes:
            values[f"servers: {column}"] = set(map(str, tables.nodes[column].dropna()))
    if tables.results.inputs is not None:
        values["inputs"] = {
            f"{tables.results.inputs.files:,} files, {tables.results.inputs.bytes:,} bytes"
        }
    return {name: ", ".join(sorted(several)) for name, several in values.items()}


def _facts(part: Part) -> dict[str, Any]:
    stored, instance = part.conditions, instance_of(part.conditions)
    host = {name: (stored.get("host") or {}).get(name) for name in _HOST}
    host["instance"] = f"{instance['type']} {instance.get('life_cycle', '')}" if instance else None
    return {
        "version": stored.get("versions") or None,
        "host": host,
        "file system": stored.get("store_file_system"),
    }


def warning_words(tables: Tables, side: str) -> str:
    """How often each warning of a study was given; empty without any."""
    counts = Counter(warning.code for warning in tables.warnings)
    words = ", ".join(f"{code} ({count})" for code, count in counts.items())
    return f"Warnings of {side}, which its report explains: {words}" if words else ""


def canary_words(old: Tables, new: Tables) -> str:
    """How fast the machines were, by the canary: a small fixed piece of work that each trial begins
    with. Empty where one has none."""
    means = []
    for canary in (old.canary, new.canary):
        values = canary.loc[(canary["metric"] == "canary_cpu") & (canary["value"] > 0), "value"]
        means.append(np.log(values.astype(float)).mean())
    ratio = float(np.exp(means[1] - means[0]))
    return "" if np.isnan(ratio) else f"New's processor was {ratio:.2f} times as fast as old's"
