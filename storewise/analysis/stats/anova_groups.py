"""Tables of variance for each level of some columns, with their warnings, as text and as JSON."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd

from storewise.analysis.common.text import all_of, level
from storewise.analysis.stats.anova import (
    Interactions,
    Row,
    Variance,
    analysis_of_variance,
)
from storewise.analysis.stats.holm import holm_adjusted
from storewise.analysis.stats.residual_checks import Check
from storewise.analysis.stats.tukey import Pair, tukey
from storewise.errors import AnalysisError

#: Probability below which a check of the residuals counts as failed.
ALPHA = 0.05
#: Groups that a warning names.
_SHOWN = 3


@dataclass(frozen=True, slots=True)
class Ask:
    """What is analysed and how; the meaning of each is `analysis_of_variance`'s."""

    response: str
    factors: tuple[str, ...]
    numeric: tuple[str, ...] = ()
    log: bool = False
    repeats: int = 1
    typ: int = 2
    interactions: Interactions = "auto"
    robust: bool = False
    tukey: str | None = None
    highest: int | None = None


@dataclass(frozen=True, slots=True)
class Group:
    """The table of variance of one level of the `by` columns, and the pairs where asked for."""

    by: Mapping[str, Any]
    ask: Ask
    found: Variance
    pairs: Sequence[Pair] = field(default=())
    note: str = ""
    """What else its reader must know."""

    @property
    def name(self) -> str:
        """The levels in words."""
        return levels_in_words(self.by)


@dataclass(frozen=True, slots=True)
class Found:
    """The analyses that the rows carry, and of the others why not (name of it, reason)."""

    groups: Sequence[Group]
    not_possible: Sequence[tuple[str, str]] = ()


def one_group(frame: pd.DataFrame, by: Mapping[str, Any], ask: Ask) -> Group:
    """The analysis of the rows of one group; an AnalysisError names the group."""
    try:
        found = analysis_of_variance(
            frame,
            ask.response,
            ask.factors,
            numeric=ask.numeric,
            log=ask.log,
            repeats=ask.repeats,
            typ=ask.typ,
            interactions=ask.interactions,
            robust=ask.robust,
            highest=ask.highest,
        )
        pairs = tukey(found.model, ask.tukey, robust=ask.robust) if ask.tukey else []
    except AnalysisError as error:
        if not by:
            raise
        raise AnalysisError(f"{levels_in_words(by)}: {error}") from error
    return Group(by, ask, found, pairs)


def groups(frame: pd.DataFrame, by: Sequence[str], ask: Ask) -> Found:
    """One analysis per level of the `by` columns, in their order; the whole without any.

    A level that carries none is told in `not_possible`; an AnalysisError where no level does.
    """
    if not by:
        return Found([one_group(frame, {}, ask)])
    found: list[Group] = []
    not_possible: list[tuple[str, str]] = []
    for key, part in frame.groupby(list(by), sort=True):
        levels = dict(zip(by, _plain(key), strict=True))
        try:
            found.append(one_group(part, levels, ask))
        except AnalysisError as error:
            name = levels_in_words(levels)
            not_possible.append((name, str(error).removeprefix(f"{name}: ")))
    if not found:
        name, reason = not_possible[0]
        others = len(not_possible) - 1
        rest = "the other group" if others == 1 else f"any of the other {others} groups"
        more = f" (nor can {rest} be analysed)" if others else ""
        raise AnalysisError(f"{name}: {reason}{more}")
    return Found(found, not_possible)


def levels_in_words(by: Mapping[str, Any]) -> str:
    """What a group is called."""
    return ", ".join(f"{name}={level(value)}" for name, value in by.items())


def _plain(key: tuple[Any, ...]) -> list[Any]:
    return [value.item() if hasattr(value, "item") else value for value in key]


def json_rows(found: Sequence[Group]) -> list[dict[str, Any]]:
    """The tables as JSON values, one object per term; what the residual has not is null."""
    return [
        {
            "by": dict(group.by),
            "term": row.term,
            "df": row.df,
            "sum_sq": row.sum_sq,
            "f": row.f,
            "p": row.p,
            "eta_sq_partial": row.eta_sq_partial,
            "omega_sq": row.omega_sq,
        }
        for group in found
        for row in group.found.rows
    ]


