"""A criterion, and the standings of the stores by it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import pandas as pd

from storewise.analysis.judge.comparable_steps import WITH
from storewise.analysis.stats.intervals import Estimate

#: Column with row numbers in the CSV file of the table, from 0: ``3`` or ``3-5,9``.
SOURCE_ROW = "source_row"
#: Column: the number of operations of a figure, over all repeats.
FINISHED = "count"
#: Columns of a criterion's values, one row per trial and phase. WITH describes the step further,
#: in words.
VALUES = ["trial", "phase", "value", WITH, FINISHED, SOURCE_ROW]


@dataclass(frozen=True, slots=True)
class Standing:
    """The figure of one store for one criterion. `where`: its deployment and clients, in words.
    `estimate` has the interval of its ratio to the best store. `rank`: 1 for the best and stores
    not significantly worse, 2 for worse ones, 0 for the baseline and single runs. `source_row`:
    rows of the criterion's table; `finished`: number of operations."""

    label: str
    engine: str
    where: str
    estimate: Estimate
    rank: int
    finished: float
    source_row: str = ""
    baseline: bool = False

    @property
    def leads(self) -> bool:
        """Whether no other store is significantly better."""
        return self.rank == 1


@dataclass(frozen=True, slots=True)
class Criterion:
    """The measured values of one criterion, and the standings of the stores.

    `values` has the columns VALUES, from the table `table`; `about`: phase and level, in words;
    `counts`: whether it counts without weights of the study (not if other criteria say the same).
    `standings`: the baseline, then the stores, the best first; `weight`: its share in the scores.
    """

    name: str
    title: str
    unit: str
    more: bool
    values: pd.DataFrame
    least: float = 0.0
    about: str = ""
    table: str = "summary"
    counts: bool = True
    standings: Sequence[Standing] = ()
    weight: float = 0.0

    @property
    def stores(self) -> Sequence[Standing]:
        """The standings without the baseline."""
        return [s for s in self.standings if not s.baseline]

    @property
    def leaders(self) -> tuple[str, ...]:
        return tuple(s.label for s in self.standings if s.leads)

    def of(self, choice: str) -> Standing | None:
        """The standing of the store with this label, or None."""
        return next((s for s in self.standings if s.label == choice), None)


def figures(table: pd.DataFrame) -> pd.DataFrame:
    """The columns VALUES of a table. Missing columns are added empty; a missing FINISHED becomes
    infinity (no limit)."""
    table = table.reindex(columns=VALUES).astype({WITH: object})
    return table.fillna({WITH: "", FINISHED: math.inf})
