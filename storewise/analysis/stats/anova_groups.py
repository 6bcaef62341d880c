"""Analyses of variance for each level of some columns, with warnings, as text and as JSON."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd

from storewise.analysis.common.frames import grouped, json_value, missing, records
from storewise.analysis.common.text import all_of, level, some_of
from storewise.analysis.stats.anova import Specification, Variance, analysis_of_variance
from storewise.analysis.stats.intervals import holm_adjusted
from storewise.analysis.stats.tukey import tukey
from storewise.errors import AnalysisError

#: Probability below which a check of the residuals counts as failed.
ALPHA = 0.05
#: Groups that a warning names.
_SHOWN = 3
PAIR_COLUMNS = (
    *("factor", "a", "b", "difference", "low", "high", "p_adj", "reject"),
    *("ratio", "ratio_low", "ratio_high"),
)


@dataclass(frozen=True, slots=True)
class Group:
    """The analysis of variance of one level of the `by` columns, and its pairs (`spec.tukey`)."""

    by: Mapping[str, Any]
    spec: Specification
    variance: Variance
    pairs: pd.DataFrame = field(default_factory=pd.DataFrame)
    note: str = ""
    """A further remark for the reader."""

    @property
    def name(self) -> str:
        """The levels of the group as text."""
        return levels_in_words(self.by)


@dataclass(frozen=True, slots=True)
class Analyses:
    """The possible analyses, and the impossible ones as (name, reason)."""

    groups: Sequence[Group]
    not_possible: Sequence[tuple[str, str]] = ()


def one_group(frame: pd.DataFrame, by: Mapping[str, Any], spec: Specification) -> Group:
    """The analysis of the rows of one group."""
    variance = analysis_of_variance(frame, spec)
    if spec.tukey is None:
        return Group(by, spec, variance)
    return Group(by, spec, variance, tukey(variance, spec.tukey, robust=spec.robust))


def groups(frame: pd.DataFrame, by: Sequence[str], spec: Specification) -> Analyses:
    """One analysis per level of the `by` columns, in their order; of all rows if there are none.

    Impossible analyses are in `not_possible`; AnalysisError if none is possible.
    """
    possible: list[Group] = []
    not_possible: list[tuple[str, str]] = []
    for key, part in grouped(frame, by) if by else [((), frame)]:
        levels = dict(zip(by, key, strict=True))
        try:
            possible.append(one_group(part, levels, spec))
        except AnalysisError as error:
            not_possible.append((levels_in_words(levels), str(error)))
    if not possible:
        raise AnalysisError(": ".join(filter(None, not_possible[0])))
    return Analyses(possible, not_possible)


def levels_in_words(by: Mapping[str, Any]) -> str:
    """The name of a group: ``engine=sqlite, nodes=3``."""
    return ", ".join(f"{name}={level(value)}" for name, value in by.items())


def json_rows(analysed: Sequence[Group], *, pairs: bool = False) -> list[dict[str, Any]]:
    """The tables as JSON objects, one per term (null where the residual has no value) or per pair
    of levels. With `log`, differences are of logarithms and `ratio` is the ratio of the levels."""
    chosen = [group for group in analysed if len(group.pairs)] if pairs else analysed
    return [
        {"by": json_value(group.by), **json_value(row)}
        for group in chosen
        for row in records(pair_table(group) if pairs else group.variance.table)
    ]


def pair_table(group: Group) -> pd.DataFrame:
    """The pairs of a group with ratios of levels, which are missing without `log`."""
    table = group.pairs.assign(factor=group.spec.tukey, reject=group.pairs["p_adj"] < ALPHA)
    for ratio, end in (("ratio", "difference"), ("ratio_low", "low"), ("ratio_high", "high")):
        table[ratio] = np.exp(table[end]) if group.spec.log else np.nan
    return table[list(PAIR_COLUMNS)]


def text_lines(analysed: Sequence[Group]) -> list[str]:
    """The tables as lines of text."""
    lines: list[str] = []
    for group in analysed:
        spec = group.spec
        how = [f"type {spec.typ} sums of squares", "factors of levels coded sum-to-zero"]
        if spec.numeric:
            how.append(f"{all_of(spec.numeric)} as a number")
        if spec.robust:
            how.append("F and p from covariance HC3")
        times = f", each counted {spec.repeats} times" if spec.repeats > 1 else ""
        where = f"{group.name}: " if group.by else ""
        response = f"log({spec.response})" if spec.log else spec.response
        lines += ["", f"{where}{response}, {group.variance.n} rows{times} ({'; '.join(how)})"]
        lines += _aligned(group.variance.table, _TERM_DIGITS)
        if len(group.pairs):
            lines += ["", f"Tukey HSD of {spec.tukey}, intervals of 95 % for all pairs together"]
            lines += _aligned(pair_table(group), _PAIR_DIGITS)
    return lines[1:]


#: How the columns of the printed tables are formatted.
_TERM_DIGITS = {"term": "", "df": "d", "sum_sq": ".6g", "f": ".5g", "p": ".3g"} | {
    "eta_sq_partial": ".4f",
    "omega_sq": ".4f",
}
_PAIR_DIGITS = {"a": "", "b": "", "difference": ".5g", "low": ".5g", "high": ".5g"} | {
    "ratio": ".4g",
    "p_adj": ".3g",
    "reject": "",
}


def _aligned(table: pd.DataFrame, digits: Mapping[str, str]) -> list[str]:
    cells = {
        name: ["" if missing(value) else format(value, of) for value in table[name]]
        for name, of in digits.items()
    }
    return pd.DataFrame(cells).to_string(index=False).splitlines()


def group_warnings(analysed: Sequence[Group]) -> list[str]:
    """Warnings about the tables, each with a remedy; equal ones of several groups are joined."""
    doubts: dict[str, list[Group]] = {}
    for group in analysed:
        for doubt in _doubts(group):
            doubts.setdefault(doubt, []).append(group)
    of_tables = [f"{doubt}{_of(some, analysed)}" for doubt, some in doubts.items()]
    return [
        *of_tables,
        *_check(analysed, "normality", [group.variance.normality for group in analysed]),
        *_check(analysed, "equal variance", [group.variance.equal_variance for group in analysed]),
    ]


def _doubts(group: Group) -> Iterable[str]:
    """Yield warnings about one table, without those about its residuals."""
    spec, variance = group.spec, group.variance
    if group.note:
        yield group.note
    if spec.repeats > 1:
        yield (
            f"each row counts {spec.repeats} times, as the mean of so many equal repeats; the "
            "variance within repeats is unknown and taken as 0, so F is too large: "
            f"{variance.inflation:.3g} times that of the rows counted once"
        )
    p = dict(zip(variance.terms, variance.table["p"], strict=False))  # without the residual
    interactions = [term for term in variance.terms if len(term) > 1]
    for name, reason in variance.left_out.items():
        yield f"interaction {name} is left out ({reason}); what it explains is in the residual"
    if any(spec.tukey in term and p[term] < ALPHA for term in interactions):
        yield (
            f"{spec.tukey} is part of an interaction with p < {ALPHA:g}: its pairs are averages "
            "over the other factors, and differ among their levels; take these as --by to see each"
        )


def _check(analysed: Sequence[Group], of: str, checks: Sequence[float]) -> Iterable[str]:
    """Yield a warning if residuals fail the test `of`, with p adjusted over all groups."""
    adjusted = holm_adjusted(checks)
    failed = [group for group, p in zip(analysed, adjusted, strict=True) if p < ALPHA]
    robust = of == "equal variance"
    if failed and not (robust and failed[0].spec.robust):
        found = "residuals have unequal variances" if robust else "residuals are not normal"
        remedies = [] if failed[0].spec.log else ["--log-response"]
        remedies += ["--robust (without --repeats)"] if robust else ["look at the extreme rows"]
        yield (
            f"{found}{_of(failed, analysed)} (least p {np.nanmin(adjusted):.2g}, by Holm's method "
            f"over the groups): F and p are doubtful; remedy: {all_of(remedies, 'or')}"
        )


def _of(some: Sequence[Group], analysed: Sequence[Group]) -> str:
    if len(analysed) == 1:
        return ""
    if len(some) == len(analysed):
        return " in all groups"
    names = some_of([group.name for group in some], _SHOWN, "; ")
    return f" in {len(some)} of {len(analysed)} groups ({names})"
