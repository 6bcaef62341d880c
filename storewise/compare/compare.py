"""Two studies, or two versions of one, side by side: figures of equal settings with intervals.

Pure functions of the tables of both (`storewise.analysis.model.tables`). A *figure* is a rate, a
percentile of a time, or a size, of one setting of the factors in one phase and step. Its mean over
repeats is the geometric one with the interval of `storewise.analysis.stats.intervals`; of a
percentile it is that of the repeats' percentiles. Both studies ran apart, so their means are
independent and the spread of each is its own: the ratio B/A has Welch's interval on logarithms
(Biometrika 34, 1947).

Every ratio has a p, from Student's t; those of one phase, step and measure are adjusted together
by Holm's method (`storewise.analysis.stats.intervals`), so that the chance of any false difference
among them is at most 5 %. A difference is
called one only if that p is below 0.05. Intervals are those of each ratio alone. A single run says
nothing of what differs from run to run, however steady it was, so that its rates and times carry no
difference.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pandas as pd

from storewise.analysis.common.frames import records
from storewise.analysis.common.text import level
from storewise.analysis.model.tables import Tables
from storewise.analysis.stats.intervals import Estimate, holm_adjusted, p_value, ratio
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
class Selection:
    """What is compared; nothing named means all."""

    by: tuple[By, ...] = ()
    measures: tuple[str, ...] = ()
    """Names of measures, or their ends after an underscore (``p99``)."""
    phases: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Comparison:
    """What differs between A and B.

    `canary` is how fast B's machine was, over A's; `machines` says so where they were not the same.
    `figures` has a column per factor that rows are matched by, then COLUMNS: one row per figure
    that both have. `only` has the same factors, then side ("A", "B"), phase, step, measure, kind,
    why.
    """

    a: str
    b: str
    canary: float | None
    machines: str
    differences: Sequence[Difference]
    factors: tuple[str, ...]
    figures: pd.DataFrame
    only: pd.DataFrame
    notes: Sequence[str]


def compare(a: Tables, b: Tables, selection: Selection | None = None) -> Comparison:
    """Set two studies' results side by side.

    Raises ResultError where a factor, level, phase or measure of the selection does not exist, or
    nothing is the same in both.
    """
    selection = selection or Selection()
    same = a.results.directory.resolve() == b.results.directory.resolve()
    if same and not any(by.a != by.b for by in selection.by):
        raise ResultError(
            f"A and B are the same directory, {a.results.directory}; name two, or say which levels "
            "of a factor to compare (`--by engine=sqlite:duckdb`)"
        )
    sides = (
        side_of(a, {by.factor: by.a for by in selection.by}),
        side_of(b, {by.factor: by.b for by in selection.by}),
    )
    factors, across, notes = _matched_by(sides, selection)
    sides = _selected(sides, selection)
    rows, only = _pairs(sides, factors, same=same)
    if not rows:
        raise ResultError(_nothing_in_common(sides, factors))
    figures = pd.DataFrame(rows, columns=[*factors, *COLUMNS])
    _judge(figures)
    studies = [tables.results.study for tables in (a, b)]
    workloads = {str(study.get("workload", "alignments")) for study in studies}
    if all(studies) and len(workloads) > 1:
        figures["verdict"], figures["why"] = NOT_COMPARABLE, "the workloads differ"
    notes += doubts(a, "A") + ([] if same else doubts(b, "B"))
    unequal = [*across, *differences(a, b)]
    canary = canary_ratio(a, b)
    return Comparison(
        str(a.results.directory),
        str(b.results.directory),
        canary,
        machines(canary, unequal),
        unequal,
        tuple(factors),
        figures,
        pd.DataFrame(only, columns=[*factors, "side", "phase", "step", "measure", "kind", "why"]),
        notes,
    )


def machines(canary: float | None, unequal: Sequence[Difference]) -> str:
    """What is to be known of the machines before any figure; empty where they were the same.

    The canary is a small fixed piece of work that each trial begins with.
    """
    other = any(one.what in {"host: name", "host: processor", "host: instance"} for one in unequal)
    if canary is None:
        return "A and B ran on different machines; how fast each was is not known" if other else ""
    if 1 / CANARY <= canary <= CANARY:
        same = f"A and B ran on different machines, about equally fast (canary B/A {canary:.2f})"
        return same if other else ""
    factor, word = (canary, "faster") if canary > 1 else (1 / canary, "slower")
    return (
        f"B's machine was {factor:.2f} times {word} than A's, by the processor's canary alone: "
        "rates and times may differ for this reason only"
    )


def _matched_by(
    sides: tuple[Side, Side], selection: Selection
) -> tuple[list[str], list[Difference], list[str]]:
    """Factors that rows must have equal levels of, those that are compared, and what to say."""
    across = [Difference(f"factor {by.factor}", by.a, by.b) for by in selection.by]
    factors, notes = [], []
    names = dict.fromkeys(name for side in sides for name in side.factors)
    for name in names:
        if any(by.factor == name for by in selection.by):
            continue
        levels = [side.levels(name) for side in sides]
        if not all(levels):
            where, there = ("A", levels[0]) if levels[0] else ("B", levels[1])
            if len(there) > 1:
                factors.append(name)  # its rows have no counterpart, and say so
                continue
            notes.append(f"factor {name} ({_words(there)}) is in {where} only, with that one level")
        elif len(levels[0]) == len(levels[1]) == 1 and levels[0] != levels[1]:
            across.append(Difference(f"factor {name}", _words(levels[0]), _words(levels[1])))
        else:
            factors.append(name)
    return factors, across, notes


def _words(levels: Sequence[Any]) -> str:
    return ", ".join("none" if one is None else level(one) for one in levels)


def _selected(sides: tuple[Side, Side], selection: Selection) -> tuple[Side, Side]:
    """Both sides with the figures of the selection's phases and measures."""
    known = {
        column: sorted({str(row[column]) for side in sides for row in side.figures})
        for column in ("phase", "measure")
    }
    for column, names in (("phase", selection.phases), ("measure", selection.measures)):
        chosen: set[str] = set()
        for name in names:
            matches = _matches(name, known[column], column)
            if not matches:
                raise ResultError(
                    f"--{column}: neither A nor B has a {column} {name!r}"
                    f"{nearest(name, known[column])}; they have {', '.join(known[column])}"
                )
            chosen.update(matches)
        if names:
            a, b = ([row for row in side.figures if str(row[column]) in chosen] for side in sides)
            sides = (replace(sides[0], figures=a), replace(sides[1], figures=b))
    return sides


