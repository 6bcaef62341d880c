"""Rates and times of phases: throughput and latency."""

from __future__ import annotations

from typing import Any

import pandas as pd

from storewise.analysis.common.engines import BASELINE, CEILING, client_side
from storewise.analysis.common.frames import records
from storewise.analysis.common.text import number, seconds
from storewise.analysis.judge.comparable_steps import closed_steps
from storewise.analysis.model.tables import Tables
from storewise.figures.chart import Axis, Chart, Panel, Point, Series, rows_axis
from storewise.figures.selection import (
    CLIENTS_CEILING,
    LINES,
    ROWS,
    Finder,
    by_phase,
    choose,
    line_of,
    lines_in,
    phase_title,
    points_of,
    row_name,
    series_of_rows,
    without_idle_ceiling,
)
from storewise.figures.style import GREY

#: Percentile -> one of how many operations takes longer: the axis of latency curves.
_TAILS = {"p50": 2, "p90": 10, "p99": 100, "p99.9": 1_000, "p99.99": 10_000}


def throughput(tables: Tables) -> Chart | None:
    """A row per engine and setting with its mean and interval, and a tick at the client's ceiling;
    a panel per phase."""
    rates = without_idle_ceiling(rates_shown(tables), tables)
    if rates.empty or (rates["engine"] == CEILING).all():
        return None
    ceilings, rates = rates[rates["engine"] == CEILING], rates[rates["engine"] != CEILING]
    factors = tables.results.factors
    ceiling = Finder(ceilings, [*client_side(factors), "phase", "step", "measure"])
    shown = choose(rates, factors, ROWS)
    panels = []
    for phase, rows in by_phase(tables, shown.rows):
        counted = str(rows["measure"].iloc[0]).removesuffix("_per_s")
        series = series_of_rows(rows, shown.names, "summary", f"{counted}/s", "markers")
        names = rows_axis(one.name for one in series)
        for row in records(rows):
            for above in ceiling.find(row)[:1]:
                most = float(ceilings["mean"][above])
                words = f"{number(most)} {counted}/s"
                tick = [Point(most, row_name(row, shown.names), words=words)]
                series.append(Series(CLIENTS_CEILING, tick, "markers", colour=GREY, marker="|"))
        panels.append(Panel(phase_title(phase), Axis(f"{counted} per second"), names, series))
    return Chart(panels, shown.note)


def rates_shown(tables: Tables) -> pd.DataFrame:
    """Documents per second; of the phases of other workloads than alignments, once they have
    loaded, operations per second. Steps at a target rate are left out: it was not the store that
    set it."""
    summary = tables.rates[tables.rates["mean"] > 0]
    loads = _loads(tables)
    other = tables.results.study.get("workload", "alignments") != "alignments"
    kept = []
    for phase, rows in by_phase(tables, summary):
        measure = "operations_per_s" if other and phase not in loads else "documents_per_s"
        rows = rows[rows["measure"] == measure]
        if phase in loads:
            # The files themselves load nothing: what was timed there is parsing alone.
            rows = rows[rows["engine"] != BASELINE]
        kept.append(closed_steps(rows))
    kept = [rows for rows in kept if len(rows)]
    return pd.concat(kept) if kept else summary.iloc[:0]


def _loads(tables: Tables) -> set[str]:
    """The phases that load."""
    summary = tables.rates
    return set(summary.loc[summary["measure"] == "insert_documents_per_s", "phase"])


def latency(tables: Tables) -> Chart | None:
    """Service time over the percentile, a panel per operation of a phase."""
    summary = tables.latency_summary
    summary = summary[(summary["time"] == "service") & (summary["operation"] != "finish")]
    summary = summary[(summary["engine"] != CEILING) & summary["percentile"].isin(_TAILS)]
    if summary.empty:
        return None
    summary = summary.assign(tail=summary["percentile"].map(_TAILS))
    shown = choose(summary, [*tables.results.factors, "step"], LINES)
    tails = {text: at for text, at in _TAILS.items() if at <= summary["tail"].max()}
    x = Axis("percentile", "log", list(tails.values()), [text[1:] for text in tails])
    panels = []
    for phase, in_phase in by_phase(tables, shown.rows):
        for operation, rows in in_phase.groupby("operation", observed=True):
            lines = [
                line_of(group, shown.names, _percentiles(group), rank)
                for rank, group in lines_in(rows, shown.names)
            ]
            # A single percentile of each is no curve.
            if max(len(line.points) for line in lines) > 1:
                panels.append(
                    Panel(f"{phase}: one {operation}", x, Axis("service time in ms"), lines)
                )
    return Chart(panels, shown.note)


def _percentiles(group: pd.DataFrame) -> list[Point]:
    def words(row: dict[str, Any]) -> str:
        return f"{row['percentile']}: {seconds(row['value'])} ({row['count']:,.0f} operations)"

    return points_of(group, "tail", "value", "summary", words, scale=1e3)
