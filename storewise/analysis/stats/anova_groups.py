"""Tables of variance for each level of some columns, with their warnings, as text and as JSON."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pandas as pd

from storewise.analysis.common.frames import grouped
from storewise.analysis.common.text import all_of, level
from storewise.analysis.stats.anova import Row, Specification, Variance, analysis_of_variance
from storewise.analysis.stats.intervals import holm_adjusted
from storewise.analysis.stats.residual_checks import Check
from storewise.analysis.stats.tukey import Pair, tukey
from storewise.errors import AnalysisError

#: Probability below which a check of the residuals counts as failed.
ALPHA = 0.05
#: Groups that a warning names.
_SHOWN = 3


@dataclass(frozen=True, slots=True)
class Group:
    """The table of variance of one level of the `by` columns, and the pairs of `spec.tukey`."""

    by: Mapping[str, Any]
    spec: Specification
    variance: Variance
    pairs: Sequence[Pair] = ()
    note: str = ""
    """What else its reader must know."""

    @property
    def name(self) -> str:
        """The levels in words."""
        return levels_in_words(self.by)


@dataclass(frozen=True, slots=True)
class Analyses:
    """The analyses that the rows carry, and of the others why not (name of it, reason)."""

    groups: Sequence[Group]
    not_possible: Sequence[tuple[str, str]] = ()


def one_group(frame: pd.DataFrame, by: Mapping[str, Any], spec: Specification) -> Group:
    """The analysis of the rows of one group."""
    variance = analysis_of_variance(frame, spec)
    pairs = tukey(variance.model, spec.tukey, robust=spec.robust) if spec.tukey else []
    return Group(by, spec, variance, pairs)


def groups(frame: pd.DataFrame, by: Sequence[str], spec: Specification) -> Analyses:
    """One analysis per level of the `by` columns, in their order; the whole without any.

    A level that carries none is in `not_possible`; an AnalysisError where no level carries one.
    """
    if not by:
        return Analyses([one_group(frame, {}, spec)])
    possible: list[Group] = []
    not_possible: list[tuple[str, str]] = []
    for key, part in grouped(frame, by):
        levels = dict(zip(by, map(_plain, key), strict=True))
        try:
            possible.append(one_group(part, levels, spec))
        except AnalysisError as error:
            not_possible.append((levels_in_words(levels), str(error)))
    if not possible:
        name, reason = not_possible[0]
        others = len(not_possible) - 1
        rest = "the other group" if others == 1 else f"any of the other {others} groups"
        more = f" (nor can {rest} be analysed)" if others else ""
        raise AnalysisError(f"{name}: {reason}{more}")
    return Analyses(possible, not_possible)


def levels_in_words(by: Mapping[str, Any]) -> str:
    """What a group is called."""
    return ", ".join(f"{name}={level(value)}" for name, value in by.items())


def _plain(value: Any) -> Any:
    return value.item() if hasattr(value, "item") else value


def json_rows(analysed: Sequence[Group]) -> list[dict[str, Any]]:
    """The tables as JSON values, one object per term; what the residual has not is null."""
    return [
        {"by": dict(group.by), **row.columns()} for group in analysed for row in group.variance.rows
    ]


def json_pairs(analysed: Sequence[Group]) -> list[dict[str, Any]]:
    """The pairs of levels as JSON values; differences are of logarithms where these were taken,
    and `ratio` is then what the difference means."""
    return [
        {"by": dict(group.by), **pair_columns(group, pair)}
        for group in analysed
        for pair in group.pairs
    ]


def pair_columns(group: Group, pair: Pair) -> dict[str, Any]:
    """One pair with its ratio, which is null without logarithms."""
    ratios = {"ratio": pair.difference, "ratio_low": pair.low, "ratio_high": pair.high}
    return {
        "factor": group.spec.tukey,
        "a": _plain(pair.a),
        "b": _plain(pair.b),
        "difference": pair.difference,
        "low": pair.low,
        "high": pair.high,
        "p_adj": pair.p_adj,
        "reject": pair.reject,
        **{name: math.exp(v) if group.spec.log else None for name, v in ratios.items()},
    }


def text_lines(analysed: Sequence[Group]) -> list[str]:
    """The tables as lines of text."""
    lines: list[str] = []
    for group in analysed:
        spec = group.spec
        how = [f"type {spec.typ} sums of squares", "factors of levels coded sum-to-zero"]
        if spec.numbers:
            how.append(f"{all_of(spec.numbers)} as a number")
        if spec.robust:
            how.append("F and p from covariance HC3")
        times = f", each counted {spec.repeats} times" if spec.repeats > 1 else ""
        where = f"{group.name}: " if group.by else ""
        response = f"log({spec.response})" if spec.log else spec.response
        lines += ["", f"{where}{response}, {group.variance.n} rows{times} ({'; '.join(how)})"]
        lines += _aligned(_HEADING, [_cells(row) for row in group.variance.rows])
        if group.pairs:
            lines += ["", f"Tukey HSD of {spec.tukey}, intervals of 95 % for all pairs together"]
            lines += _aligned(_PAIR_HEADING, [_pair_cells(group, pair) for pair in group.pairs])
    return lines[1:]


_HEADING = ("term", "df", "sum_sq", "F", "p", "eta_sq_partial", "omega_sq")
_PAIR_HEADING = ("pair", "difference", "low", "high", "ratio", "p_adj", "differ")


def _cells(row: Row) -> list[str]:
    figures = (row.f, row.p, row.eta_sq_partial, row.omega_sq)
    shown = zip(figures, (".5g", ".3g", ".4f", ".4f"), strict=True)
    cells = ["" if value is None else format(value, digits) for value, digits in shown]
    return [row.term, str(row.df), f"{row.sum_sq:.6g}", *cells]


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
    first, *widths = [max(map(len, column)) for column in zip(heading, *rows, strict=True)]
    return [
        "  ".join(
            [row[0].ljust(first), *(c.rjust(w) for c, w in zip(row[1:], widths, strict=True))]
        ).rstrip()
        for row in [heading, *rows]
    ]


def group_warnings(analysed: Sequence[Group]) -> list[str]:
    """What is doubtful about the tables, each with its remedy; equal doubts of groups are one."""
    notes = dict.fromkeys(group.note for group in analysed if group.note)
    return [
        *(f"{note}{_of([g for g in analysed if g.note == note], analysed)}" for note in notes),
        *_chosen(analysed),
        *_left_out(analysed),
        *_checks(analysed),
        *_averages(analysed),
    ]


def _chosen(analysed: Sequence[Group]) -> Iterable[str]:
    """What follows from the chosen repeats and type of sums of squares."""
    if repeated := [group for group in analysed if group.spec.repeats > 1]:
        inflation = sorted(group.variance.inflation for group in repeated)
        times = dict.fromkeys(f"{one:.3g}" for one in (inflation[0], inflation[-1]))
        yield (
            f"each row counts {repeated[0].spec.repeats} times, as the mean of so many equal "
            "repeats; the variance within repeats is unknown and taken as nothing, so F is too "
            f"large: {' to '.join(times)} times that of the rows counted once, and the most that "
            "the repeats themselves could give with these terms"
        )
    if any(g.spec.typ == 3 and _interacts(g, lambda row: True, *g.spec.numeric) for g in analysed):
        yield (
            "with type 3, a factor beside its interaction with a number is tested where that "
            "number is 0; take type 2, or subtract the number's mean in the table"
        )


def _interacts(group: Group, chosen: Callable[[Row], bool], *factors: str) -> bool:
    """Whether one of the factors is in an interaction that is so."""
    return any(
        len(row.factors) > 1 and set(factors) & set(row.factors) and chosen(row)
        for row in group.variance.rows
    )


def _left_out(analysed: Sequence[Group]) -> Iterable[str]:
    reasons: dict[tuple[str, str], list[Group]] = {}
    for group in analysed:
        for term_and_reason in group.variance.left_out:
            reasons.setdefault(term_and_reason, []).append(group)
    for (term, reason), where in reasons.items():
        yield (
            f"interaction {term} is left out{_of(where, analysed)}: {reason}; what it explains is "
            "in the residual"
        )


def _checks(analysed: Sequence[Group]) -> Iterable[str]:
    """Failed checks of the residuals, p adjusted over the groups, and those that were not made."""
    log = "" if all(group.spec.log for group in analysed) else "--log-response"
    for noun, what, of_group in CHECKS:
        checks = [(group, of_group(group)) for group in analysed]
        tested = [one for one in checks if one[1].p is not None]
        adjusted = holm_adjusted([check.p for _, check in tested])
        failed = [(*one, p) for one, p in zip(tested, adjusted, strict=True) if p < ALPHA]
        if failed:
            group, worst, least = min(failed, key=lambda item: item[2])
            of = f" after Holm's method over {len(tested)} groups" if len(tested) > 1 else ""
            at = f", least in {group.name}" if len(failed) > 1 else ""
            where = _of([g for g, *_ in failed], analysed)
            text = f"{what}{where} ({worst.test}, p = {least:.2g}{of}{at}): "
            if noun == "normality":
                yield text + f"F and p are doubtful; remedy: {log or 'look at the extreme rows'}"
            elif all(g.spec.robust for g, *_ in failed):
                yield text + "F and p here are robust against that"
            else:
                once = any(g.spec.repeats > 1 for g, *_ in failed)
                robust = "--robust without --repeats" if once else "--robust"
                remedies = " or ".join(filter(None, (log, robust)))
                yield text + f"F and p are doubtful; remedy: {remedies}"
        if untested := [one for one in checks if one[1].p is None]:
            where = _of([g for g, _ in untested], analysed)
            yield f"{noun} of the residuals{where} is {untested[0][1].test}"


#: Of each check of the residuals its name, what is said where it fails, and where it is.
CHECKS: tuple[tuple[str, str, Callable[[Group], Check]], ...] = (
    ("normality", "residuals are not normal", lambda group: group.variance.normality),
    (
        "equal variance",
        "residuals do not spread alike",
        lambda group: group.variance.equal_variance,
    ),
)


def _averages(analysed: Sequence[Group]) -> Iterable[str]:
    mixed = [
        group
        for group in analysed
        if group.spec.tukey
        and _interacts(group, lambda row: row.p is not None and row.p < ALPHA, group.spec.tukey)
    ]
    if mixed:
        yield (
            f"{mixed[0].spec.tukey} is part of an interaction with p < {ALPHA:g}"
            f"{_of(mixed, analysed)}: its pairs are averages over the other factors, and differ "
            "among their levels; take these as --by to see each"
        )


def _of(some: Sequence[Group], analysed: Sequence[Group]) -> str:
    if len(analysed) == 1:
        return ""
    shown = "; ".join(group.name for group in some[:_SHOWN])
    more = f"; and {len(some) - _SHOWN} more" if len(some) > _SHOWN else ""
    if len(some) == len(analysed):
        return " in all groups"
    return f" in {len(some)} of {len(analysed)} groups ({shown}{more})"