def _matches(name: str, known: Sequence[str], column: str) -> list[str]:
    """The one of that name; of measures else all that end so (``p99``)."""
    if name in known or column != "measure":
        return [name] if name in known else []
    return [one for one in known if one.endswith(f"_{name}")]


def _pairs(
    sides: tuple[Side, Side], factors: Sequence[str], *, same: bool
) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    keys = [*factors, "phase", "step", "measure"]
    of_a, of_b = ({tuple(row.get(k) for k in keys): row for row in s.figures} for s in sides)
    rows = [
        {**dict(zip(keys, key, strict=True)), **_figure(row, of_b[key], same=same)}
        for key, row in of_a.items()
        if key in of_b
    ]
    only = []
    for names, there, elsewhere, other in (
        ("AB", of_a, of_b, sides[1]),
        ("BA", of_b, of_a, sides[0]),
    ):
        for key, row in there.items():
            if key not in elsewhere:
                why = other.failure({name: row.get(name) for name in factors})
                only.append(
                    {
                        **dict(zip(keys, key, strict=True)),
                        "kind": row["kind"],
                        "side": names[0],
                        "why": f"failed in {names[1]}: {why}" if why else "",
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
    quotient = Estimate.unknown(0, math.nan)
    if not forbidden:
        quotient = independent(two, one, shared=same)
        if not quotient.known():
            alone = min(one.n, two.n) < 2
            why = "one run alone has no interval" if alone else "there is no interval"
    row = {"kind": a["kind"], "unit": a["unit"] if a["unit"] == b["unit"] else ""}
    for side, mean in (("a", one), ("b", two)):
        row |= {f"{name}_{side}": getattr(mean, name) for name in ("n", "mean", "low", "high")}
    return {
        **row,
        "ratio": quotient.mean,
        "ratio_low": quotient.low,
        "ratio_high": quotient.high,
        "error": quotient.error,
        "freedom": quotient.freedom,
        "p": p_value(quotient),
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
    quotient = ratio(*(replace(one, resampled="repeats") for one in both))
    return replace(quotient, resampled="pooled") if quotient.known() else quotient


def _judge(figures: pd.DataFrame) -> None:
    """The adjusted p and the verdict of each figure, in place."""
    family = figures.groupby(["phase", "step", "measure"])["p"]
    figures["p_adj"] = family.transform(lambda p: pd.Series(holm_adjusted(p.array), index=p.index))
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
    for name in factors:
        a, b = (side.levels(name) for side in sides)
        if not set(a) & set(b):
            pair = ":".join("" if not one or one[0] is None else level(one[0]) for one in (a, b))
            return (
                f"A and B have no setting in common: factor {name} is "
                f"{_words(a) or 'not there'} in A and {_words(b) or 'not there'} in B; compare two "
                f"levels with --by {name}={pair}"
            )
    phases = [sorted({str(row["phase"]) for row in side.figures}) for side in sides]
    if not set(phases[0]) & set(phases[1]):
        words = [", ".join(names) or "nothing" for names in phases]
        return f"A and B have no phase in common: {words[0]} in A, {words[1]} in B"
    return (
        "A and B have no figure in common: no setting of their factors has the same phase, step "
        f"and measure in both (matched by {', '.join(factors) or 'nothing'})"
    )
