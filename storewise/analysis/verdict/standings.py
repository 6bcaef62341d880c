"""Choices at one criterion: each with its best measured configuration, and its rank group."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from storewise.analysis.common.choices import label
from storewise.analysis.common.engines import BASELINE, CEILING, varying_factors
from storewise.analysis.common.frames import missing, records
from storewise.analysis.common.text import number, seconds, setting
from storewise.analysis.judge import comparable_steps as comparable
from storewise.analysis.measure.scaling import as_estimate
from storewise.analysis.stats.intervals import Estimate
from storewise.analysis.verdict.criteria import CHOSEN_BY, CLIENT_BOUND, NOTE, SOURCE_ROW, Figures
from storewise.analysis.verdict.ranking import ranks

#: Factors that give a cluster its shape and are named with the choice.
SHAPE = ("nodes", "replicas")


@dataclass(frozen=True, slots=True)
class Standing:
    """One choice at one criterion; `topology` ("2 nodes") and `where` are the rest of its
    configuration in words. `rank` is 0 for the baseline, which is no store but what a user has
    without one. `source_row` has the rows of the criterion's table behind it."""

    label: str
    topology: str
    where: str
    estimate: Estimate
    rank: int
    baseline: bool = False
    note: str = ""
    source_row: str = ""

    @property
    def leads(self) -> bool:
        """Whether no other choice was shown to be better."""
        return self.rank == 1

    @property
    def shown(self) -> str:
        """The choice with the shape of its cluster, where that matters."""
        return f"{self.label} on {self.topology}" if self.topology else self.label

    @property
    def configuration(self) -> str:
        return ", ".join(words for words in (self.topology, self.where) if words)

    @property
    def client_bound(self) -> bool:
        """Whether the store could do more than its clients asked for."""
        return self.note == CLIENT_BOUND


@dataclass(frozen=True, slots=True)
class Criterion:
    """One criterion with the baseline, then the choices by rank and figure, and the sentence about
    it; `table` is where its figures come from, `weight` its share in the scores."""

    name: str
    title: str
    about: str
    unit: str
    more: bool
    table: str
    standings: Sequence[Standing]
    sentence: str
    counts: bool = True
    least: float = 0.0
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


def standings(
    figures: Figures,
    factors: Sequence[str],
    promises: Sequence[str],
    aside: Mapping[str, str],
) -> list[Standing]:
    """The baseline if it has a figure, then the choices by rank and figure.

    The best configuration is that with the best mean (or the greatest CHOSEN_BY); the best of
    several is a little flattered by chance, the more, the more there were.
    """
    rows = figures.rows
    best: dict[str, dict[str, Any]] = {}
    for row in records(rows):
        name = label(row, promises)
        # A rate of 0 is no result; no set-up time and no loss are.
        possible = row["mean"] > 0 or (row["mean"] == 0 and not figures.more)
        if row["engine"] == CEILING or name in aside or not possible:
            continue
        if name not in best or _preferred(row, best[name], figures.more):
            best[name] = row
    there = [f for f in factors if f in rows]
    varying = [f for f in varying_factors(rows, there) if f not in promises]
    told = comparable.WITH in rows
    varying += ["step"] if not told and "step" in rows and rows["step"].nunique() > 1 else []
    stores = [(name, row) for name, row in best.items() if row["engine"] != BASELINE]
    base = [(name, row) for name, row in best.items() if row["engine"] == BASELINE]
    found = ranks([as_estimate(row) for _, row in stores], more=figures.more)
    ranked = sorted(
        zip(found, stores, strict=True),
        key=lambda one: (
            one[0],
            -one[1][1]["mean"] if figures.more else one[1][1]["mean"],
            one[1][0],
        ),
    )
    return [
        *(_standing(name, row, 0, varying) for name, row in base[:1]),
        *(_standing(name, row, rank, varying) for rank, (name, row) in ranked),
    ]


def _preferred(row: Mapping[str, Any], other: Mapping[str, Any], more: bool) -> bool:
    if CHOSEN_BY in row:
        return bool(row[CHOSEN_BY] > other[CHOSEN_BY])
    return bool(row["mean"] > other["mean"] if more else row["mean"] < other["mean"])


def _standing(name: str, row: Mapping[str, Any], rank: int, varying: Sequence[str]) -> Standing:
    where = [
        setting(row, [f for f in varying if f not in SHAPE]),
        "" if missing(row.get(comparable.WITH)) else str(row[comparable.WITH]),
    ]
    return Standing(
        name,
        setting(row, _shape(row, varying)),
        ", ".join(words for words in where if words),
        as_estimate(row),
        rank,
        row["engine"] == BASELINE,
        "" if missing(row.get(NOTE)) else str(row[NOTE]),
        str(row[SOURCE_ROW]),
    )


def _shape(row: Mapping[str, Any], varying: Sequence[str]) -> list[str]:
    """Those that vary, or that make it more than a single server."""
    there = [f for f in SHAPE if f in row and not missing(row[f])]
    return [f for f in there if f in varying or row[f] > 1]


def interval(found: Estimate, unit: str = "") -> str:
    """The 95 % interval in words and on what it rests; empty where there is none."""
    if not found.known() or not found.high > found.low:
        return ""
    basis = {
        "seconds": ", from the seconds of one run",
        "operations": ", from the operations of one run",
    }.get(found.resampled, "")
    return f"95 % interval {quantity(found.low, unit)} to {quantity(found.high, unit)}{basis}"


def quantity(value: float, unit: str) -> str:
    """A figure alone; times with a unit that suits them."""
    return seconds(value) if unit == "s" and value > 0 else number(value)


def with_unit(value: float, unit: str) -> str:
    """A figure with its unit."""
    if unit == "1" or (unit == "s" and value > 0):
        return quantity(value, unit)
    return f"{number(value)} {unit.replace('10^6', 'million')}"


def figure(standing: Standing, unit: str) -> str:
    """A standing's mean and interval in words."""
    text = with_unit(standing.estimate.mean, unit)
    inside = [interval(standing.estimate, unit)]
    inside += [f"with {standing.where}"] if standing.where else []
    inside += [standing.note]
    told = "; ".join(words for words in inside if words)
    return f"{text} ({told})" if told else text


def comparison(criterion: Criterion, better: Standing, worse: Standing) -> str:
    """How much better one choice is, in words: ``is 2.1 times as fast``, ``takes 15 % of that``.

    Neither figure may be 0.
    """
    a, b = better.estimate.mean, worse.estimate.mean
    factor = max(a, b) / min(a, b)
    if criterion.more:
        rate = criterion.unit.endswith("/s")
        if factor >= 2:
            return f"is {number(factor)} times as {'fast' if rate else 'high'}"
        return f"is {(factor - 1) * 100:.0f} % {'faster' if rate else 'higher'}"
    share = 100 / factor
    return f"takes {number(share) if share < 10 else f'{share:.0f}'} % of that"
