"""Criteria that compare at equal load or size: latency, scaling, and kinds of questions.

All choices are compared at one level that most of them were measured at, the highest of those.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

import pandas as pd
from scipy.special import stdtrit

from storewise.analysis.common.choices import label, varying_promises
from storewise.analysis.common.engines import BASELINE
from storewise.analysis.common.frames import grouped, missing, records
from storewise.analysis.common.text import all_of, level, setting
from storewise.analysis.judge import comparable_steps as comparable
from storewise.analysis.judge.headline_rates import loads
from storewise.analysis.measure.steps import ALL, OTHER
from storewise.analysis.model.tables import Tables
from storewise.analysis.stats.intervals import LEVEL, weaker
from storewise.analysis.verdict.criteria import (
    CHOSEN_BY,
    ESTIMATE,
    KINDS,
    NOTE,
    SOURCE_ROW,
    Figures,
    named,
    operations,
    phases_of_kinds,
    rows_as_text,
    with_source,
)

#: Resources whose efficiency is compared, the first that two choices were measured over.
RESOURCES = ("nodes", "workers", "processes", "threads", "node_threads")
#: Degrees of freedom of an error that was taken from an interval alone.
_KNOWN = 1e9

Key = TypeVar("Key")


def from_interval(row: Mapping[str, Any]) -> dict[str, Any]:
    """An estimate's columns of a row that has an interval only, on logarithms.

    Half the interval over the normal quantile stands for the error: what is then made of two such
    figures has the interval that their own intervals give (MOVER: Zou and Donner, *Statistics in
    Medicine* 27(10), 2008).
    """
    low, high = float(row["low"]), float(row["high"])
    told = {name: row[name] for name in ("n", "mean", "low", "high", "resampled")}
    if row["resampled"] == "none" or not (0 < low <= high) or math.isinf(high):
        return told | {"resampled": "none", "error": math.nan, "freedom": math.nan}
    quantile = float(stdtrit(_KNOWN, (1 + LEVEL) / 2))
    return told | {"error": math.log(high / low) / 2 / quantile, "freedom": _KNOWN}


def in_most_choices(
    rows: pd.DataFrame, key: Callable[[Mapping[str, Any]], Key], promises: Sequence[str]
) -> dict[Key, int]:
    """How many choices have rows at each key (the baseline counts for none)."""
    found: dict[Key, set[str]] = {}
    for row in records(rows):
        if row["engine"] != BASELINE:
            found.setdefault(key(row), set()).add(label(row, promises))
    return {one: len(who) for one, who in found.items()}


def latency(tables: Tables) -> Figures | None:
    """p99 of the response time at the highest target rate that most choices were asked for; else
    with the most clients that most choices had, in steps or as factors."""
    promises = varying_promises(tables.results.trials, tables.results.factors)
    searched = set(tables.searches["phase"])
    steps = with_source(tables.steps)
    levels = tables.steps.groupby("phase", observed=True)["clients"].nunique()
    rising = set(levels[levels > 1].index)
    steps = steps[
        (steps["operation"] == ALL)
        & (steps["measure"] == "response_p99")
        & ~steps["phase"].isin(searched)
    ]
    ways = [
        _at_rate(steps[steps["rate"].notna()], promises),
        _with_clients(steps[steps["rate"].isna() & steps["phase"].isin(rising)], promises),
        _with_all_clients(tables, promises, searched),
    ]
    found = [way for way in ways if way is not None]
    # An open loop shows waiting that a closed one hides, but only between those that had it.
    return max(found, key=lambda way: way[0], default=(0, None))[1]


def _at_rate(rows: pd.DataFrame, promises: Sequence[str]) -> tuple[int, Figures] | None:
    def key(row: Mapping[str, Any]) -> tuple[float, str, str]:
        return (float(row["rate"]), str(row["phase"]), _text(row[OTHER]))

    best = _highest(in_most_choices(rows, key, promises))
    if best is None:
        return None
    count, (rate, phase, other) = best
    mine = rows.loc[[key(row) == (rate, phase, other) for row in records(rows)]]
    words = f"p99 response, phase {phase}, {rate:,.0f} operations/s asked"
    return count, named("latency", "steps", mine, about=", ".join(filter(None, [words, other])))


def _with_clients(rows: pd.DataFrame, promises: Sequence[str]) -> tuple[int, Figures] | None:
    def key(row: Mapping[str, Any]) -> tuple[float, str, str, str]:
        planned = "" if missing(row["planned"]) else f"{row['planned']:,.0f} operations"
        return (float(row["clients"]), str(row["phase"]), _text(row[OTHER]), planned)

    best = _highest(in_most_choices(rows, key, promises))
    if best is None:
        return None
    count, place = best
    mine = rows.loc[[key(row) == place for row in records(rows)]]
    clients, phase, *other = place
    words = ["p99", f"phase {phase}", _clients(clients), *other]
    return count, named("latency", "steps", mine, about=", ".join(filter(None, words)))


def _with_all_clients(
    tables: Tables, promises: Sequence[str], searched: set[str]
) -> tuple[int, Figures] | None:
    """By the factors workers, processes and threads: service times of the operation that a phase
    has most of."""
    shares = {p: mine for p, mine in operations(tables).items() if p not in searched}
    order = [p for p in tables.phases_of(tables.summary) if p in shares]
    others = [p for p in order if p not in loads(tables)] or order
    kinds = phases_of_kinds(shares, others)
    phase = next(iter([*kinds.values(), *others]), "")
    if not phase:
        return None
    operation = max(shares[phase], key=shares[phase].__getitem__)
    rows = with_source(tables.latency_summary)
    rows = rows[
        (rows["phase"] == phase)
        & (rows["operation"] == operation)
        & (rows["time"] == "service")
        & (rows["percentile"] == "p99")
        & ~rows["engine"].isin([BASELINE])
    ]
    # What steps of this phase were asked is told by the table of steps.
    told = tables.steps
    stepped = {(str(p), int(s)) for p, s in zip(told["phase"], told["step"], strict=True)}
    places = zip(rows["phase"], rows["step"], strict=True)
    rows = rows.loc[[(str(p), int(s)) not in stepped for p, s in places]]
    rows = rows.assign(mean=rows["value"])

    def key(row: Mapping[str, Any]) -> tuple[float]:
        counts = (row.get(name, 1) for name in ("workers", "processes", "threads"))
        return (math.prod(1.0 if missing(n) else float(n) for n in counts),)

    best_clients = _highest(in_most_choices(rows, key, promises))
    if best_clients is None:
        return None
    count, (clients,) = best_clients
    mine = rows.loc[[key(row) == (clients,) for row in records(rows)]]
    words = f"p99 of {operation}, phase {phase}, {_clients(clients)}"
    return count, named("latency", "latency_summary", mine, about=words)


def _highest(found: Mapping[Any, int]) -> tuple[int, Any] | None:
    """Of the keys that most choices have the highest, with their number."""
    if not found:
        return None
    best = max(found, key=lambda key: (found[key], key))
    return found[best], best


def _clients(count: float) -> str:
    return f"{count:,.0f} client{'s' if count != 1 else ''}"


def _text(value: Any) -> str:
    return "" if missing(value) else str(value)


def scaling(tables: Tables) -> Figures | None:
    """Efficiency at the largest level of nodes (else workers, processes, threads) that most choices
    reached from the same lowest one; of each choice in the configuration that was fastest there,
    for what is slow with one node scales easily."""
    promises = varying_promises(tables.results.trials, tables.results.factors)
    rows = with_source(tables.scaling)
    rows = rows[(rows["quantity"] == "efficiency") & (rows["level"] > rows["base"])]
    of_load = loads(tables)
    headline = rows["phase"].isin(of_load) & (rows["measure"] == "documents_per_s")
    headline |= ~rows["phase"].isin(of_load) & (rows["measure"] == "operations_per_s")
    rows = rows[headline & ~rows["engine"].isin([BASELINE])]
    order = tables.phases_of(rows)

    def key(row: Mapping[str, Any]) -> tuple[str, int, float, float, int]:
        place = -order.index(str(row["phase"]))
        return (str(row["factor"]), place, -row["base"], row["level"], -int(row["step"]))

    counted = in_most_choices(rows, key, promises)
    found: dict[str, tuple[int, Any]] = {}
    for factor in RESOURCES:
        best = _highest({k: n for k, n in counted.items() if k[0] == factor})
        if best is not None:
            found[factor] = best
    several = [f for f in found if found[f][0] > 1]
    if not found:
        return None
    factor = [*several, *found][0]
    mine = rows.loc[[key(row) == found[factor][1] for row in records(rows)]]
    row = records(mine)[0]
    fastest = _rates_of(tables, mine)
    estimates = pd.DataFrame([from_interval(r) for r in records(mine)], index=mine.index)
    mine = mine.assign(**{name: estimates[name] for name in ESTIMATE}, **{CHOSEN_BY: fastest})
    at = setting({factor: row["level"]}, [factor])
    about = f"efficiency, phase {row['phase']}, {at} against {level(row['base'])}"
    return named("scaling", "scaling", mine, about=about)


def _rates_of(tables: Tables, rows: pd.DataFrame) -> list[float]:
    """The mean rate behind each row of `scaling`."""
    keys = [*tables.results.factors, "phase", "step", "measure"]
    known = {_levels(row, keys): float(row["mean"]) for row in records(tables.summary)}
    return [known.get(_levels(row, keys), math.nan) for row in records(rows)]


def _levels(row: Mapping[str, Any], keys: Sequence[str]) -> tuple[Any, ...]:
    return tuple(None if missing(row[name]) else row[name] for name in keys)


def kinds_of_questions(tables: Tables, known: Sequence[str]) -> list[Figures]:
    """Scanning and aggregation of phases that ask both, where no phase is of one kind alone.

    Questions per second of one client: the reciprocal of the median service time, its geometric
    mean over the questions. Their errors are added as if they always erred together.
    """
    figures = []
    rows = with_source(tables.latency_summary)
    rows = rows[(rows["time"] == "service") & (rows["percentile"] == "p50")]
    asked = KINDS["scan"] | KINDS["aggregate"]
    phases = {p for p, mine in operations(tables).items() if set(mine) <= asked}
    asking = next((p for p in tables.phases_of(rows) if p in phases), None)
    rows = rows[rows["phase"] == asking]
    factors = list(tables.results.factors)
    for kind in ("scan", "aggregate"):
        mine = rows[rows["operation"].isin(KINDS[kind])]
        names = sorted(set(mine["operation"]))
        if kind in known or not names:
            continue
        found = [
            {**dict(zip([*factors, "step"], levels, strict=True)), **_reciprocal(group)}
            for levels, group in grouped(mine, [*factors, "step"])
            if len(group) == len(names)
        ]
        frame = pd.DataFrame(found, columns=[*factors, "step", *ESTIMATE, SOURCE_ROW, NOTE])
        frame = comparable.closed_steps(frame.assign(phase=asking), tables.steps)
        told = f"median of {all_of(names)}, one client"
        figures.append(named(kind, "latency_summary", frame, unit="questions/s", about=told))
    return figures


def _reciprocal(group: pd.DataFrame) -> dict[str, Any]:
    """1 over the geometric mean of times."""
    rows = records(group)
    logs = [-math.log(row["value"]) for row in rows if row["value"] > 0]
    mean = math.exp(sum(logs) / len(rows)) if len(logs) == len(rows) else math.nan
    basis = weaker(*(row["resampled"] for row in rows))
    error = sum(float(row["error"]) for row in rows) / len(rows)
    freedom = min(float(row["freedom"]) for row in rows)
    told = {
        "n": min(int(row["n"]) for row in rows),
        "mean": mean,
        "resampled": basis if error >= 0 else "none",
        "error": error,
        "freedom": freedom,
        SOURCE_ROW: rows_as_text(int(row[SOURCE_ROW]) for row in rows),
        NOTE: "",
    }
    if told["resampled"] == "none":
        return told | {"low": math.nan, "high": math.nan}
    half = min(float(stdtrit(freedom, (1 + LEVEL) / 2)) * error, 700.0)
    return told | {"low": mean * math.exp(-half), "high": mean * math.exp(half)}
