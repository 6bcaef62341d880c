"""What stores are judged by, and how they stand at it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial

import pandas as pd

from storewise.analysis.stats.intervals import Estimate
from storewise.analysis.verdict.values import COLUMNS

#: Column of the rows' places in the CSV file of their table.
SOURCE_ROW = "source_row"
NOTE = "note"
#: Column: the number of operations behind a figure, over all repeats.
FINISHED = "count"


@dataclass(frozen=True, slots=True)
class Standing:
    """One store at one criterion; `where` is its deployment and its clients, in words. The interval
    is as wide as that of its ratio to the best store. `rank` is 1 for the best and what
    is not told apart from it, 2 for what is behind, 0 for the baseline and for a single run.
    `source_row` has the rows of the criterion's table behind it."""

    label: str
    where: str
    estimate: Estimate
    rank: int
    baseline: bool = False
    note: str = ""
    source_row: str = ""
    engine: str = ""
    finished: float = math.inf
    """Operations behind a rate, of all repeats."""

    @property
    def leads(self) -> bool:
        """Whether no other store was shown to be better."""
        return self.rank == 1


@dataclass(frozen=True, slots=True)
class Criterion:
    """What was measured about one criterion, and how the choices stand at it.

    `rows` come from the table `table`; `about` says of what (phase, level), in words. `standings`
    are the baseline, then the choices by rank and figure, `sentence` is about them, `weight` the
    criterion's share in the scores.
    """

    name: str
    title: str
    unit: str
    more: bool
    rows: pd.DataFrame
    about: str = ""
    table: str = "summary"
    least: float = 0.0
    counts: bool = True
    """Whether it counts where the study has no weights: not where others say the same."""
    standings: Sequence[Standing] = ()
    sentence: str = ""
    weight: float = 0.0
    values: pd.DataFrame = field(default_factory=partial(pd.DataFrame, columns=COLUMNS))
    """What each trial gives (`values.COLUMNS`)."""

    @property
    def heading(self) -> str:
        return f"{self.title} ({self.about})" if self.about else self.title

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
