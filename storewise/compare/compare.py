"""Compare old and new: two levels of a factor of one study, or two studies.

Two levels are measured in the same rounds, so differences can be tested. Two studies ran on
different days: a test needs settings that are known to be unchanged. The rule is
`storewise.analysis.decision.compare`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from storewise.analysis.common.frames import missing, records
from storewise.analysis.common.text import level
from storewise.analysis.decision import compare as ratios_of
from storewise.analysis.measure.conditions import conditions
from storewise.analysis.model.tables import Tables
from storewise.compare.figures import FIGURE, RATE, SIZE, figures_of
from storewise.errors import ResultError
from storewise.yamlfile import nearest

SIDES = ("old", "new")


@dataclass(frozen=True, slots=True)
class Selection:
    """The phases and measures to compare; empty means all."""

    phases: Sequence[str] = ()
    measures: Sequence[str] = ()
    unchanged: Sequence[str] = ()
    """Engines that are known to be the same in both studies."""


@dataclass(frozen=True, slots=True)
class Comparison:
    """The differences between old and new.

    `figures` has a row per setting and figure that both have: a column per factor that rows are
    matched by, FIGURE, n_old, old, n_new, new (rounds and geometric means), answer, and the columns
    of `storewise.analysis.decision.compare`. `only` has what one side lacks: the factors, FIGURE,
    and side (that has it). `differences` are conditions that differ: the term, what of it only old
    has, and what only new has.
    """

    old: str
    new: str
    factors: Sequence[str]
    figures: pd.DataFrame
    only: pd.DataFrame
    differences: Sequence[tuple[str, str, str]] = ()
    machines: str = ""


def compare_levels(
    tables: Tables, factor: str, levels: Sequence[str], selection: Selection
) -> Comparison:
    """Compare two levels of a factor of one study, old and new, given as text.

    A round is one repeat of one run: trials that were added later ran on another day. Raises
    ResultError for unknown names, and if no setting was measured at both levels.
    """
    _check("--by", "factor", factor, tables.results.factors)
    rows = figures_of(tables)
    words = rows[factor].map(_word)
    for one in levels:
        _check("--by", "level", one, sorted(set(words) - {""}))
    run_of = {part.trial: part.conditions.get("run") for part in tables.results.parts}
    rows["round"] = [f"{run_of.get(row['trial'])} {row['round']}" for row in records(rows)]
    sides = [rows[words == one].drop(columns=factor) for one in levels]
    shared = set(sides[0]["round"]) & set(sides[1]["round"])
    if shared:
        sides = [side[side["round"].isin(shared)] for side in sides]
    old, new = (f"{factor} {one} in {tables.results.directory}" for one in levels)
    return Comparison(old, new, *_compared(sides, tables, selection, same_rounds=bool(shared)))


def compare_studies(before: Tables, after: Tables, selection: Selection) -> Comparison:
    """Compare two studies of different days.

    Raises ResultError if they are the same study, have different workloads, or share no setting.
    """
    old, new = (one.results.directory for one in (before, after))
    if old.resolve() == new.resolve():
        raise ResultError(
            f"old and new are the same directory, {old}; name two, or two levels of a factor "
            "(`storewise compare demo --by engine=sqlite:duckdb`)"
        )
    workloads = [str(one.results.study.get("workload", "alignments")) for one in (before, after)]
    if len(set(workloads)) > 1:
        raise ResultError(f"the workloads differ: {' and '.join(workloads)}")
    sides = [figures_of(before), figures_of(after)]
    return Comparison(
        str(old),
        str(new),
        *_compared(sides, before, selection, same_rounds=False),
        differences=list(_differences(conditions(before), conditions(after))),
        machines=_canary_words(before, after),
    )


def _differences(
    old: Mapping[str, Sequence[str]], new: Mapping[str, Sequence[str]]
) -> Iterator[tuple[str, str, str]]:
    for term in {**old, **new}:
        before, after = old.get(term, ()), new.get(term, ())
        gone = "; ".join(value for value in before if value not in after)
        come = "; ".join(value for value in after if value not in before)
        if gone or come:
            yield term, gone, come


def _canary_words(old: Tables, new: Tables) -> str:
    """The ratio of processor speeds by the canary (`storewise.metrics.canary`), in words; empty if
    one study has none."""
    means = []
    for host in (old.host, new.host):
        values = host.loc[(host["metric"] == "canary_cpu") & (host["mean"] > 0), "mean"]
        means.append(np.log(values.astype(float)).mean())
    ratio = float(np.exp(means[1] - means[0]))
    return "" if np.isnan(ratio) else f"New's processor was {ratio:.2f} times as fast as old's"


def _compared(
    sides: Sequence[pd.DataFrame], tables: Tables, selection: Selection, *, same_rounds: bool
) -> tuple[list[str], pd.DataFrame, pd.DataFrame]:
    """The factors that rows are matched by, the figures of both sides, and those of only one."""
    factors = _matched_by(*sides)
    both = [rows.assign(side=side) for rows, side in zip(sides, SIDES, strict=True)]
    rows = pd.concat(both, ignore_index=True)
    rows = rows.reindex(columns=["side", "round", "value", *FIGURE, *factors])
    for column, names in (("phase", selection.phases), ("measure", selection.measures)):
        for name in names:
            _check(f"--{column}", column, name, sorted(set(rows[column])))
        rows = rows[rows[column].isin(list(names))] if names else rows
    for name in selection.unchanged:
        _check("--unchanged", "engine", name, sorted(set(rows.get("engine", ()))))
    order = {name: place for place, name in enumerate(tables.phases_of(rows))}
    rows = rows.sort_values("phase", key=lambda phase: phase.map(order), kind="stable")
    rows["criterion"] = rows.groupby(FIGURE, sort=False).ngroup()
    figures = rows.drop_duplicates("criterion").set_index("criterion")[FIGURE]
    of_setting = rows.drop(columns=FIGURE)
    if selection.unchanged:
        of_setting["control"] = rows["engine"].isin(list(selection.unchanged))
    counted = list(figures.index[figures["kind"] == SIZE])
    ratios = ratios_of(of_setting, same_rounds=same_rounds, counted=counted)
    if ratios.empty:
        raise ResultError(f"no figure of the same setting ({', '.join(factors)}) is in both")
    keys = [*factors, "criterion"]
    logs = rows.assign(log=np.log(rows["value"].where(rows["value"] > 0)))
    for side in SIDES:
        means = logs[logs["side"] == side].groupby(keys, dropna=False)["log"].agg(["count", "mean"])
        means = means.assign(mean=np.exp(means["mean"])).reset_index()
        ratios = ratios.merge(means.rename(columns={"count": f"n_{side}", "mean": side}), on=keys)
    ratios = ratios.join(figures, on="criterion").drop(columns="criterion")
    ratios["answer"] = [_answer(row) for row in records(ratios)]
    there = rows.groupby([*factors, *FIGURE], dropna=False, sort=False)["side"].unique()
    only = there[there.map(len) == 1].map(lambda one: str(one[0])).reset_index()
    return factors, ratios, only


def _matched_by(old: pd.DataFrame, new: pd.DataFrame) -> list[str]:
    """The factors whose levels must be equal in matched rows: all except those with a single,
    different level on each side, which are the subject of the comparison."""
    no_factors = {"trial", "round", "value", *FIGURE}
    names = [name for name in dict.fromkeys([*old, *new]) if name not in no_factors]
    levels = {n: [set(map(_word, rows.get(n, [None]))) for rows in (old, new)] for n in names}
    return [n for n, (a, b) in levels.items() if a == b or max(len(a), len(b)) > 1]


def _answer(row: Mapping[str, Any]) -> str:
    """The answer for a figure, with the direction if it is different."""
    if row["told"] != "different":
        return str(row["told"])
    if row["kind"] == SIZE:
        return "larger" if row["ratio"] > 1 else "smaller"
    return "faster" if (row["ratio"] > 1) == (row["kind"] == RATE) else "slower"


def _word(value: Any) -> str:
    return "" if missing(value) else level(value)


def _check(option: str, what: str, name: str, known: Sequence[str]) -> None:
    if name not in known:
        hint = nearest(name, known)
        raise ResultError(
            f"{option}: there is no {what} {name!r}{hint}; there is {', '.join(known)}"
        )
