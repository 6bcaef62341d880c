"""Rates and times of phases: throughput, operations over time, latency."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pandas as pd

from storewise.analysis.common.engines import BASELINE, CEILING, client_side, title, varying_factors
from storewise.analysis.common.text import number, seconds
from storewise.analysis.judge.comparable_steps import WITH, closed_steps
from storewise.analysis.model.tables import Tables
from storewise.figures.chart import Axis, Chart, Medium, Panel, Point, Series, point, rows_axis
from storewise.figures.selection import (
    CLIENTS_CEILING,
    Finder,
    engines_in,
    labelled,
    line_name,
    line_of,
    lines_in,
    lowest,
    on_paper,
    phase_title,
    points_of,
    setting_note,
    without_idle_ceiling,
)
from storewise.figures.style import GREY

#: Percentile -> one of how many operations takes longer: the axis of latency curves.
_TAILS = {"p50": 2, "p90": 10, "p99": 100, "p99.9": 1_000, "p99.99": 10_000}
#: Seconds from which on a line over time is one.
LEAST_SECONDS = 5


def throughput(tables: Tables) -> Chart | None:
    """A row per engine and setting with its mean and interval, and a tick at the client's ceiling;
    a panel per phase. Of many settings those at the lowest levels are on paper."""
    rates = without_idle_ceiling(rates_shown(tables), tables)
    if rates.empty:
        return None
    ceilings, rates = rates[rates["engine"] == CEILING], rates[rates["engine"] != CEILING]
    if rates.empty:
        return None
    factors = tables.results.factors
    names = varying_factors(rates, factors)
    finder = Finder(tables.rates, [*factors, "phase", "step", "measure"])
    ceiling = Finder(ceilings, [*client_side(factors), "phase", "step", "measure"])
    printed = on_paper(rates, names)
    many = len(printed) < len(rates)
    rows: list[str] = []
    series: dict[str, list[Series]] = {}
    for _, group in lines_in(rates, []):
        rank: dict[str, int] = {}
        for label, row in labelled(group):
            name = ", ".join(filter(None, (line_name(row, names), row[WITH])))
            rows.append(name)
            here = series.setdefault(row["phase"], [])
            place = rank[row["phase"]] = rank.get(row["phase"], -1) + 1
            on: Medium = "both" if label in printed.index else "page"
            shown = Series(name, [], "markers", row, on, rank=place if many else -1)
            unit = f"{_counted(row['measure'])}/s"
            words = f"{number(row['mean'])} {unit}"
            mean = point(row["mean"], name, row, words, finder.source("summary", row))
            here.append(replace(shown, points=[mean]))
            for above in ceiling.find(row)[:1]:
                most = float(ceilings["mean"][above])
                words = f"{CLIENTS_CEILING}: {number(most)} {unit}"
                tick = replace(shown, name=CLIENTS_CEILING, colour=GREY, marker="|")
                here.append(replace(tick, points=[Point(most, name, words=words)]))
    axis = rows_axis(rows)
    panels = []
    for phase in tables.phases_of(rates):
        counted = _counted(series[phase][0].record["measure"])
        panels.append(Panel(phase_title(phase), Axis(f"{counted} per second"), axis, series[phase]))
    note = setting_note(printed, names) if many else ""
    return Chart(panels, columns=3, tinted=True, lowest=many, note=note)


def _counted(measure: str) -> str:
    return measure.removesuffix("_per_s")


def rates_shown(tables: Tables) -> pd.DataFrame:
    """Documents per second; of the phases of other workloads than alignments, once they have
    loaded, operations per second. Steps at a target rate are left out: it was not the store that
    set it."""
    summary = tables.rates[tables.rates["mean"] > 0]
    loads = _loads(tables)
    other = tables.results.study.get("workload", "alignments") != "alignments"
    kept = []
    for phase in tables.phases_of(summary):
        measure = "operations_per_s" if other and phase not in loads else "documents_per_s"
        rows = summary[(summary["phase"] == phase) & (summary["measure"] == measure)]
        if phase in loads:
            # The files themselves load nothing: what was timed there is parsing alone.
            rows = rows[rows["engine"] != BASELINE]
        kept.append(closed_steps(rows))
    kept = [rows for rows in kept if len(rows)]
    return pd.concat(kept, ignore_index=True) if kept else summary.iloc[:0]


def _loads(tables: Tables) -> set[str]:
    """The phases that load."""
    summary = tables.rates
    return set(summary.loc[summary["measure"] == "insert_documents_per_s", "phase"])


def over_time(tables: Tables) -> Chart | None:
    """Operations per second over time, mean over repeats, a panel per phase, a line per engine
    and setting of LEAST_SECONDS or more; warm-up is shaded."""
    factors = tables.results.factors
    if tables.series.empty:
        return None
    series = tables.series.merge(tables.trials[["trial", *factors]], on="trial")
    # Too short a last second would give a wild rate.
    series = series[((series["length"] >= 0.2) | (series["second"] == 0))]
    series = series[series["engine"] != CEILING]
    if series.empty:
        return None
    names = varying_factors(series, factors)
    printed = lowest(series, names)
    loads = _loads(tables)
    panels = []
    for phase in tables.phases_of(series):
        rows = series[series["phase"] == phase]
        several = rows["step"].nunique() > 1
        lines, warmup = [], 0
        for rank, group in lines_in(rows, [*names, "step"]):
            by_second = group.groupby("second")
            means = by_second["operations_per_s"].mean()
            if len(means) < LEAST_SECONDS:
                continue
            warm = by_second["warmup"].max().astype(bool)
            if warm.any():
                warmup = max(warmup, int(means[warm].index.max()) + 1)
            points = [Point(s + 0.5, v) for s, v in zip(means.index, means, strict=True)]
            note = f"mean of n = {group['trial'].nunique()}"
            line = line_of(group, names, points, rank, printed, note=note, mode="lines")
            step = f", step {group['step'].iloc[0]:g}" if several else ""
            lines.append(replace(line, name=f"{line.name}{step}", legend=f"{line.legend}{step}"))
        if not lines:
            continue
        end = max(point.x for line in lines for point in line.points) + 0.5
        x = Axis("seconds since the start of the phase", "linear", top=end)
        counted = "batches" if phase in loads else "operations"
        y = Axis(f"{counted} per second", gaps=True)
        panels.append(Panel(phase_title(phase), x, y, lines, warmup))
    note = setting_note(printed, names)
    return Chart(panels, 2.6, columns=1, note=note, lowest=True, time=True) if panels else None


def latency(tables: Tables) -> Chart | None:
    """Service time over the percentile, a panel per operation of a phase. On paper engines are at
    their lowest setting; of several steps the slowest counts."""
    summary = tables.latency_summary
    if summary.empty:
        return None
    summary = summary[(summary["time"] == "service") & (summary["operation"] != "finish")]
    summary = summary[(summary["engine"] != CEILING) & summary["percentile"].isin(_TAILS)]
    if summary.empty:
        return None
    summary = summary.assign(tail=summary["percentile"].map(_TAILS))
    names = varying_factors(summary, tables.results.factors)
    printed = lowest(summary, names)
    tails = {text: at for text, at in _TAILS.items() if at <= summary["tail"].max()}
    x = Axis("percentile", "log", list(tails.values()), [text[1:] for text in tails])
    panels = []
    for phase in tables.phases_of(summary):
        in_phase = summary[summary["phase"] == phase]
        for operation in sorted(set(in_phase["operation"])):
            rows = in_phase[in_phase["operation"] == operation]
            several = rows["step"].nunique() > 1
            lines = []
            for rank, group in lines_in(rows, [*names, "step"]):
                points = points_of(group, "tail", "value", "summary", _percentile, scale=1e3)
                line = line_of(group, names, points, rank, None if several else printed)
                if several:
                    step = f"{line.name}, step {group['step'].iloc[0]:g}"
                    line = replace(line, name=step, on="page")
                size = f"n = {_short(group['count'].iloc[0])}"
                lines.append(replace(line, size=size))
            if several:
                lines += _slowest_steps(rows[rows.index.isin(printed.index)])
            # A single percentile of each is no curve.
            if max(len(line.points) for line in lines) > 1:
                y = Axis("service time in ms", unit="ms")
                panels.append(Panel(f"{phase}: one {operation}", x, y, lines))
    note = setting_note(printed, names)
    return Chart(panels, height=3.2, columns=2, note=note, lowest=True) if panels else None


def _percentile(row: dict[str, Any]) -> str:
    return f"{row['percentile']}: {seconds(row['value'])} ({row['count']:,.0f} operations)"


def _short(count: float) -> str:
    """A count with two digits: 33 k."""
    for size, unit in ((1e9, " G"), (1e6, " M"), (1e3, " k")):
        if count >= size:
            return f"{float(f'{count / size:.2g}'):g}{unit}"
    return f"{count:.0f}"


def _slowest_steps(rows: pd.DataFrame) -> list[Series]:
    lines = []
    for engine in engines_in(rows):
        slowest = rows[rows["engine"] == engine].groupby("tail")["value"].max()
        points = [Point(tail, value * 1e3) for tail, value in slowest.items()]
        lines.append(Series(title(engine), points, record={"engine": engine}, on="paper"))
    return lines
