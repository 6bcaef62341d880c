"""Rates and times of phases: throughput, operations over time, latency."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pandas as pd

from storewise.analysis.common.engines import BASELINE, title, varying_factors
from storewise.analysis.common.frames import records
from storewise.analysis.common.text import number, seconds
from storewise.analysis.judge.comparable_steps import WITH, closed_steps
from storewise.analysis.model.tables import Tables
from storewise.figures.chart import Axis, Chart, Panel, Point, Series, point, rows_axis
from storewise.figures.selection import (
    Finder,
    engines_in,
    line_name,
    line_of,
    lines_in,
    lowest,
    phase_title,
    points_of,
    setting_note,
)


def throughput(tables: Tables) -> Chart | None:
    """A row per engine and setting with its mean and interval, a panel per phase."""
    rates = rates_shown(tables)
    if rates.empty:
        return None
    factors = tables.results.factors
    names = varying_factors(rates, factors)
    finder = Finder(tables.summary, [*factors, "phase", "step", "measure"])
    rows: list[str] = []
    series: dict[str, list[Series]] = {}
    for _, group in lines_in(rates, []):
        for row in records(group):
            rows.append(", ".join(filter(None, (line_name(row, names), row[WITH]))))
            words = f"{number(row['mean'])} {_counted(row['measure'])}/s"
            mean = point(row["mean"], rows[-1], row, words, finder.source("summary", row))
            series.setdefault(row["phase"], []).append(Series(rows[-1], [mean], "markers", row))
    axis = rows_axis(rows)
    panels = []
    for phase in tables.phases_of(rates):
        label = f"{_counted(series[phase][0].record['measure'])} per second"
        panels.append(Panel(phase_title(phase), Axis(label), axis, series[phase]))
    return Chart(panels, columns=6, tinted=True)


def _counted(measure: str) -> str:
    return measure.removesuffix("_per_s")


def rates_shown(tables: Tables) -> pd.DataFrame:
    """Documents per second; of the phases of other workloads than alignments, once they have
    loaded, operations per second. Steps at a target rate are left out: it was not the store that
    set it."""
    summary = tables.summary[tables.summary["mean"] > 0]
    loads = set(tables.summary.loc[tables.summary["measure"] == "insert_documents_per_s", "phase"])
    other = tables.results.study.get("workload", "alignments") != "alignments"
    kept = []
    for phase in tables.phases_of(summary):
        measure = "operations_per_s" if other and phase not in loads else "documents_per_s"
        rows = summary[(summary["phase"] == phase) & (summary["measure"] == measure)]
        if phase in loads:
            # The files themselves load nothing: what was timed there is parsing alone.
            rows = rows[rows["engine"] != BASELINE]
        kept.append(closed_steps(rows, tables.steps))
    kept = [rows for rows in kept if len(rows)]
    return pd.concat(kept, ignore_index=True) if kept else summary.iloc[:0]


def over_time(tables: Tables) -> Chart | None:
    """Operations per second over time, mean over repeats, a panel per phase, a line per engine
    and setting; warm-up is shaded."""
    factors = tables.results.factors
    series = tables.series.merge(tables.trials[["trial", *factors]], on="trial")
    # Too short a last second would give a wild rate.
    series = series[(series["length"] >= 0.2) | (series["second"] == 0)]
    if series.empty:
        return None
    names = varying_factors(series, factors)
    panels = []
    for phase in tables.phases_of(series):
        rows = series[series["phase"] == phase]
        several = rows["step"].nunique() > 1
        lines, warmup = [], 0
        for rank, group in lines_in(rows, [*names, "step"]):
            by_second = group.groupby("second")
            means = by_second["operations_per_s"].mean()
            warm = by_second["warmup"].max().astype(bool)
            if warm.any():
                warmup = max(warmup, int(means[warm].index.max()) + 1)
            points = [Point(s + 0.5, v) for s, v in zip(means.index, means, strict=True)]
            note = f"mean of n = {group['trial'].nunique()}"
            line = line_of(group, names, points, rank, note=note)
            step = f", step {group['step'].iloc[0]:g}" if several else ""
            lines.append(replace(line, name=f"{line.name}{step}", legend=line.name))
        end = max(point.x for line in lines for point in line.points) + 0.5
        x = Axis("seconds since the start of the phase", "linear", top=end)
        y = Axis("operations per second", gaps=True)
        panels.append(Panel(phase_title(phase), x, y, lines, warmup))
    return Chart(panels, height=2.9, columns=1, lowest=True, time=True)


def latency(tables: Tables) -> Chart | None:
    """Percentiles of service time, a panel per operation of a phase. On paper engines are at their
    lowest setting; of several steps the slowest counts."""
    summary = tables.latency_summary
    summary = summary[(summary["time"] == "service") & (summary["operation"] != "finish")]
    if summary.empty:
        return None
    names = varying_factors(summary, tables.results.factors)
    printed = lowest(summary, names)
    panels = []
    for phase in tables.phases_of(summary):
        in_phase = summary[summary["phase"] == phase]
        for operation in sorted(set(in_phase["operation"])):
            rows = in_phase[in_phase["operation"] == operation]
            several = rows["step"].nunique() > 1
            lines = []
            for rank, group in lines_in(rows, [*names, "step"]):
                points = points_of(
                    group, "percentile", "value", "latency_summary", _percentile, scale=1e3
                )
                line = line_of(group, names, points, rank, None if several else printed)
                if several:
                    step = f"{line.name}, step {group['step'].iloc[0]:g}"
                    line = replace(line, name=step, on="page")
                lines.append(line)
            if several:
                lines += _slowest_steps(rows[rows.index.isin(printed.index)])
            x = Axis("percentile", "category", list(dict.fromkeys(rows["percentile"])))
            y = Axis("service time in ms", unit="ms")
            panels.append(Panel(f"{phase}: one {operation}", x, y, lines))
    note = setting_note(printed, names)
    return Chart(panels, height=3.5, columns=6, note=note, lowest=True)


def _percentile(row: dict[str, Any]) -> str:
    return f"{row['percentile']}: {seconds(row['value'])} ({row['count']:,.0f} operations)"


def _slowest_steps(rows: pd.DataFrame) -> list[Series]:
    lines = []
    for engine in engines_in(rows):
        slowest = rows[rows["engine"] == engine].groupby("percentile", sort=False)["value"].max()
        points = [Point(percentile, value * 1e3) for percentile, value in slowest.items()]
        lines.append(Series(title(engine), points, record={"engine": engine}, on="paper"))
    return lines
