"""Typical uses of a store, each a set of weights: the same score with other priorities.

The weights are judgements, shown beside the answer and movable on the page: the criterion that a
use is about weighs eight times as much as one that matters beside it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import pandas as pd

from storewise.analysis.common.text import all_of
from storewise.analysis.decision import Conditions, decide
from storewise.analysis.decision import Criterion as Rule
from storewise.analysis.model.tables import Tables
from storewise.analysis.verdict.criteria import client_threads
from storewise.analysis.verdict.criterion import Criterion
from storewise.analysis.verdict.measures import placed, without_server

MAIN, BESIDE = 8.0, 1.0
#: Stores that an answer names.
NAMED = 3


@dataclass(frozen=True, slots=True)
class Use:
    """One use: a key, words after "if you mostly", the criteria that it is about, of which one must
    have been measured for two stores, and those that matter beside them."""

    key: str
    words: str
    about: tuple[str, ...]
    beside: tuple[str, ...]

    @property
    def weights(self) -> dict[str, float]:
        """Criterion -> its weight in this use."""
        share = MAIN / len(self.about)
        return dict.fromkeys(self.about, share) | dict.fromkeys(self.beside, BESIDE)


USES = (
    Use("look_up", "load once and look up by id", ("read",), ("load", "disk")),
    Use("questions", "ask a biologist's questions", ("scan", "aggregate"), ("load", "disk")),
    Use("write", "write from many clients at once", ("load",), ("scaling", "disk")),
    Use("small", "keep it small", ("disk",), ("inodes",)),
    Use("crash", "must survive a crash", ("read",), ("load", "slow_node")),
)


@dataclass(frozen=True, slots=True)
class Choice:
    """The answer for one use: the stores that are first, and the weights as shares."""

    use: Use
    stores: tuple[str, ...]
    shares: Mapping[str, float]
    files_better: bool = False
    """Whether the input files, which are no store, are better still."""
    apart: tuple[str, ...] = ()
    """The stores in which each writing process has its own store."""

    @property
    def words(self) -> str:
        """``SQLite or PostgreSQL (SQLite: one store per writing process)``."""
        more = "; the files alone are better still" if self.files_better else ""
        if self.apart:
            which = "" if self.apart == self.stores else f"{all_of(self.apart)}: "
            more = f" ({which}one store per writing process){more}"
        return f"{names_of(self.stores)}{more}"


def names_of(stores: Sequence[str]) -> str:
    """Stores of which any will do: ``SQLite``, ``SQLite or DuckDB``, ``A, B or 3 others``."""
    if len(stores) <= NAMED:
        return " or ".join([", ".join(stores[:-1]), stores[-1]] if stores[1:] else stores)
    return f"{', '.join(stores[: NAMED - 1])} or {len(stores) - NAMED + 1} others"


def choices(
    tables: Tables,
    criteria: Sequence[Criterion],
    measures: pd.DataFrame,
    rules: Mapping[str, Rule],
    conditions: Conditions,
) -> list[Choice]:
    """The answer for each use about which something was measured for several stores.

    From a single client that loads nothing follows for many. What must survive a crash is asked of
    stores only that lost nothing in any, so only where servers were killed.
    """
    several = {one.name for one in criteria if len(one.stores) > 1}
    alone = tables.trials[client_threads(tables.trials) < 2]
    one_writer = set(placed(alone, tables)["clients"]) if len(alone) else set()
    answers = []
    for use in USES:
        about = [one for one in criteria if one.name in several & set(use.about)]
        mine = measures
        if use.key == "write":
            mine = measures[~measures["clients"].isin(one_writer)]
        elif use.key == "crash":
            safe = [s for s, (lost, _) in conditions.crashes.items() if lost == 0]
            mine = measures[measures["store"].isin(safe)]
        if not about or mine.empty:
            continue
        # What not all of these stores have (nodes of embedded ones) is no reason to leave any out.
        compared = set(mine["store"]) - set(conditions.no_stores)
        has = mine.groupby("criterion")["store"].agg(set).to_dict()
        weights = {
            name: weight
            for name, weight in use.weights.items()
            if name in several and (name in use.about or compared <= has.get(name, set()))
        }
        weighted = {name: replace(rules[name], weight=w) for name, w in weights.items()}
        names = decide(mine, weighted, replace(conditions, crashes={})).named
        if use.key == "crash" and not names:
            names = sorted(compared)
        if names:
            shares = {name: weight / sum(weights.values()) for name, weight in weights.items()}
            own = without_server(tables) if use.key == "write" else ()
            apart = tuple(name for name in names if name in own)
            answers.append(Choice(use, tuple(names), shares, all(map(_files_lead, about)), apart))
    return answers


def _files_lead(criterion: Criterion) -> bool:
    """Whether reading the input files is better than any store."""
    files = [s.estimate.mean for s in criterion.standings if s.baseline]
    stores = [s.estimate.mean for s in criterion.stores]
    if not files or not stores:
        return False
    return files[0] > max(stores) if criterion.more else files[0] < min(stores)
