"""Property files of YCSB: read, checked, and turned into parameters of a phase."""

from __future__ import annotations

import logging
import re
from collections.abc import Mapping
from math import isfinite
from pathlib import Path
from typing import Annotated, Any

from pydantic import ConfigDict, TypeAdapter, ValidationError
from pydantic.fields import FieldInfo

from storewise.errors import ConfigError
from storewise.workloads.contract import PhaseParams
from storewise.workloads.ycsb.params import (
    ALIASES,
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
#: Parameters of every phase that YCSB has, too; 0 is its word for no limit.
_LIMITS = ("operations", "seconds", "rate")
#: The parameters that properties of YCSB stand for.
_PARAMETERS: Mapping[str, FieldInfo] = {
    **{name: MixedParams.model_fields[name] for name in _LIMITS},
    **{
        name: field
        for name, field in (MixedParams.model_fields | LoadParams.model_fields).items()
        if name not in PhaseParams.model_fields
    },
}
#: Properties that have no place in a phase: what to write in the study instead.
_ELSEWHERE = {
    "threadcount": "the factor `threads` or the steps of a phase say how many clients there are",
    "db": "the study's `engines` say which stores take part",
    "table": "the table is always `usertable`",
    "fieldnameprefix": "fields are always `field0`, `field1`, ...",
}


def read_properties(path: Path) -> dict[str, tuple[str, int]]:
    """The properties of a file with the line of each, in the syntax of Java's
    ``Properties.load``: comments with # or !, ``=``, ``:`` or space, continued lines.

    Raises ConfigError for a file that cannot be read.
    """
    properties: dict[str, tuple[str, int]] = {}
    begun, start = "", 0
    lines = read_text(path, "property file", MOST_BYTES).splitlines()
    for number, line in enumerate([*lines, ""], 1):
        text = line.lstrip()
        if not begun:
            if not text or text[0] in "#!":
                continue
            start = number
        begun += text
        if number <= len(lines) and re.search(r"(?<!\\)(\\\\)*\\$", begun):
            begun = begun[:-1]
            continue
        match = re.match(r"((?:\\.|[^\\=:\s])*)\s*[=:]?\s*(.*)$", begun)
        assert match is not None  # every line matches
        name, value = (re.sub(r"\\(.)", r"\1", part).strip() for part in match.groups())
        properties[name], begun = (value, start), ""
    return properties


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
    usable = _usable(path)
    if issubclass(model, RunParams) and model.mix:
        _check_mix(path, phase, model, usable)
    fields = set(model.model_fields)
    if model is LoadParams:
        fields -= set(_LIMITS)  # YCSB's own load has no use for them
    return {**{name: value for name, value in usable.items() if name in fields}, **values}


def _usable(path: Path) -> dict[str, Any]:
    """The parameters that a file's properties stand for."""
    usable: dict[str, Any] = {}
    ignored: list[str] = []
    for name, (text, line) in read_properties(path).items():
        where = f"{path}, line {line}: property {name!r}"
        parameter = ALIASES.get(name, name)
        if name == "workload":
            if not text.endswith("CoreWorkload") and text != "core":
                raise ConfigError(f"{where} is {text!r}; only CoreWorkload is supported")
        elif name == "fieldlengthhistogram":
            raise ConfigError(f"{where}: lengths of fields from a histogram are not supported")
        elif parameter in _PARAMETERS:
            value = _number(text)
            if parameter not in _LIMITS or value != 0:
                usable[parameter] = _checked(value, parameter, f"{where} is {text!r}")
        elif name in _ELSEWHERE:
            ignored.append(f"{name} ({_ELSEWHERE[name]})")
        # A dot follows the name of a binding, or of a part of YCSB's own measurements.
        elif "." not in name and (like := nearest(name, [*_PARAMETERS, *ALIASES])):
            raise ConfigError(
                f"{where} is not one that this workload knows{like}; docs/ycsb.md lists them"
            )
        else:
            ignored.append(name)
    if ignored:
        _log.warning("%s: not used: %s", path, ", ".join(ignored))
    return usable


def _check_mix(path: Path, phase: str, model: type[RunParams], usable: Mapping[str, Any]) -> None:
    """A phase that has a mix takes a file with the same one only."""
    for operation, name in PROPORTIONS.items():
        share, own = usable.get(name), model.mix.get(operation, 0.0)
        if share is not None and share != own:
            raise ConfigError(
                f"{path}: {name} is {share:g}, but phase {phase} has {own:g}; use phase `run` for "
                "a mix of your own"
            )


def _checked(value: Any, parameter: str, where: str) -> Any:
    """The value; ConfigError where it cannot be that of the parameter."""
    field = _PARAMETERS[parameter]
    of_field: Any = Annotated[(field.annotation, field)]
    try:
        TypeAdapter(of_field, config=ConfigDict(allow_inf_nan=False)).validate_python(value)
    except ValidationError as error:
        reason = error.errors()[0]["msg"]
        raise ConfigError(f"{where}: {reason[0].lower()}{reason[1:]}") from error
    return value


def _number(text: str) -> Any:
    """A property's text as the number or truth value that it is."""
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
