"""A criterion, and the standings of the stores by it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import pandas as pd

from storewise.analysis.judge.comparable_steps import WITH
from storewise.analysis.stats.intervals import Estimate

#: Column of the rows' places in the CSV file of their table, from 0: ``3`` or ``3-5,9``.
SOURCE_ROW = "source_row"
#: Column: the number of operations of a figure, over all repeats.
FINISHED = "count"
#: What each trial gives for a criterion, and of which phase. WITH is what else is particular about
#: the step, in words.
VALUES = ["trial", "phase", "value", WITH, FINISHED, SOURCE_ROW]


@dataclass(frozen=True, slots=True)
class Standing:
    """One store at one criterion; `where` is its deployment and its clients, in words. The interval
    is as wide as that of its ratio to the best store. `rank` is 1 for the best and what
    is not told apart from it, 2 for a worse one, 0 for the baseline and for a single run.
    `source_row` has the rows of the criterion's table it is from, `finished` the operations."""

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
        """Whether no other store was shown to be better."""
        return self.rank == 1


@dataclass(frozen=True, slots=True)
class Criterion:
    """The measured values of one criterion, and the standings of the stores by it.

    `values` (VALUES) come from the table `table`; `about` says of what (phase, level), in words;
    `counts` whether it counts where the study has no weights: not where others say the same.
    `standings` are the baseline, then the choices by figure; `weight` is the share in the scores.
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
        """All but the baseline."""
        return [s for s in self.standings if not s.baseline]

    @property
    def leaders(self) -> tuple[str, ...]:
        return tuple(s.label for s in self.standings if s.leads)

    def of(self, choice: str) -> Standing | None:
        """The standing of a choice, if it has any."""
        return next((s for s in self.standings if s.label == choice), None)


def figures(table: pd.DataFrame) -> pd.DataFrame:
    """The columns VALUES of the table; a missing column is added empty, and a missing FINISHED is
    unlimited (infinite)."""
    table = table.reindex(columns=VALUES).astype({WITH: object})
    return table.fillna({WITH: "", FINISHED: math.inf})
