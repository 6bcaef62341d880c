"""Criteria that compare at equal load or size: latency, scaling, and kinds of questions.

All choices are compared at one level that most of them were measured at, the highest of those.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Literal

import numpy as np
import pandas as pd

from storewise.analysis.common.engines import BASELINE, label, varying_promises
from storewise.analysis.common.frames import grouped, key_of, missing, records
from storewise.analysis.common.text import all_of, level, rows_as_text, setting
from storewise.analysis.judge import comparable_steps as comparable
from storewise.analysis.judge.comparable_steps import LOAD_RATE, clients_in_words, loads, of_rates
from storewise.analysis.model.columns import ALL, OTHER, PARAMETERS
from storewise.analysis.model.tables import Tables
from storewise.analysis.verdict.criteria import (
    CHOSEN_BY,
    KINDS,
    NOTE,
    SOURCE_ROW,
    Criterion,
    named,
    operations,
    phases_of_kinds,
    with_source,
)
from storewise.analysis.verdict.values import COLUMNS, of_rows

#: Resources whose efficiency is compared, the first that two choices were measured over.
RESOURCES = ("nodes", "workers", "processes", "threads", "node_threads")
Key = tuple[Any, ...]


def in_most_choices(
    rows: pd.DataFrame, key: Callable[[Mapping[str, Any]], Key], promises: Sequence[str]
) -> tuple[int, Key, pd.DataFrame] | None:
    """Of the keys that most choices have the highest, after their number, with its rows.

    The baseline counts for none; None where no choice has any.
    """
    choices: dict[Key, set[str]] = {}
    keys = []
    for row in records(rows):
        keys.append(key(row))
        if row["engine"] != BASELINE:
            choices.setdefault(keys[-1], set()).add(label(row, promises))
    if not choices:
        return None
    best = max(choices, key=lambda one: (len(choices[one]), one))
    return len(choices[best]), best, rows.loc[[one == best for one in keys]]


def latency(tables: Tables) -> Criterion | None:
    """p99 of the response time at the highest target rate that most choices had; else with the
    most clients that most choices had, in steps or as factors.

    Only at a target rate does it count: clients that each wait for their answers make as many
    operations as their latency lets them, so that their rate has said it already.
    """
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
        _at_level(tables, steps[steps["rate"].notna()], "rate", promises),
        _at_level(
            tables, steps[steps["rate"].isna() & steps["phase"].isin(rising)], "clients", promises
        ),
        _with_all_clients(tables, promises, searched),
    ]
    # An open loop shows waiting that a closed one hides, but only between those that had it.
    possible = (way for way in ways if way is not None)
    return max(possible, key=lambda way: way[0], default=(0, None))[1]


def _at_level(
    tables: Tables, rows: pd.DataFrame, load: Literal["rate", "clients"], promises: Sequence[str]
) -> tuple[int, Criterion] | None:
    def key(row: Mapping[str, Any]) -> Key:
        counts = load == "clients" and not missing(row["planned"])
        planned = f"{row['planned']:,.0f} operations" if counts else ""
        other = "" if missing(row[OTHER]) else str(row[OTHER])
        return (float(row[load]), str(row["phase"]), other, planned)

    common = in_most_choices(rows, key, promises)
    if common is None:
        return None
    count, (level_of_load, phase, *others), rows = common
    if load == "rate":
        words = ["p99 response", f"phase {phase}", f"{level_of_load:,.0f} operations/s asked"]
    else:
        words = ["p99", f"phase {phase}", clients_in_words(level_of_load)]
    about = ", ".join(filter(None, [*words, *others]))
    criterion = named("latency", "summary", rows, about=about)
    return count, replace(criterion, counts=load == "rate", values=of_rows(tables, rows))


def _with_all_clients(
    tables: Tables, promises: Sequence[str], searched: set[str]
) -> tuple[int, Criterion] | None:
    """By the factors workers, processes and threads: service times of the operation that a phase
    has most of."""
    shares = {phase: of for phase, of in operations(tables).items() if phase not in searched}
    order = [p for p in tables.phases_of(tables.rates) if p in shares]
    others = [p for p in order if p not in loads(tables.throughput)] or order
    phase = next(iter([*phases_of_kinds(shares, others).values(), *others]), "")
    if not phase:
        return None
    operation = max(shares[phase], key=shares[phase].__getitem__)
    rows = with_source(tables.summary)
    rows = rows[
        (rows["phase"] == phase)
        & (rows["operation"] == operation)
        & (rows["measure"] == "service_p99")
        & (rows["engine"] != BASELINE)
    ]
    # Where the steps of this phase differ, the table of steps says how.
    steps = zip(tables.steps["phase"].astype(str), tables.steps["step"].astype(int), strict=True)
    rows = rows[~comparable.at_steps(rows, set(steps))]

    def key(row: Mapping[str, Any]) -> Key:
        counts = (row.get(name, 1) for name in ("workers", "processes", "threads"))
        return (math.prod(1.0 if missing(n) else float(n) for n in counts),)

    common = in_most_choices(rows, key, promises)
    if common is None:
        return None
    count, (clients,), rows = common
    words = f"p99 of {operation}, phase {phase}, {clients_in_words(clients)}"
    one = named("latency", "summary", rows, about=words)
    return count, replace(one, counts=False, values=of_rows(tables, rows))


def scaling(tables: Tables) -> Criterion | None:
    """Efficiency at the largest level of nodes (else workers, processes, threads) that most choices
    reached from the same lowest one; of each choice in the configuration that was fastest there,
    for what is slow with one node scales easily."""
    promises = varying_promises(tables.results.trials, tables.results.factors)
    rows = with_source(tables.scaling)
    rows = rows[(rows["quantity"] == "efficiency") & (rows["level"] > rows["base"])]
    rows = rows[
        of_rates(rows, loads(tables.throughput), [LOAD_RATE]) & (rows["engine"] != BASELINE)
    ]
    order = tables.phases_of(rows)

    def key(row: Mapping[str, Any]) -> Key:
        place = -order.index(str(row["phase"]))
        return (place, -row["base"], row["level"], -int(row["step"]))

    by_factor = {
        factor: common
        for factor in RESOURCES
        if (common := in_most_choices(rows[rows["factor"] == factor], key, promises))
    }
    if not by_factor:
        return None
    several = [factor for factor, (count, *_) in by_factor.items() if count > 1]
    factor = [*several, *by_factor][0]
    rows = by_factor[factor][2]
    row = records(rows)[0]
    rows = rows.assign(**{CHOSEN_BY: _rates_of(tables, rows)})
    at = setting({factor: row["level"]}, [factor])
    about = f"efficiency, phase {row['phase']}, {at} against {level(row['base'])}"
    # What more clients bring is in the rates; what more nodes bring is a reason to buy them.
    one = named("scaling", "scaling", rows, about=about)
    return replace(one, counts=factor == "nodes", values=_efficiencies(tables, rows, factor))


def _efficiencies(tables: Tables, rows: pd.DataFrame, factor: str) -> pd.DataFrame:
    """Of each trial at the level: its rate over that of the same round at the lowest level, over
    the ratio of the levels."""
    held = [f for f in tables.results.factors if f != factor]
    keys = [*held, "repeat", "phase", "step", "measure"]
    trials = tables.trials[["trial", "repeat", *tables.results.factors]]
    rates = tables.throughput.merge(trials, on="trial").astype({factor: float})
    wanted = rows[[*held, "phase", "step", "measure", "level", "base"]].astype({"phase": str})
    rates = rates.astype({"phase": str}).merge(wanted, on=[*held, "phase", "step", "measure"])
    low = rates[rates[factor] == rates["base"]][[*keys, "value"]]
    high = rates[rates[factor] == rates["level"]]
    both = high.merge(low.rename(columns={"value": "lowest"}), on=keys)
    share = both["value"] / both["lowest"] * both["base"] / both["level"]
    return both.assign(value=share, **{comparable.WITH: ""})[COLUMNS]


def _rates_of(tables: Tables, rows: pd.DataFrame) -> list[float]:
    """The mean rate behind each row of `scaling`."""
    keys = [*tables.results.factors, "phase", "step", "measure"]
    known = {key_of(row, keys): float(row["mean"]) for row in records(tables.rates)}
    return [known.get(key_of(row, keys), math.nan) for row in records(rows)]


def kinds_of_questions(tables: Tables, known: Sequence[str]) -> list[Criterion]:
    """Scanning and aggregation of phases that ask both, where no phase is of one kind alone.

    Questions per second of one client: the reciprocal of the median service time, its geometric
    mean over the questions.
    """
    criteria = []
    rows = with_source(tables.summary)
    rows = rows[(rows["measure"] == "service_p50") & (rows["operation"] != ALL)]
    questions = KINDS["scan"] | KINDS["aggregate"]
    phases = {phase for phase, of in operations(tables).items() if set(of) <= questions}
    phase = next((p for p in tables.phases_of(rows) if p in phases), None)
    rows = rows[rows["phase"] == phase]
    keys = [*tables.results.factors, "step", *PARAMETERS, OTHER]
    for kind in ("scan", "aggregate"):
        of_kind = rows[rows["operation"].isin(KINDS[kind])]
        names = sorted(set(of_kind["operation"]))
        if kind in known or not names:
            continue
        # Each question's logarithm has the same weight.
        figures = [
            {
                **dict(zip(keys, levels, strict=True)),
                "mean": math.exp(-float(np.log(group["mean"].astype(float)).mean())),
                "n": int(group["n"].min()),
                SOURCE_ROW: rows_as_text(map(int, group[SOURCE_ROW])),
                NOTE: "",
            }
            for levels, group in grouped(of_kind, keys)
            if len(group) == len(names)
        ]
        frame = pd.DataFrame(figures, columns=[*keys, "mean", "n", SOURCE_ROW, NOTE])
        frame = comparable.closed_steps(frame.assign(phase=phase))
        about = f"median of {all_of(names)}, one client"
        one = named(kind, "summary", frame, unit="questions/s", about=about)
        medians = tables.measures[
            (tables.measures["measure"] == "service_p50")
            & (tables.measures["phase"] == phase)
            & tables.measures["operation"].isin(names)
        ]
        logs = medians.assign(value=-np.log(medians["value"].astype(float)))
        groups = logs.groupby(["trial", "phase", "step"], observed=True)["value"]
        each = groups.mean().map(math.exp)[groups.size() == len(names)]
        values = of_rows(tables, frame, each.reset_index(), ["phase", "step"])
        criteria.append(replace(one, values=values))
    return criteria
