"""Two studies, or two versions of one, side by side: figures of equal settings with intervals.

Pure functions of the tables of both (`storewise.analysis.model.tables`). A *figure* is a rate, a
percentile of a time, or a size, of one setting of the factors in one phase and step. Its mean over
repeats is the geometric one with the interval of `storewise.analysis.stats.intervals`; of a
percentile it is that of the repeats' percentiles. Both studies ran apart, so their means are
independent and the spread of each is its own: the ratio B/A has Welch's interval on logarithms
(Biometrika 34, 1947).

Every ratio has a p, from Student's t; those of one phase, step and measure are adjusted together
by Holm's method (Scandinavian Journal of Statistics 6, 1979), as in `storewise.analysis.
differences`, so that the chance of any false difference among them is at most 5 %. A difference is
called one only if that p is below 0.05. Intervals are those of each ratio alone. A single run says
nothing of what differs from run to run, however steady it was, so that its rates and times carry no
difference.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
import pandas as pd
from scipy.special import stdtr

from storewise.analysis.common.frames import records
from storewise.analysis.common.text import level
from storewise.analysis.model.tables import Tables
from storewise.analysis.stats.holm import holm_adjusted
from storewise.analysis.stats.intervals import Estimate, Resampled, ratio
from storewise.compare.conditions import Difference, canary_ratio, differences, doubts
from storewise.compare.sides import SIZE, Side, side_of
from storewise.errors import ResultError
from storewise.yamlfile import nearest

#: Chance of any false difference among the settings of one phase, step and measure.
ALPHA = 0.05
NO_DIFFERENCE = "no difference shown"
NOT_COMPARABLE = "not comparable"
#: Why there is none although the interval alone says so.
CORRECTED = "not after correction"
#: How far, as a ratio, the canaries of both may differ until the machines count as unequal.
CANARY = 1.1
#: Columns of the table of figures, after the factors'.
COLUMNS = (
    *("phase", "step", "measure", "kind", "unit"),
    *("n_a", "mean_a", "low_a", "high_a", "n_b", "mean_b", "low_b", "high_b"),
    *("ratio", "ratio_low", "ratio_high", "error", "freedom", "p", "p_adj"),
    *("verdict", "why"),
)


@dataclass(frozen=True, slots=True)
class By:
    """A factor of which two levels are set against each other: `a` in A, `b` in B.

    An empty level stands for a study that does not have the factor.
    """

    factor: str
    a: str
    b: str


@dataclass(frozen=True, slots=True)
class Wanted:
    """What is compared; nothing named means all."""

    by: tuple[By, ...] = ()
    measures: tuple[str, ...] = ()
    """Names of measures, or their ends after an underscore (``p99``)."""
    phases: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Comparison:
    """What differs between A and B.

    `figures` has a column per factor that rows are matched by, then COLUMNS: one row per figure
    that both have. `only` has the same factors, then side ("A", "B"), phase, step, measure, kind,
    why.
    """

    a: str
    b: str
    differences: Sequence[Difference]
    factors: tuple[str, ...]
    figures: pd.DataFrame
    only: pd.DataFrame
    notes: Sequence[str]


def compare(a: Tables, b: Tables, wanted: Wanted | None = None) -> Comparison:
    """Set two studies' results side by side.

    Raises ResultError where a factor, level, phase or measure that is asked for does not exist, or
    nothing is the same in both.
    """
    wanted = wanted or Wanted()
    same = a.results.directory.resolve() == b.results.directory.resolve()
    if same and not any(by.a != by.b for by in wanted.by):
        raise ResultError(
            f"A and B are the same directory, {a.results.directory}; name two, or say which levels "
            "of a factor to compare (`--by engine=sqlite:duckdb`)"
        )
    sides = (side_of(a, {by.factor: by.a for by in wanted.by}), side_of(b, _levels_b(wanted)))
    factors, across, notes = _matched_by(sides, wanted)
    sides = (_asked(sides, 0, wanted), _asked(sides, 1, wanted))
    rows, only = _pairs(sides, factors, same=same)
    if not rows:
        raise ResultError(_nothing_in_common(sides, factors))
    figures = pd.DataFrame(rows, columns=[*factors, *COLUMNS])
    _judge(figures)
    workloads = [str(t.results.study.get("workload", "alignments")) for t in (a, b)]
    known = [bool(t.results.study) for t in (a, b)]
    if all(known) and workloads[0] != workloads[1]:
        figures["verdict"], figures["why"] = NOT_COMPARABLE, "the workloads differ"
    notes += doubts(a, "A") + ([] if same else doubts(b, "B"))
    canary = canary_ratio(a, b)
    if canary is not None and not 1 / CANARY <= canary <= CANARY:
        notes.append(
            f"the machines were not equally fast: the processor's canary of B is {canary:.2f} "
            "times that of A, so differences may be those of the machines"
        )
    return Comparison(
        str(a.results.directory),
        str(b.results.directory),
        [*across, *differences(a, b)],
        tuple(factors),
        figures,
        pd.DataFrame(only, columns=[*factors, "side", "phase", "step", "measure", "kind", "why"]),
        notes,
    )


def _levels_b(wanted: Wanted) -> dict[str, str]:
    return {by.factor: by.b for by in wanted.by}


def _matched_by(
    sides: tuple[Side, Side], wanted: Wanted
) -> tuple[list[str], list[Difference], list[str]]:
    """Factors that rows must have equal levels of, those that are compared, and what to say."""
    a, b = sides
    given = {by.factor: by for by in wanted.by}
    across = [Difference(f"factor {by.factor}", by.a, by.b) for by in wanted.by]
    factors, notes = [], []
    for name in [*a.factors, *(f for f in b.factors if f not in a.factors)]:
        if name in given:
            continue
        levels = (a.levels(name), b.levels(name))
        if not all(levels):
            where, found = ("A", levels[0]) if levels[0] else ("B", levels[1])
            if len(found) > 1:
                factors.append(name)  # its rows have no counterpart, and say so
                continue
            notes.append(f"factor {name} ({_words(found)}) is in {where} only, with that one level")
        elif len(levels[0]) == len(levels[1]) == 1 and levels[0] != levels[1]:
            across.append(Difference(f"factor {name}", _words(levels[0]), _words(levels[1])))
        else:
            factors.append(name)
    return factors, across, notes


def _words(levels: Sequence[Any]) -> str:
    return ", ".join("none" if one is None else level(one) for one in levels)


def _asked(sides: tuple[Side, Side], which: int, wanted: Wanted) -> Side:
    """One side with the figures of the phases and measures that were asked for."""
    found = sides[which].figures
    for option, names, column in (
        ("--phase", wanted.phases, "phase"),
        ("--measure", wanted.measures, "measure"),
    ):
        known = sorted({str(row[column]) for side in sides for row in side.figures})
        meant = {name: _meant(name, known, column) for name in names}
        for name, found_names in meant.items():
            if not found_names:
                raise ResultError(
                    f"{option}: neither A nor B has a {column} {name!r}{nearest(name, known)}; "
                    f"they have {', '.join(known)}"
                )
        if names:
            every = {one for found_names in meant.values() for one in found_names}
            found = [row for row in found if str(row[column]) in every]
    return replace(sides[which], figures=found)


def _meant(name: str, known: Sequence[str], column: str) -> list[str]:
    """The one of that name; of measures else all that end so (``p99``)."""
    if name in known or column != "measure":
        return [name] if name in known else []
    return [one for one in known if one.endswith(f"_{name}")]


def _pairs(
    sides: tuple[Side, Side], factors: Sequence[str], *, same: bool
) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    keys = [*factors, "phase", "step", "measure"]
    found = [{tuple(row.get(k) for k in keys): row for row in side.figures} for side in sides]
    rows = [
        {**dict(zip(keys, key, strict=True)), **_figure(row, found[1][key], same=same)}
        for key, row in found[0].items()
        if key in found[1]
    ]
    only = []
    for side, mine, other in (("A", 0, 1), ("B", 1, 0)):
        for key, row in found[mine].items():
            if key not in found[other]:
                why = sides[other].failure({name: row.get(name) for name in factors})
                only.append(
                    {
                        **dict(zip(keys, key, strict=True)),
                        "kind": row["kind"],
                        "side": side,
                        "why": f"failed in {'BA'[mine]}: {why}" if why else "",
                    }
                )
    return rows, only


def _figure(a: Mapping[str, Any], b: Mapping[str, Any], *, same: bool) -> dict[str, Any]:
    """One figure of both: means, ratio and its p; without verdict, but for what forbids one."""
    one, two = a["estimate"], b["estimate"]
    why = ""
    if a["unit"] != b["unit"]:
        why = f"A is in {a['unit']}, B in {b['unit']}"
    elif a["part"] != b["part"]:
        why = f"A is of {_part(a['part'])}, B of {_part(b['part'])}"
    elif min(one.mean, two.mean) <= 0:
        why = "a mean is not positive, so that there is no ratio"
    forbidden = bool(why)
    found = Estimate(0, math.nan, math.nan, math.nan, "none")
    if not forbidden:
        found = independent(two, one, shared=same)
        if not found.known():
            runs = {n for n in (one.n, two.n) if n < 2}
            why = "one run alone has no interval" if runs else "there is no interval"
    row = {"kind": a["kind"], "unit": a["unit"] if a["unit"] == b["unit"] else ""}
    for side, mean in (("a", one), ("b", two)):
        row |= {f"n_{side}": mean.n, f"mean_{side}": mean.mean}
        row |= {f"low_{side}": mean.low, f"high_{side}": mean.high}
    return {
        **row,
        "ratio": found.mean,
        "ratio_low": found.low,
        "ratio_high": found.high,
        "error": found.error,
        "freedom": found.freedom,
        "p": p_value(found),
        "verdict": NOT_COMPARABLE if forbidden else NO_DIFFERENCE,
        "why": why,
    }


def _part(part: str) -> str:
    return {"steady": "the steady part", "whole": "the whole phase"}.get(part, "several parts")


def independent(above: Estimate, below: Estimate, *, shared: bool = False) -> Estimate:
    """The ratio of means that were estimated apart (`shared`: whose spread is of one pool).

    Errors of pooled spreads come from a pool of each study, so that both have their own degrees
    of freedom.
    """
    both = (above, below)
    if shared or not all(one.resampled == "pooled" for one in both):
        return ratio(above, below)
    own: Resampled = "repeats"
    found = ratio(replace(above, resampled=own), replace(below, resampled=own))
    return replace(found, resampled="pooled") if found.known() else found


def p_value(found: Estimate, null: float = 1.0, side: Literal["two", "less"] = "two") -> float:
    """p of a ratio on logarithms: that it is `null`, or (`less`) that it is not below.

    nan where there is no interval; of a ratio without error 0 or 1.
    """
    if not found.known() or not found.mean > 0:
        return math.nan
    apart = math.log(found.mean / null)
    if found.error == 0:
        true = apart < 0 if side == "less" else apart != 0
        return 0.0 if true else 1.0
    t = apart / found.error
    return float(stdtr(found.freedom, t) if side == "less" else 2 * stdtr(found.freedom, -abs(t)))


def adjusted(values: Sequence[float]) -> list[float]:
    """p adjusted by Holm's method; nan, which counts as no test, stays."""
    known = np.array([p for p in values if not math.isnan(p)])
    found = iter(holm_adjusted(known))
    return [p if math.isnan(p) else float(next(found)) for p in values]


