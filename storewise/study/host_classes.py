"""Classes of hosts: the names that a study and the rules use for what only a profile knows.

A profile writes them as one text, the resource `node_classes` of rule `node`:
``data=data/i4i.2xlarge, large=data-large/i4i.8xlarge, work=work/c7i.4xlarge/spot`` is, per class,
CLASS=PARTITION[/INSTANCE[/MARKET]]: the scheduler's partition (or queue), the type of its cloud
instances, and how those are bought.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, NoReturn, get_args

from storewise.errors import ConfigError
from storewise.yamlfile import nearest

Market = Literal["on_demand", "spot"]
MARKETS: tuple[Market, ...] = get_args(Market)
#: The classes of rules `node` and of all others, where a study does not ask for another.
DATA, WORK = "data", "work"
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]*")
#: A queue of PBS may be one of another server: ``QUEUE@SERVER``, ``@SERVER`` (qsub(1B), "-q").
_PARTITION = re.compile(r"[A-Za-z0-9_@][A-Za-z0-9_.@:-]*")
_EXPECTED = "CLASS=PARTITION[/INSTANCE[/on_demand|spot]], such as data=data/i4i.2xlarge/on_demand"


@dataclass(frozen=True, slots=True)
class NodeClass:
    """The source of the hosts of a class; `instance` is empty where the profile does not say it."""

    partition: str
    instance: str = ""
    market: Market = "on_demand"


def parse_classes(text: str) -> dict[str, NodeClass]:
    """Classes by name, in the text's order; empty for an empty text (no classes are known).

    Raises ConfigError that names the part of the text that cannot be read.
    """
    classes: dict[str, NodeClass] = {}
    for entry in filter(None, (part.strip() for part in text.split(","))):
        name, equals, place = (part.strip() for part in entry.partition("="))
        parts = [part.strip() for part in place.split("/")]
        if not equals or len(parts) > 3:
            _refuse(entry, "cannot be read")
        for i, part in enumerate((name, *parts)):
            if not (_PARTITION if i == 1 else _NAME).fullmatch(part):
                _refuse(entry, f"{part!r} is no name" if part else "a name is missing")
        if name in classes:
            _refuse(entry, f"class {name!r} is given twice")
        market = parts[2] if len(parts) == 3 else MARKETS[0]
        if market not in MARKETS:
            _refuse(
                entry, f"{market!r} is no way to buy an instance{nearest(market, list(MARKETS))}"
            )
        classes[name] = NodeClass(parts[0], "".join(parts[1:2]), market)
    return classes


def is_class_name(name: str) -> bool:
    """Whether a profile can have a class of this name."""
    return _NAME.fullmatch(name) is not None


def text_of(value: object) -> str:
    """The text of a resource as Snakemake hands it over: a Python expression, `"'text'"`."""
    try:
        return str(ast.literal_eval(str(value)))
    except (ValueError, SyntaxError):
        return str(value)


def _refuse(entry: str, why: str) -> NoReturn:
    raise ConfigError(f"node_classes of the profile: {entry!r}: {why}; expected {_EXPECTED}")


def class_named(name: str, classes: Mapping[str, NodeClass]) -> NodeClass:
    """The class of this name; ConfigError with the nearest known one where there is none."""
    if name in classes:
        return classes[name]
    known = ", ".join(classes) or "none"
    raise ConfigError(
        f"node class {name!r} is not one of the profile's{nearest(name, list(classes))}; "
        f"known in its resource node_classes: {known}"
    )
