"""Rates and times of phases: throughput, latency, and the times of queries over selectivity."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pandas as pd

from storewise.analysis.common.engines import BASELINE, CEILING
from storewise.analysis.common.text import rows_as_text, seconds
from storewise.analysis.judge.comparable_steps import closed_steps, headline_rates, loads
from storewise.analysis.model.tables import Tables
from storewise.figures.chart import Axis, Chart, Panel, level_axis
from storewise.figures.selection import LINES, ROWS, by_phase, choose, curves, rows_of_panel

#: Percentile -> one of how many operations takes longer: the axis of latency curves.
_TAILS = {"p50": 2, "p90": 10, "p99": 100, "p99.9": 1_000, "p99.99": 10_000}
#: Seconds of work from which on a rate of the null engine is told: that of less is a clock's.
_LEAST_WORK = 1.0


def rates_shown(tables: Tables) -> pd.DataFrame:
    """Rates of each phase: documents/s of loads, operations/s of others. Only steps with equal work
    for all stores, without target rates."""
    rates = headline_rates(tables, tables.rates[tables.rates["mean"] > 0])
    # The files themselves load nothing: what was timed there is parsing alone.
    rates = rates[~((rates["engine"] == BASELINE) & rates["phase"].isin(loads(tables.throughput)))]
    times = tables.throughput.merge(tables.trials[["trial", "engine"]], on="trial")
    idle = times[(times["measure"] == "duration") & (times["value"] < _LEAST_WORK)]
    idle = idle[idle["engine"] == CEILING]
    rates = rates[~((rates["engine"] == CEILING) & rates["phase"].isin(set(idle["phase"])))]
    kept = [closed_steps(rows) for _, rows in by_phase(tables, rates)]
    return pd.concat(kept) if kept else rates


def measure_of(rows: pd.DataFrame) -> str:
    """The unit that the rates of a phase count: ``documents`` or ``operations``."""
    return str(rows["measure"].iloc[0]).removesuffix("_per_s")


def throughput(tables: Tables) -> Chart | None:
    """A panel per phase with a row per engine and setting: mean and interval; the client's ceiling
    is last."""
    rates = rates_shown(tables)
    if rates.empty or (rates["engine"] == CEILING).all():
        return None
    shown = choose(rates, tables.results.factors, ROWS)
    panels = []
    for phase, rows in by_phase(tables, shown.rows):
        counted = measure_of(rows)
        dots = rows_of_panel(rows, shown.names, f"{counted}/s", "summary", "markers")
        axis, names = Axis(f"{counted} per second"), [dot.name for dot in dots]
        panels.append(Panel(phase, axis, Axis(), dots, names))
    return Chart(panels, shown.note)


def latency(tables: Tables) -> Chart | None:
    """Service time in ms over the percentile, a panel per phase and operation."""
    times = tables.latency_summary
    times = times[(times["time"] == "service") & (times["operation"] != "finish")]
    times = times[(times["engine"] != CEILING) & times["percentile"].isin(_TAILS)]
    if times.empty:
        return None
    times = times.assign(tail=times["percentile"].map(_TAILS)).sort_values("tail")
    shown = choose(times, [*tables.results.factors, "step"], LINES)
    tails = {text: at for text, at in _TAILS.items() if at <= times["tail"].max()}
    x = Axis("percentile", "log", list(tails.values()), [text[1:] for text in tails])
    panels = []
    for phase, in_phase in by_phase(tables, shown.rows):
        for operation, rows in in_phase.groupby("operation", observed=True):
            drawn = curves(rows, shown.names, "tail", "mean", _percentile, "summary", 1e3)
            lines = [line for line, _ in drawn]
            # A single percentile of each is no curve.
            if max(len(line.points) for line in lines) > 1:
                y = Axis("service time in ms")
                panels.append(Panel(f"{phase}: one {operation}", x, y, lines))
    return Chart(panels, shown.note)


def _percentile(row: Mapping[str, Any]) -> str:
    return f"{row['percentile']}: {seconds(row['mean'])} ({row['count']:,.0f} operations)"


def over_selectivity(tables: Tables) -> Chart | None:
    """Mean seconds per execution over the selectivity (% of the readings), a panel per query.
    Hollow markers: a plan did not use the secondary index."""
    factors = list(tables.results.factors)
    plans = tables.plans.join(tables.trials.set_index("trial")[factors], on="trial")
    plans = plans[(plans["engine"] != CEILING) & (plans["seconds"] > 0)]
    if plans["selectivity_pct"].nunique() < 2:
        return None
    shown = choose(_means(plans, [*factors, "query", "selectivity_pct"]), factors, LINES, "query")
    panels = []
    for query, rows in shown.rows.groupby("query", observed=True):
        drawn = curves(rows, shown.names, "selectivity_pct", "mean", _execution, "plans")
        x = level_axis("selectivity (% of the readings)", rows["selectivity_pct"], "log")
        panels.append(Panel(str(query), x, Axis("seconds"), [line for line, _ in drawn]))
    return Chart(panels, shown.note)


def _means(plans: pd.DataFrame, keys: list[str]) -> pd.DataFrame:
    """Means over trials and steps by `keys`; the index has the rows of `plans` behind each mean."""
    plans = plans.assign(row=plans.index, hollow=plans["uses_index"].eq(False))
    means = plans.groupby(keys, dropna=False, observed=True, as_index=False).agg(
        mean=("seconds", "mean"),
        n=("seconds", "size"),
        hollow=("hollow", "any"),
        rows=("row", rows_as_text),
    )
    return means.set_index("rows")


def _execution(row: Mapping[str, Any]) -> str:
    words = f"{seconds(row['mean'])} at {row['selectivity_pct']:g} %"
    return words + ("\ndid not use the index" if row["hollow"] else "")
