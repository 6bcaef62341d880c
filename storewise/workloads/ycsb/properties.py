"""Property files of YCSB: read, checked, and turned into parameters of a phase."""

from __future__ import annotations

import logging
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

from pydantic import ConfigDict, TypeAdapter, ValidationError

from storewise.errors import ConfigError
from storewise.workloads.contract import PhaseParams
from storewise.workloads.ycsb.params import (
    ALIASES,
    CORE_WORKLOADS,
    PROPORTIONS,
    LoadParams,
    MixedParams,
    canonical,
)
from storewise.yamlfile import is_file, nearest, read_text, shown

_log = logging.getLogger("storewise")

#: Of a property file; YCSB's own have a hundredth of it.
MOST_BYTES = 100_000
#: Parameters of every phase that YCSB has, too; 0 is its word for no limit.
_LIMITS = ("operations", "seconds", "rate")
#: The parameters that properties of YCSB stand for.
_PARAMETERS = {
    name: field
    for name, field in (LoadParams.model_fields | MixedParams.model_fields).items()
    if name in _LIMITS or name not in PhaseParams.model_fields
}
#: Properties of YCSB that have no place in a phase.
_NOT_USED = ("threadcount", "db", "table", "fieldnameprefix", "fieldlengthhistogram")


def read_properties(path: Path) -> dict[str, tuple[str, int]]:
    """The properties of a file with the line of each, in the syntax of Java's
    ``Properties.load``: comments with # or !, ``=``, ``:`` or space, continued lines.

    Raises ConfigError for a file that cannot be read.
    """
    properties: dict[str, tuple[str, int]] = {}
    begun = ""
    lines = read_text(path, "property file", MOST_BYTES).splitlines()
    for number, line in enumerate([*lines, ""], 1):
        text, begun = begun + line.strip(), ""
        if not text or text[0] in "#!":
            continue
        if re.search(r"(?<!\\)(\\\\)*\\$", text):
            begun = text[:-1]
            continue
        name, _, value = re.split(r"(\s*[=:]\s*|\s+|$)", text, maxsplit=1)
        properties[name] = (value, number)
    return properties


def resolve(
    phase: str, model: type[PhaseParams], params: Mapping[str, Any], base: Path
) -> dict[str, Any]:
    """Parameters of a phase under the names of its model.

    The other parameters override those of the file named by `properties`, whose path is relative to
    the working directory, or else to `base`. Raises ConfigError for an invalid file or property.
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
    if phase in CORE_WORKLOADS:
        _check_mix(path, phase, usable)
    fields = set(model.model_fields)
    if model is LoadParams:
        fields -= set(_LIMITS)  # YCSB's own load has no use for them
    return {**{name: value for name, value in usable.items() if name in fields}, **values}


def _usable(path: Path) -> dict[str, Any]:
    """The parameters of a phase that a file's properties set."""
    usable: dict[str, Any] = {}
    ignored: list[str] = []
    for name, (text, line) in read_properties(path).items():
        where = f"{path}, line {line}: property {name!r}"
        parameter = ALIASES.get(name, name)
        if name == "workload":
            if not text.endswith("CoreWorkload") and text != "core":
                raise ConfigError(f"{where} is {text!r}; only CoreWorkload is supported")
        elif parameter in _PARAMETERS:
            if parameter not in _LIMITS or text != "0":
                usable[parameter] = _value(text, parameter, where)
        elif name in _NOT_USED or "." in name:
            # A dot follows the name of a binding, or of a part of YCSB's own measurements.
            ignored.append(name)
        elif like := nearest(name, [*_PARAMETERS, *ALIASES]):
            raise ConfigError(
                f"{where} is not a property of this workload{like}; docs/ycsb.md lists them"
            )
        else:
            ignored.append(name)
    if ignored:
        _log.warning(
            "%s: not used: %s; the study's `engines` say which stores take part, and the factor "
            "`threads` or the steps of a phase how many clients there are",
            path,
            ", ".join(ignored),
        )
    return usable


def _check_mix(path: Path, phase: str, usable: Mapping[str, Any]) -> None:
    """Raise ConfigError if the file has another mix of operations than the phase."""
    for operation, name in PROPORTIONS.items():
        own = CORE_WORKLOADS[phase].get(operation, 0.0)
        share = usable.get(name, own)
        if share != own:
            raise ConfigError(
                f"{path}: {name} is {share:g}, but phase {phase} has {own:g}; use phase `run` for "
                "a mix of your own"
            )


def _value(text: str, parameter: str, where: str) -> Any:
    """A property's text as the value of a parameter; ConfigError if it is invalid."""
    field = _PARAMETERS[parameter]
    of_field: Any = Annotated[(field.annotation, field)]
    try:
        return TypeAdapter(of_field, config=ConfigDict(allow_inf_nan=False)).validate_strings(text)
    except ValidationError as error:
        reason = error.errors()[0]["msg"]
        raise ConfigError(f"{where} is {text!r}: {reason[0].lower()}{reason[1:]}") from error
