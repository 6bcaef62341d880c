"""Property files of YCSB: read, checked, and turned into parameters of a phase."""

from __future__ import annotations

import logging
import re
from collections.abc import Mapping
from math import isfinite
from pathlib import Path
from typing import Any

from pydantic import ConfigDict, ValidationError, create_model

from storewise.errors import ConfigError
from storewise.workloads.contract import PhaseParams
from storewise.workloads.ycsb.params import (
    ALIASES,
    DOTTED,
    PROPORTIONS,
    LoadParams,
    MixedParams,
    RunParams,
    canonical,
)
from storewise.yamlfile import is_file, nearest, read_text, shown

_log = logging.getLogger("storewise")

#: Of a property file; YCSB's own have a hundredth of it.
MOST_BYTES = 100_000
#: Properties of YCSB that have no place in a phase: what to write in the study instead.
_ELSEWHERE = {
    "threadcount": "the factor `threads` or the steps of a phase say how many clients there are",
    "db": "the study's `engines` say which stores take part",
    "table": "the table is always `usertable`",
    "fieldnameprefix": "fields are always `field0`, `field1`, ...",
}
#: Those whose name begins so belong to a binding or to YCSB's own measurements.
_FOREIGN = re.compile(
    r"(measurement|hdrhistogram|histogram|timeseries|raw|exporter|exportfile|status|label|"
    r"reportlatency|latencytracked|maxretries|core_workload_insertion_retry|dotransactions|"
    r"db|jdbc|mongodb|cassandra|hbase|riak|redis|postgres|mysql|pg|sqlite|basicdb|simulate|"
    r"verbose|hosts|columnfamily|table|"
    r"histogram\.buckets)(\.|_|type|$|[a-z]*\.)"
)
#: Properties that change what is measured and that this workload does not have.
_REFUSED = {
    "fieldlengthhistogram": "lengths of fields from a histogram are not supported",
}
_COMMON = frozenset(PhaseParams.model_fields)
_CORE = re.compile(r"(site\.ycsb|com\.yahoo\.ycsb)\.workloads\.CoreWorkload|core")


def read_properties(path: Path) -> dict[str, tuple[str, int]]:
    """The properties of a file with the line of each, in the syntax of Java's
    ``Properties.load``: comments with # or !, ``=``, ``:`` or space, continued lines.

    Raises ConfigError for a file that cannot be read.
    """
    text = read_text(path, "property file", MOST_BYTES)
    properties: dict[str, tuple[str, int]] = {}
    logical, start = "", 0
    for number, line in enumerate(text.splitlines(), 1):
        stripped = line.lstrip()
        if not logical:
            if not stripped or stripped[0] in "#!":
                continue
            start = number
        logical += stripped
        if re.search(r"(?<!\\)(\\\\)*\\$", logical):
            logical = logical[:-1]
            continue
        name, value = _split(logical)
        properties[name] = (value, start)
        logical = ""
    if logical:
        name, value = _split(logical)
        properties[name] = (value, start)
    return properties


def _split(line: str) -> tuple[str, str]:
    match = re.match(r"((?:\\.|[^\\=:\s])*)\s*[=:]?\s*(.*)$", line)
    assert match is not None  # every line matches
    return tuple(re.sub(r"\\(.)", r"\1", part).strip() for part in match.groups())  # type: ignore[return-value]


def resolve(
    phase: str, model: type[PhaseParams], params: Mapping[str, Any], base: Path
) -> dict[str, Any]:
    """Parameters of a phase under the names of its model.

    Where they have `properties`, the file's properties come first and are replaced by what stands
    beside it; its path starts at the working directory, or else at `base`. Raises ConfigError for
    a file or a property that cannot be used.
    """
    try:
        values = canonical(params)
    except ValueError as error:
        raise ConfigError(str(error)) from error
    name = values.pop("properties", None)
    if name is None:
        return values
    if not isinstance(name, str) or not name:
        raise ConfigError(f"`properties` names one property file of YCSB; found {shown(name)}")
    path = Path(name) if is_file(Path(name)) else base / name
    return {**_usable(path, phase, model), **values}


def _usable(path: Path, phase: str, model: type[PhaseParams]) -> dict[str, Any]:
    known = {*LoadParams.model_fields, *MixedParams.model_fields} - {*PhaseParams.model_fields}
    known |= set(ALIASES.values())
    usable: dict[str, Any] = {}
    ignored: list[str] = []
    for name, (text, line) in read_properties(path).items():
        where = f"{path}, line {line}: property {name!r}"
        plain = ALIASES.get(name) or DOTTED.get(name) or name
        if name == "workload":
            if not _CORE.fullmatch(text):
                raise ConfigError(f"{where} is {text!r}; only CoreWorkload is supported")
        elif name in _REFUSED:
            raise ConfigError(f"{where}: {_REFUSED[name]}")
        elif plain in known:
            usable[plain] = _value(text, plain, where)
        elif name in _ELSEWHERE:
            ignored.append(f"{name} ({_ELSEWHERE[name]})")
        elif _FOREIGN.match(name):
            ignored.append(name)
        else:
            names = sorted({*known, *ALIASES, *DOTTED, *_ELSEWHERE})
            raise ConfigError(
                f"{where} is not one that this workload knows{nearest(name, names)}; "
                "docs/ycsb.md lists them"
            )
    if ignored:
        _log.warning("%s: not used: %s", path, ", ".join(ignored))
    for name in ("operations", "seconds", "rate"):
        if usable.get(name) == 0:
            del usable[name]  # YCSB's word for no limit
    if issubclass(model, RunParams) and model.mix:
        _same_mix(path, phase, model, usable)
    fields = set(model.model_fields)
    if model is LoadParams:
        fields -= {"operations", "seconds", "rate"}  # YCSB's own load has no use for them
    return {name: value for name, value in usable.items() if name in fields}


def _same_mix(path: Path, phase: str, model: type[RunParams], usable: Mapping[str, Any]) -> None:
    """A phase that has a mix takes a file with the same one only."""
    proportions = {
        op: float(usable[key]) for op, key in PROPORTIONS.items() if usable.get(key) is not None
    }
    for operation, share in proportions.items():
        if share != model.mix.get(operation, 0.0):
            raise ConfigError(
                f"{path}: {PROPORTIONS[operation]} is {share:g}, but phase {phase} has "
                f"{model.mix.get(operation, 0.0):g}; use phase `run` for a mix of your own"
            )


def _value(text: str, name: str, where: str) -> Any:
    """A property's text as the number or truth value that it is; ConfigError where it cannot be
    the parameter `name`."""
    plain = _plain(text)
    if name in ("operations", "seconds", "rate") and plain == 0:
        return 0  # no limit
    model = LoadParams if name in LoadParams.model_fields and name not in _COMMON else MixedParams
    field = model.model_fields[name]
    config = ConfigDict(allow_inf_nan=False)
    alone: Any = (field.annotation, field)
    checked = create_model("One", __config__=config, value=alone)
    try:
        checked.model_validate({"value": plain})
    except ValidationError as error:
        reason = error.errors()[0]["msg"]
        raise ConfigError(f"{where} is {text!r}: {reason[0].lower()}{reason[1:]}") from error
    return plain


def _plain(text: str) -> Any:
    if text.lower() in ("true", "false"):
        return text.lower() == "true"
    for kind in (int, float):
        try:
            number = kind(text)
        except ValueError:
            continue
        if isfinite(number):
            return number
    return text
