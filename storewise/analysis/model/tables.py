"""All tables of a study, made in one go."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, fields

import pandas as pd

from storewise.analysis.common.warnings import StudyWarning, warning_table
from storewise.analysis.model.columns import (
    ALL,
    COSTS,
    EFFICIENCY,
    HIGHEST,
    HOSTS,
    OTHER,
    PAYS_FROM,
    QUESTION_TIME,
    RATES,
    SIZES,
    SLOWED,
)
from storewise.analysis.model.results import OfTrials, Results


@dataclass(frozen=True, slots=True)
class Judged:
    """The result of a judge: a table and warnings about it."""

    table: pd.DataFrame
    warnings: Sequence[StudyWarning] = ()
    beside: Mapping[str, pd.DataFrame] = field(default_factory=dict)
    """Further tables of the same computation, by name."""


@dataclass(frozen=True, slots=True)
class Tables(OfTrials):
    """All tables of the analysis; ``docs/analysis.md`` lists their columns.

    Tables per trial have the trial's id; its factors are in `trials`. Tables over repeats have a
    column per factor.
    """

    results: Results
    trials: pd.DataFrame
    measures: pd.DataFrame
    """All figures of trials (`measure.measures`), with the parameters of their steps."""
    summary: pd.DataFrame
    """The same over repeats (`measure.summary`)."""
    reference_curves: pd.DataFrame
    reference_agreement: pd.DataFrame
    plans: pd.DataFrame
    warnings: Sequence[StudyWarning]
    judged: Mapping[str, pd.DataFrame] = field(default_factory=dict)
    """Tables derived from the others (``storewise.analysis.pipeline.build``), by name."""

    @property
    def rates(self) -> pd.DataFrame:
        """The rows of `summary` with rates, errors and times of whole steps."""
        return _whole(self.summary, RATES)

    @property
    def throughput(self) -> pd.DataFrame:
        """The rows of `measures` with rates, errors and times of whole steps."""
        return _whole(self.measures, RATES)

    @property
    def storage(self) -> pd.DataFrame:
        """The rows of `measures` with sizes."""
        return _whole(self.measures, SIZES)

    @property
    def storage_summary(self) -> pd.DataFrame:
        """The rows of `summary` with sizes."""
        return _whole(self.summary, SIZES)

    @property
    def steps(self) -> pd.DataFrame:
        """The rows of `summary` for phases with several steps or a target rate."""
        derived = (EFFICIENCY, HIGHEST, QUESTION_TIME, PAYS_FROM, SLOWED, HOSTS, *COSTS)
        kept = self.summary[OTHER].notna() & ~self.summary["measure"].isin(derived)
        return self.summary[kept]

    @property
    def latency(self) -> pd.DataFrame:
        """The times in `measures` by operation, with columns `time` and `percentile`."""
        return _times(self.measures)

    @property
    def latency_summary(self) -> pd.DataFrame:
        """The times in `summary` by operation, with columns `time` and `percentile`."""
        times = _times(self.summary)
        return times.assign(value=times["mean"])

    @property
    def searched(self) -> set[str]:
        """The phases that searched for the highest rate: their steps differ between repeats."""
        return {part.phase for part in self.results.parts if part.conditions.get("searches")}

    def phases_of(self, table: pd.DataFrame) -> list[str]:
        """The phases in a table in the order in which they ran."""
        study = [p.get("name") for p in self.results.study.get("phases", []) if isinstance(p, dict)]
        # Without the study: loads come first, because reads need them.
        loads = set(
            self.throughput.loc[self.throughput["measure"] == "insert_documents_per_s", "phase"]
        )
        names = set(map(str, table["phase"]))
        return sorted(
            names, key=lambda n: (study.index(n) if n in study else 99, n not in loads, n)
        )

    def frames(self) -> dict[str, pd.DataFrame]:
        """All tables by name, including the warnings."""
        named = {one.name: getattr(self, one.name) for one in fields(self)}
        measured = {name: one for name, one in named.items() if isinstance(one, pd.DataFrame)}
        return {**measured, **self.judged, "warnings": warning_table(self.warnings)}


def _whole(table: pd.DataFrame, measures: Collection[str]) -> pd.DataFrame:
    """The rows of some measures over all operations."""
    return table[(table["operation"] == ALL) & table["measure"].isin(measures)]


def _times(table: pd.DataFrame) -> pd.DataFrame:
    rows = table[table["operation"] != ALL]
    parts = rows["measure"].astype(str).str.extract(r"^(?P<time>service|response)_(?P<of>.*)$")
    rows = rows.assign(time=parts["time"], percentile=parts["of"])
    return rows[parts["time"].notna()]