def json_pairs(found: Sequence[Group]) -> list[dict[str, Any]]:
    """The pairs of levels as JSON values; differences are of logarithms where these were taken,
    and `ratio` is then what the difference means."""
    return [
        {"by": dict(group.by), **pair_columns(group, pair)}
        for group in found
        for pair in group.pairs
    ]


def pair_columns(group: Group, pair: Pair) -> dict[str, Any]:
    """One pair with its ratio, which is null without logarithms."""
    ratios = [
        math.exp(v) if group.ask.log else None for v in (pair.difference, pair.low, pair.high)
    ]
    return {
        "factor": group.ask.tukey,
        "a": pair.a.item() if hasattr(pair.a, "item") else pair.a,
        "b": pair.b.item() if hasattr(pair.b, "item") else pair.b,
        "difference": pair.difference,
        "low": pair.low,
        "high": pair.high,
        "p_adj": pair.p_adj,
        "reject": pair.reject,
        **dict(zip(("ratio", "ratio_low", "ratio_high"), ratios, strict=True)),
    }


def text_lines(found: Sequence[Group]) -> list[str]:
    """The tables as lines of text."""
    lines: list[str] = []
    for group in found:
        ask = group.ask
        how = [f"type {ask.typ} sums of squares", "factors of levels coded sum-to-zero"]
        if number := [f for f in ask.factors if f in ask.numeric]:
            how.append(f"{all_of(number)} as a number")
        if ask.robust:
            how.append("F and p from covariance HC3")
        times = f", each counted {ask.repeats} times" if ask.repeats > 1 else ""
        where = f"{group.name}: " if group.by else ""
        response = f"log({ask.response})" if ask.log else ask.response
        lines += ["", f"{where}{response}, {group.found.n} rows{times} ({'; '.join(how)})"]
        lines += _aligned(_HEADING, [_cells(row) for row in group.found.rows])
        if group.pairs:
            lines += ["", f"Tukey HSD of {ask.tukey}, intervals of 95 % for all pairs together"]
            lines += _aligned(_PAIR_HEADING, [_pair_cells(group, pair) for pair in group.pairs])
    return lines[1:]


_HEADING = ("term", "df", "sum_sq", "F", "p", "eta_sq_partial", "omega_sq")
_PAIR_HEADING = ("pair", "difference", "low", "high", "ratio", "p_adj", "differ")


def _cells(row: Row) -> list[str]:
    if row.f is None:
        return [row.term, str(row.df), f"{row.sum_sq:.6g}", "", "", "", ""]
    return [
        row.term,
        str(row.df),
        f"{row.sum_sq:.6g}",
        f"{row.f:.5g}",
        f"{row.p:.3g}",
        f"{row.eta_sq_partial:.4f}",
        f"{row.omega_sq:.4f}",
    ]


def _pair_cells(group: Group, pair: Pair) -> list[str]:
    columns = pair_columns(group, pair)
    ratio = columns["ratio"]
    return [
        f"{level(columns['a'])} - {level(columns['b'])}",
        *(f"{columns[name]:.5g}" for name in ("difference", "low", "high")),
        "" if ratio is None else f"{ratio:.4g}",
        f"{pair.p_adj:.3g}",
        "yes" if pair.reject else "no",
    ]


