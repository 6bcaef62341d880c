"""Criteria that only servers can fail: a slow node, a crash, the time until they are there."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import pandas as pd

from storewise.analysis.common.engines import BASELINE, CEILING, embedded, varying_promises
from storewise.analysis.common.frames import grouped, missing, records
from storewise.analysis.common.text import rows_as_text
from storewise.analysis.judge.comparable_steps import WITH
from storewise.analysis.measure.points import geometric
from storewise.analysis.model.tables import Tables
from storewise.analysis.stats.intervals import LEVEL
from storewise.analysis.verdict.criteria import NOTE, SOURCE_ROW, Criterion, named, with_source
from storewise.analysis.verdict.criteria_equal_load import in_most_choices
from storewise.analysis.verdict.values import COLUMNS

_CLIENTS = ("workers", "processes", "threads", "volume")


def slow_node(tables: Tables) -> Criterion | None:
    """The rate with the fewest slowed nodes over that without, at one number of nodes."""
    promises = varying_promises(tables.results.trials, tables.results.factors)
    factors = list(tables.results.factors)
    rows = []
    for _, group in grouped(with_source(tables.slowdown), [*factors, "phase"]):
        steps = records(group)
        # The first step without a slowed node; more of them are alike.
        free = next((row for row in steps if row["slowed_nodes"] == 0), None)
        slowed = [row for row in steps if row["slowed_nodes"] > 0]
        if free is None or not slowed:
            continue
        row = min(slowed, key=lambda one: (one["slowed_nodes"], one["step"]))
        places = [int(row[SOURCE_ROW]), int(free[SOURCE_ROW])]
        found = {**row, "mean": row["mean"] / free["mean"], SOURCE_ROW: rows_as_text(places)}
        rows.append({**found, "free_step": free["step"]})

    def key(row: Mapping[str, Any]) -> tuple[Any, ...]:
        nodes: Any = row.get("nodes")
        size = 0.0 if missing(nodes) else float(nodes)
        return (size, -int(row["slowed_nodes"]), str(row["phase"]), str(row["slow"]))

    common = in_most_choices(pd.DataFrame(rows), key, promises)
    if common is None:
        return None
    _, (nodes, slowed_nodes, phase, how), of_key = common
    of = f" of {nodes:g}" if nodes else ""
    about = f"{-slowed_nodes}{of} nodes slowed: {how}, phase {phase}"
    one = named("slow_node", "slowdown", of_key, about=about)
    return replace(one, values=_shares_of_trials(tables, of_key))


def _shares_of_trials(tables: Tables, rows: pd.DataFrame) -> pd.DataFrame:
    """Of each trial: its rate in the slowed step over that in the step without a slowed node."""
    places = [*tables.results.factors, "phase"]
    rates = tables.throughput[tables.throughput["measure"] == "operations_per_s"]
    rates = rates[["trial", "phase", "step", "value"]].astype({"phase": str})
    wanted = rows[[*places, "step", "free_step"]].astype({"phase": str})
    slowed = rates.merge(tables.trials[["trial", *tables.results.factors]], on="trial")
    slowed = slowed.merge(wanted, on=[*places, "step"])
    free = rates.rename(columns={"step": "free_step", "value": "free"})
    both = slowed.merge(free, on=["trial", "phase", "free_step"])
    return both.assign(value=both["value"] / both["free"], **{WITH: ""})[COLUMNS]


def setup(tables: Tables) -> Criterion | None:
    """From the start of the last server's job to a formed cluster with its tables, in s: how long
    the jobs waited in a queue says nothing of the store. Embedded stores need none."""
    # How many clients there are is nothing to a cluster that is formed before they come.
    factors = [f for f in tables.results.factors if f not in _CLIENTS]
    if tables.sessions.empty:
        return None
    times = tables.sessions[["trial", "formed_time", "queue_time"]].astype(
        {"formed_time": float, "queue_time": float}
    )
    # A result without queue times had no queue.
    times["value"] = times["formed_time"] - times["queue_time"].fillna(0)
    times = _with_factors(times, tables, factors)
    rows: list[dict[str, Any]] = [
        _row(factors, levels, geometric(group["value"]), group, "")
        for levels, group in grouped(times[times["value"] > 0], factors)
    ]
    if not rows:
        return None
    rows += [
        {**row, "mean": 0.0, "n": 1, SOURCE_ROW: "", NOTE: "no servers are needed"}
        for row in records(tables.trials[factors].drop_duplicates())
        if embedded(str(row["engine"])) and row["engine"] not in (BASELINE, CEILING)
    ]
    one = named("setup", "sessions", pd.DataFrame(rows), about="without waiting in queues")
    alone = tables.trials[[embedded(str(name)) for name in tables.trials["engine"]]]
    alone = alone[~alone["engine"].isin([BASELINE, CEILING])][["trial"]].assign(value=0.0)
    each = pd.concat([times.loc[times["value"] > 0, ["trial", "value"]], alone])
    return replace(one, values=each.assign(**{WITH: ""}))


def _with_factors(table: pd.DataFrame, tables: Tables, factors: Sequence[str]) -> pd.DataFrame:
    """A table of trials with their factors and the places of its rows."""
    placed = table.assign(**{SOURCE_ROW: table.index})
    return placed.merge(tables.trials[["trial", *factors]], on="trial")


def _row(
    factors: Sequence[str], levels: Sequence[Any], mean: float, group: pd.DataFrame, note: str
) -> dict[str, Any]:
    places = rows_as_text(map(int, group[SOURCE_ROW]))
    named_levels = dict(zip(factors, levels, strict=True))
    n = group["trial"].nunique()
    return {**named_levels, "mean": mean, "n": n, SOURCE_ROW: places, NOTE: note}


def loss(tables: Tables) -> Criterion | None:
    """Acknowledged documents that were lost per crash of a server.

    Of a choice that lost nothing in n crashes the note has how many crashes may lose any, with
    95 % confidence: 1 - 0.05^(1/n), about 3/n ("rule of three": Hanley and Lippman-Hand, *JAMA*
    249(13), 1983). That bounds how often, not how much: its interval is unknown.
    """
    factors = list(tables.results.factors)
    crashes = tables.crashes
    if crashes.empty:
        return None
    losses = _with_factors(crashes[["trial", "lost_documents"]], tables, factors)
    rows = []
    for levels, group in grouped(losses[losses["lost_documents"].notna()], factors):
        # What was lost is known of a trial, which may have had several crashes.
        by_trial = group.groupby("trial")["lost_documents"]
        lost = (by_trial.first().astype(float) / by_trial.size()).to_list()
        count = len(group)
        note = f"{count} crash{'es' if count != 1 else ''}"
        if not any(lost):
            note = f"nothing lost in {note}; at most {bound(count) * 100:.0f} % of crashes lose any"
        rows.append(_row(factors, levels, geometric(lost), group, note))
    return named("loss", "crashes", pd.DataFrame(rows)) if rows else None


def bound(crashes: int) -> float:
    """The greatest share of crashes that lose documents with which `crashes` without a loss are
    still as likely as 5 %."""
    return 1.0 - math.pow(1.0 - LEVEL, 1.0 / crashes)
