"""Titles and properties of engines, as far as the analysis needs them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cache, partial
from typing import Any

import pandas as pd

from storewise.analysis.common.frames import missing
from storewise.engines.contract.engine import Engine
from storewise.engines.contract.server import ServerEngine
from storewise.engines.registry import BASELINE as BASELINE
from storewise.engines.registry import CEILING as CEILING
from storewise.engines.registry import engine as load
from storewise.engines.registry import is_engine
from storewise.errors import EngineError
from storewise.study.factors import OF_SERVERS


@cache
def _engine(name: str) -> Engine | None:
    """The engine; None if its driver is not installed on the analysing host."""
    try:
        return load(name)
    except EngineError:
        return None


#: Engine -> the name of its server in the study read last ("Valkey", "MariaDB or MySQL").
_server_titles: dict[str, str] = {}


def set_server_titles(versions: Iterable[tuple[str, str]]) -> None:
    """Set which servers a study used (MariaDB or MySQL, Valkey or Redis), for `title`.

    `versions` are pairs of an engine's name and the version that its server reported.
    """
    found: dict[str, set[str]] = {}
    for name, version in versions:
        if isinstance(engine := _engine(name), ServerEngine):
            found.setdefault(name, set()).add(engine.title_of(version))
    _server_titles.clear()
    _server_titles.update({name: " or ".join(sorted(titles)) for name, titles in found.items()})


def title(name: str) -> str:
    """The name to show for an engine: its server's name (`set_server_titles`), if known."""
    engine = _engine(name)
    return _server_titles.get(name) or (engine.title if engine is not None else name)


def _flag(flag: str, name: str, *, unknown: bool = False) -> bool:
    """A flag of an engine; `unknown` if its driver is not installed."""
    engine = _engine(name)
    return unknown if engine is None else bool(getattr(engine.flags, flag))


#: Whether the store lives in the client's process.
embedded = partial(_flag, "embedded")
#: Whether the store is an existing database, whose hosts are unknown.
external = partial(_flag, "external")
#: Whether the size that a store reports includes all replicas.
counts_copies = partial(_flag, "size_has_copies", unknown=True)


def replica_factor(row: Mapping[str, Any]) -> int:
    """The factor that turns the size a store reports into the size of all its replicas.

    It is 1 for stores whose reported size includes all replicas (`flags.size_has_copies`).
    """
    replicas = row.get("replicas")
    if missing(replicas) or counts_copies(str(row.get("engine", ""))):
        return 1
    return int(replicas or 1)


def consistency(name: str, level: str) -> str:
    """The meaning of a consistency level for this engine; empty if unknown."""
    engine = _engine(name)
    if engine is None:
        return ""
    name_there = engine.level(level)
    meaning = engine.consistencies.get(name_there, "")
    return meaning if name_there == level or not meaning else f"{name_there}: {meaning}"


def may_lose(name: str, level: str) -> bool:
    """Whether a store may lose what it has acknowledged at this consistency level."""
    engine = _engine(name)
    return engine is not None and engine.level(level) in engine.lossy_levels


def own_factor(factor: str) -> bool:
    """Whether a factor is a setting of one engine, such as ``sqlite.page_size``."""
    return "." in factor and is_engine(factor.split(".", 1)[0])


def varying_factors(table: pd.DataFrame, factors: Iterable[str]) -> list[str]:
    """The factors that have several levels within one engine, and so belong in a row's label;
    settings of single engines are left out."""
    if table.empty:
        return []
    by_engine = table.groupby("engine", observed=True)
    return [
        f
        for f in factors
        if f != "engine" and not own_factor(f) and bool((by_engine[f].nunique() > 1).any())
    ]


def client_side(factors: Iterable[str]) -> list[str]:
    """Factors that a trial without a store has, too: an engine is compared with the client's
    ceiling (the null engine) at equal levels of these."""
    return [
        f for f in factors if f not in ("engine", "consistency", *OF_SERVERS) and not own_factor(f)
    ]
