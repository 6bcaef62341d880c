"""Criteria that only servers can fail: a slow node, a crash, the time until they are there."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import pandas as pd

from storewise.analysis.common.choices import varying_promises
from storewise.analysis.common.engines import BASELINE, CEILING, embedded
from storewise.analysis.common.frames import grouped, missing, records
from storewise.analysis.measure.scaling import as_estimate
from storewise.analysis.model.tables import Tables
from storewise.analysis.stats.intervals import LEVEL, Estimate, estimate, pooled, ratio
from storewise.analysis.verdict.criteria import (
    NOTE,
    SOURCE_ROW,
    Figures,
    named,
    rows_as_text,
    with_source,
)
from storewise.analysis.verdict.criteria_equal_load import from_interval, in_most_choices

_CLIENTS = ("workers", "processes", "threads", "volume")


def slow_node(tables: Tables) -> Figures | None:
    """The rate with the fewest slowed nodes over that without, at one number of nodes."""
    promises = varying_promises(tables.results.trials, tables.results.factors)
    factors = list(tables.results.factors)
    table = with_source(tables.slowdown)
    rows = []
    for _, group in grouped(table, [*factors, "phase"]):
        found = records(group)
        # The first step without a slowed node; more of them are alike.
        free = next((row for row in found if row["slowed_nodes"] == 0), None)
        slowed = [row for row in found if row["slowed_nodes"] > 0]
        if free is None or not slowed:
            continue
        row = min(slowed, key=lambda one: (one["slowed_nodes"], one["step"]))
        share = ratio(as_estimate(_whole(row)), as_estimate(_whole(free)))
        places = [int(row[SOURCE_ROW]), int(free[SOURCE_ROW])]
        rows.append({**row, **estimate_columns(share), SOURCE_ROW: rows_as_text(places)})
    if not rows:
        return None
    frame = pd.DataFrame(rows)

    def key(row: Mapping[str, Any]) -> tuple[float, int, str, str]:
        nodes: Any = row.get("nodes")
        size = 0.0 if missing(nodes) else float(nodes)
        return (size, -int(row["slowed_nodes"]), str(row["phase"]), str(row["slow"]))

    counted = in_most_choices(frame, key, promises)
    place = max(counted, key=lambda one: (counted[one], one))
    mine = frame.loc[[key(row) == place for row in records(frame)]]
    nodes, slowed_nodes, phase, how = place
    of = f" of {nodes:g}" if nodes else ""
    about = f"{-slowed_nodes}{of} nodes slowed: {how}, phase {phase}"
    return named("slow_node", "slowdown", mine, about=about)


def _whole(row: Mapping[str, Any]) -> dict[str, Any]:
    return {**row, **from_interval(row)}


def estimate_columns(found: Estimate) -> dict[str, Any]:
    """An estimate with its error as columns of a row."""
    return {
        "n": found.n,
        "mean": found.mean,
        "low": found.low,
        "high": found.high,
        "resampled": found.resampled,
        "error": found.error,
        "freedom": found.freedom,
    }


def setup(tables: Tables) -> Figures | None:
    """From the start of the last server's job to a formed cluster with its tables, in s: how long
    the jobs waited in a queue says nothing of the store. Embedded stores need none."""
    # How many clients there are is nothing to a cluster that is formed before they come.
    factors = [f for f in tables.results.factors if f not in _CLIENTS]
    if tables.sessions.empty:
        return None
    told = tables.sessions[["trial", "formed_time", "queue_time"]]
    told = told.assign(**{SOURCE_ROW: tables.sessions.index})
    told = told.merge(tables.trials[["trial", *factors]], on="trial")
    # A result without queue times had no queue.
    told["value"] = told["formed_time"].astype(float) - told["queue_time"].astype(float).fillna(0)
    groups = list(grouped(told[told["value"] > 0], factors))
    values = [group["value"].to_list() for _, group in groups]
    rows: list[dict[str, Any]] = []
    for (levels, group), own, shared in zip(
        groups, map(estimate, values), pooled(values), strict=True
    ):
        rows.append(
            {
                **dict(zip(factors, levels, strict=True)),
                **estimate_columns(shared or own),
                SOURCE_ROW: rows_as_text(map(int, group[SOURCE_ROW])),
                NOTE: "",
            }
        )
    if not rows:
        return None
    none = Estimate(1, 0.0, 0.0, 0.0, "counted", 0.0, 1.0, log=False)
    rows += [
        {**row, **estimate_columns(none), SOURCE_ROW: "", NOTE: "no servers are needed"}
        for row in records(tables.trials[factors].drop_duplicates())
        if embedded(str(row["engine"])) and row["engine"] not in (BASELINE, CEILING)
    ]
    return named("setup", "sessions", pd.DataFrame(rows), about="without waiting in queues")


def loss(tables: Tables) -> Figures | None:
    """Acknowledged documents that were lost per crash of a server.

    Of a choice that lost nothing in n crashes the note has how many crashes may lose any, with
    95 % confidence: 1 - 0.05^(1/n), about 3/n ("rule of three": Hanley and Lippman-Hand, *JAMA*
    249(13), 1983). That bounds how often, not how much: its interval is unknown.
    """
    factors = list(tables.results.factors)
    crashes = tables.crashes
    if crashes.empty:
        return None
    told = crashes[["trial", "lost_documents"]].assign(**{SOURCE_ROW: crashes.index})
    told = told[told["lost_documents"].notna()].merge(
        tables.trials[["trial", *factors]], on="trial"
    )
    rows: list[dict[str, Any]] = []
    for levels, group in grouped(told, factors):
        # What was lost is told of a trial, which may have had several crashes.
        by_trial = group.groupby("trial")["lost_documents"]
        lost = (by_trial.first().astype(float) / by_trial.size()).to_list()
        found = estimate(lost)
        count = len(group)
        note = f"{count} crash{'es' if count != 1 else ''}"
        if not any(lost):
            found = Estimate(len(lost), 0.0, math.nan, math.nan, "none")
            note = f"nothing lost in {note}; at most {bound(count) * 100:.0f} % of crashes lose any"
        rows.append(
            {
                **dict(zip(factors, levels, strict=True)),
                **estimate_columns(found),
                SOURCE_ROW: rows_as_text(map(int, group[SOURCE_ROW])),
                NOTE: note,
            }
        )
    return named("loss", "crashes", pd.DataFrame(rows)) if rows else None


def bound(crashes: int) -> float:
    """The greatest share of crashes that lose documents with which `crashes` without a loss are
    still as likely as 5 %."""
    return 1.0 - math.pow(1.0 - LEVEL, 1.0 / crashes)