def _judge(figures: pd.DataFrame) -> None:
    """The adjusted p and the verdict of each figure, in place."""
    family = figures.groupby(["phase", "step", "measure"])["p"]
    figures["p_adj"] = family.transform(lambda p: pd.Series(adjusted(p.to_list()), index=p.index))
    verdicts, reasons = [], []
    for row in records(figures):
        verdict, why = row["verdict"], row["why"]
        if row["p_adj"] < ALPHA:
            verdict = _word(row["kind"], row["ratio"])
        elif row["p"] < ALPHA:
            why = CORRECTED
        verdicts.append(verdict)
        reasons.append(why)
    figures["verdict"], figures["why"] = verdicts, reasons


def _word(kind: str, of: float) -> str:
    if kind == SIZE:
        return "larger" if of > 1 else "smaller"
    return "faster" if (of > 1) == (kind == "rate") else "slower"


def _nothing_in_common(sides: tuple[Side, Side], factors: Sequence[str]) -> str:
    """Why no figure is in both, with what to do."""
    a, b = sides
    for name in factors:
        levels = (a.levels(name), b.levels(name))
        if not set(levels[0]) & set(levels[1]):
            return (
                f"A and B have no setting in common: factor {name} is "
                f"{_words(levels[0]) or 'not there'} in A and {_words(levels[1]) or 'not there'} "
                f"in B; compare two levels with --by {name}="
                f"{_first(levels[0])}:{_first(levels[1])}"
            )
    phases = [sorted({str(row["phase"]) for row in side.figures}) for side in sides]
    if not set(phases[0]) & set(phases[1]):
        return (
            "A and B have no phase in common: "
            f"{', '.join(phases[0]) or 'nothing'} in A, {', '.join(phases[1]) or 'nothing'} in B"
        )
    return (
        "A and B have no figure in common: no setting of their factors has the same phase, step "
        f"and measure in both (matched by {', '.join(factors) or 'nothing'})"
    )


def _first(levels: Sequence[Any]) -> str:
    return "" if not levels or levels[0] is None else level(levels[0])
