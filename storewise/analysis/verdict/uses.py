"""Typical uses of a store: the same score with other weights.

The weights are a judgement; a reader can change them on the page. The main criteria of a use share
a weight of MAIN, each secondary one has BESIDE.
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
#: Largest number of stores that an answer names.
NAMED = 3


@dataclass(frozen=True, slots=True)
class Use:
    """One use: a key, the text after "if you mostly", the main criteria (`about`; one of them must
    have been measured for two stores) and the secondary ones (`beside`)."""

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
    """The answer for one use: the best stores, and the weights as shares (sum 1)."""

    use: Use
    stores: tuple[str, ...]
    shares: Mapping[str, float]
    files_better: bool = False
    """Whether the input files, which are no store, are better than these stores."""
    apart: tuple[str, ...] = ()
    """The stores in which each writing process has its own store."""

    @property
    def words(self) -> str:
        """The answer as text: ``SQLite or PostgreSQL (SQLite: one store per writing process)``."""
        more = "; the files alone are better still" if self.files_better else ""
        if self.apart:
            which = "" if self.apart == self.stores else f"{all_of(self.apart)}: "
            more = f" ({which}one store per writing process){more}"
        return f"{names_of(self.stores)}{more}"


def names_of(stores: Sequence[str]) -> str:
    """Equally good stores as text: ``SQLite``, ``SQLite or DuckDB``, ``A, B or 3 others``."""
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
    """The answer for each use with a main criterion that was measured for several stores.

    "Write" leaves out trials with one client, which say nothing about many. "Crash" compares only
    stores that lost nothing in any crash, so it needs trials in which servers were killed.
    """
    several = {criterion.name for criterion in criteria if len(criterion.stores) > 1}
    single_client = tables.trials[client_threads(tables.trials) < 2]
    one_writer = set(placed(single_client, tables)["clients"]) if len(single_client) else set()
    answers = []
    for use in USES:
        about = [criterion for criterion in criteria if criterion.name in several & set(use.about)]
        rows = measures
        if use.key == "write":
            rows = measures[~measures["clients"].isin(one_writer)]
        elif use.key == "crash":
            safe = [s for s, (lost, _) in conditions.crashes.items() if lost == 0]
            rows = measures[measures["store"].isin(safe)]
        if not about or rows.empty:
            continue
        # A secondary criterion counts only if all of these stores have it.
        compared = set(rows["store"]) - set(conditions.no_stores)
        has = rows.groupby("criterion")["store"].agg(set).to_dict()
        weights = {
            name: weight
            for name, weight in use.weights.items()
            if name in several and (name in use.about or compared <= has.get(name, set()))
        }
        weighted = {name: replace(rules[name], weight=w) for name, w in weights.items()}
        names = decide(rows, weighted, replace(conditions, crashes={})).named
        if use.key == "crash" and not names:
            names = sorted(compared)
        if names:
            shares = {name: weight / sum(weights.values()) for name, weight in weights.items()}
            separate = without_server(tables) if use.key == "write" else ()
            apart = tuple(name for name in names if name in separate)
            answers.append(Choice(use, tuple(names), shares, all(map(_files_lead, about)), apart))
    return answers


def _files_lead(criterion: Criterion) -> bool:
    """Whether reading the input files is better than every store."""
    files = [s.estimate.mean for s in criterion.standings if s.baseline]
    stores = [s.estimate.mean for s in criterion.stores]
    if not files or not stores:
        return False
    return files[0] > max(stores) if criterion.more else files[0] < min(stores)