def _aligned(heading: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    widths = [max(map(len, column)) for column in zip(heading, *rows, strict=True)]
    return [
        "  ".join(
            cell.ljust(width) if first else cell.rjust(width)
            for first, (cell, width) in zip(
                [True] + [False] * (len(row) - 1), zip(row, widths, strict=True), strict=True
            )
        ).rstrip()
        for row in [heading, *rows]
    ]


def group_warnings(found: Sequence[Group]) -> list[str]:
    """What is doubtful about the tables, each with its remedy; equal doubts of groups are one."""
    notes = {note: [g for g in found if g.note == note] for note in dict.fromkeys(_notes(found))}
    noted = [f"{note}{_of(where, found)}" for note, where in notes.items()]
    return [*noted, *_asked(found), *_left_out(found), *_checks(found), *_averages(found)]


def _notes(found: Sequence[Group]) -> Iterable[str]:
    return (group.note for group in found if group.note)


def _asked(found: Sequence[Group]) -> Iterable[str]:
    repeated = [group for group in found if group.ask.repeats > 1]
    if repeated:
        inflation = sorted(group.found.inflation for group in repeated)
        times = list(dict.fromkeys(f"{one:.3g}" for one in (inflation[0], inflation[-1])))
        yield (
            f"each row counts {repeated[0].ask.repeats} times, as the mean of so many equal "
            "repeats; the variance within repeats is unknown and taken as nothing, so F is too "
            f"large: {' to '.join(times)} times that of the rows counted once, and the most that "
            "the repeats themselves could give with these terms"
        )
    if any(_at_zero(group) for group in found):
        yield (
            "with type 3, a factor beside its interaction with a number is tested where that "
            "number is 0; take type 2, or subtract the number's mean in the table"
        )


def _at_zero(group: Group) -> bool:
    numeric = set(group.ask.numeric)
    terms = [set(row.factors) for row in group.found.rows]
    return group.ask.typ == 3 and any(len(t) > 1 and t & numeric for t in terms)


def _left_out(found: Sequence[Group]) -> Iterable[str]:
    reasons: dict[tuple[str, str], list[Group]] = {}
    for group in found:
        for term, reason in group.found.left_out:
            reasons.setdefault((term, reason), []).append(group)
    for (term, reason), where in reasons.items():
        yield (
            f"interaction {term} is left out{_of(where, found)}: {reason}; what it explains is in "
            "the residual"
        )


def adjusted(values: Sequence[float | None]) -> list[float | None]:
    """p values of one check over several tables, adjusted for their number (Holm, *Scandinavian
    Journal of Statistics* 6, 1979); None stays so and does not count."""
    tested = [p for p in values if p is not None]
    if not tested:
        return list(values)
    new = iter(holm_adjusted(np.array(tested)))
    return [None if p is None else float(next(new)) for p in values]


def _checks(found: Sequence[Group]) -> Iterable[str]:
    log = "" if all(group.ask.log for group in found) else "--log-response"
    for name, what in (
        ("normality", "residuals are not normal"),
        ("equal_variance", "residuals do not spread alike"),
    ):
        checks = [(group, _check(group, name)) for group in found]
        values = adjusted([c.p for _, c in checks])
        held = [(g, c, p) for (g, c), p in zip(checks, values, strict=True) if p is not None]
        failed = [(g, c, p) for g, c, p in held if p < ALPHA]
        if failed:
            group, worst, least = min(failed, key=lambda item: item[2])
            of = f" after Holm's method over {len(held)} groups" if len(held) > 1 else ""
            at = f", least in {group.name}" if len(failed) > 1 else ""
            where = _of([g for g, *_ in failed], found)
            text = f"{what}{where} ({worst.test}, p = {least:.2g}{of}{at}): "
            if name == "normality":
                yield text + (f"F and p are doubtful; remedy: {log or 'look at the extreme rows'}")
            elif all(g.ask.robust for g, *_ in failed):
                yield text + "F and p here are robust against that"
            else:
                once = any(g.ask.repeats > 1 for g, *_ in failed)
                robust = "--robust without --repeats" if once else "--robust"
                remedies = " or ".join(filter(None, (log, robust)))
                yield text + f"F and p are doubtful; remedy: {remedies}"
        untested = [(g, c) for g, c in checks if c.p is None]
        if untested:
            noun = name.replace("_", " ")
            where = _of([g for g, _ in untested], found)
            yield f"{noun} of the residuals{where} is {untested[0][1].test}"


def _check(group: Group, name: str) -> Check:
    return group.found.normality if name == "normality" else group.found.equal_variance


def _averages(found: Sequence[Group]) -> Iterable[str]:
    mixed = [
        group
        for group in found
        if group.ask.tukey is not None
        and any(
            group.ask.tukey in row.factors and len(row.factors) > 1
            for row in group.found.rows
            if row.p is not None and row.p < ALPHA
        )
    ]
    if mixed:
        yield (
            f"{mixed[0].ask.tukey} is part of an interaction with p < {ALPHA:g}"
            f"{_of(mixed, found)}: its pairs are averages over the other factors, and differ among "
            "their levels; take these as --by to see each"
        )


def _of(some: Sequence[Group], found: Sequence[Group]) -> str:
    if len(found) == 1:
        return ""
    shown = "; ".join(group.name for group in some[:_SHOWN])
    more = f"; and {len(some) - _SHOWN} more" if len(some) > _SHOWN else ""
    if len(some) == len(found):
        return " in all groups"
    return f" in {len(some)} of {len(found)} groups ({shown}{more})"
