"""Interactive figures of times and steps: latency, clients, latency over throughput, run time."""

from __future__ import annotations

import html
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pandas as pd

from storewise.analysis.common.engines import title, varying_factors
from storewise.analysis.common.frames import grouped, missing, records
from storewise.analysis.common.text import number, seconds
from storewise.analysis.measure.steps import ALL, OTHER, PARAMETERS, wide
from storewise.figures.selection import engines_in
from storewise.figures.steps import knees_of
from storewise.report.data.rows import Finder
from storewise.report.graphs.base import Drawing, Graph, Line, Panel, level_axis, value_axis
from storewise.report.graphs.rates import MOST

_MEASURE = "operations_per_s"


def latency(drawing: Drawing) -> Graph | None:
    """Percentiles of service time, a panel per operation of a phase."""
    tables = drawing.tables
    found = tables.latency_summary
    found = found[(found["time"] == "service") & (found["operation"] != "finish")]
    if found.empty:
        return None
    names = varying_factors(found, tables.results.factors)
    panels = []
    for phase in tables.phases_of(found):
        for operation in sorted(set(found.loc[found["phase"] == phase, "operation"])):
            here = found[(found["phase"] == phase) & (found["operation"] == operation)]
            several = here["step"].nunique() > 1
            data = []
            for engine in engines_in(here):
                own = here[here["engine"] == engine]
                for place, (_, group) in enumerate(grouped(own, [*names, "step"])):
                    first = records(group)[0]
                    name = drawing.line_name(first, names)
                    name += f", step {first['step']:g}" if several else ""
                    line = Line(name, first)
                    for label, row in zip(group.index, records(group), strict=True):
                        told = f"{row['percentile']}: {seconds(row['value'])}"
                        told += f" ({row['count']:,.0f} operations)"
                        text = drawing.hover(
                            name, row, "latency_summary", told, scale=1e3, interval_of=" ms"
                        )
                        source = f"latency_summary:{label}"
                        line.add(row["percentile"], row["value"] * 1e3, row, text, source, 1e3)
                    data.append(drawing.trace(line, dash=place, rank=place))
            order = list(dict.fromkeys(here["percentile"]))
            layout = {
                "xaxis": {
                    "title": {"text": "percentile"},
                    "type": "category",
                    "categoryorder": "array",
                    "categoryarray": order,
                },
                "yaxis": value_axis("service time in ms", (here["value"] * 1e3).to_list()),
            }
            panels.append(Panel(f"{phase}: one {operation}", data, layout))
    return Graph(panels[:MOST], lowest=True)


def _alike(phase: str, here: pd.DataFrame) -> Iterator[tuple[str, pd.DataFrame]]:
    """Steps of a phase that were asked the same but for PARAMETERS: no line joins others."""
    for other in dict.fromkeys(map(str, here[OTHER])):
        yield (f"{phase}, {other}" if other else phase), here[here[OTHER] == other]


class _Steps:
    """Rows of steps: wide, with the rows of the long table behind each."""

    def __init__(self, drawing: Drawing, *, whole: bool) -> None:
        tables = drawing.tables
        factors = tables.results.factors
        found = tables.steps[tables.steps["operation"].eq(ALL) == whole]
        self.names = varying_factors(found, factors)
        self.rows = wide(found, factors)
        keys = [*factors, "phase", "step", "operation", *PARAMETERS, OTHER, "measure"]
        self._finder = Finder(tables.steps, keys)

    def source(self, row: dict[str, Any], measure: str) -> str:
        found = self._finder.find({**row, "measure": measure})
        return f"steps:{found[0]}" if found else ""


def _asked(row: dict[str, Any]) -> str:
    """What was asked of a step, in words."""
    words = []
    if not missing(row.get("clients")):
        words.append(f"{row['clients']:g} clients")
    if not missing(row.get("rate")):
        words.append(f"target {number(row['rate'])}/s")
    if not missing(row.get("planned")):
        words.append(f"{row['planned']:,.0f} operations planned")
    return ", ".join(words)


def _highest(found: pd.DataFrame, names: Sequence[str]) -> pd.DataFrame:
    for name in names:
        values = found[name].dropna()
        if len(values):
            found = found[found[name] == values.max()]
    return found


def clients(drawing: Drawing) -> Graph | None:
    """Operations per second over client threads."""
    steps = _Steps(drawing, whole=True)
    found = steps.rows
    if found.empty or _MEASURE not in found:
        return None
    found = found[found[_MEASURE] > 0]
    panels = []
    for phase in drawing.tables.phases_of(found):
        for heading, rows in _alike(phase, found[found["phase"] == phase]):
            here = _highest(rows, ["planned", "rate"])
            if here["clients"].nunique() < 2:
                continue
            data = _lines(drawing, steps, here, "clients", _MEASURE, "operations/s")
            layout = {
                "xaxis": level_axis("client threads", here["clients"].to_list()),
                "yaxis": value_axis("operations per second", here[_MEASURE].to_list()),
            }
            panels.append(Panel(heading, data, layout))
    return Graph(panels[:MOST], lowest=True) if panels else None


def runtime(drawing: Drawing) -> Graph | None:
    """Run time over client threads, a panel per number of operations."""
    steps = _Steps(drawing, whole=True)
    found = steps.rows
    if found.empty or "runtime" not in found:
        return None
    panels = []
    for phase in drawing.tables.phases_of(found):
        for heading, rows in _alike(phase, found[found["phase"] == phase]):
            counts = sorted(rows["planned"].dropna().unique())
            for count in counts if len(counts) > 1 else ():
                here = rows[rows["planned"] == count]
                data = _lines(drawing, steps, here, "clients", "runtime", "s")
                layout = {
                    "xaxis": level_axis("client threads", here["clients"].to_list()),
                    "yaxis": value_axis("run time in s", here["runtime"].to_list()),
                }
                panels.append(Panel(f"{heading}: {count:,.0f} operations", data, layout))
    return Graph(panels[:MOST], lowest=True) if panels else None


def _lines(
    drawing: Drawing, steps: _Steps, here: pd.DataFrame, x: str, measure: str, unit: str
) -> list[dict[str, Any]]:
    data = []
    names = steps.names
    for engine in engines_in(here):
        own = here[here["engine"] == engine]
        for place, (_, group) in enumerate(grouped(own, names) if names else [((), own)]):
            group = group.sort_values([x, measure]).drop_duplicates(x)
            first = records(group)[0]
            name = drawing.line_name(first, names)
            line = Line(name, first)
            for row in records(group):
                # The interval of a step is that of its throughput.
                shown = row if measure == _MEASURE else {**row, "low": None, "high": None}
                told = f"{number(row[measure])} {unit} ({_asked(row)})"
                text = drawing.hover(name, shown, "steps", told)
                line.add(row[x], row[measure], shown, text, steps.source(row, measure))
            data.append(drawing.trace(line, dash=place, rank=place))
    return data


def latency_over_throughput(drawing: Drawing) -> Graph | None:
    """Response time of each operation over the throughput of all: mean, and p99 dashed."""
    each, whole = _Steps(drawing, whole=False), _Steps(drawing, whole=True)
    if each.rows.empty or "response_mean" not in each.rows or whole.rows.empty:
        return None
    keys = [*drawing.tables.results.factors, "phase", "step", *PARAMETERS, OTHER]
    reached = whole.rows[[*keys, _MEASURE]].rename(columns={_MEASURE: "reached"})
    found = each.rows.merge(reached, on=keys, how="inner")
    found = found[found["response_mean"].notna() & (found["reached"] > 0)]
    panels = []
    for phase in drawing.tables.phases_of(found):
        for heading, rows in _alike(phase, found[found["phase"] == phase]):
            for operation in sorted(set(rows["operation"])):
                here = _highest(rows[rows["operation"] == operation], ["planned"])
                if here.groupby("engine")["reached"].nunique().max() > 1:
                    panels.append(_curve(drawing, each, f"{heading}: {operation}", here, phase))
    return Graph(panels[:MOST], lowest=True) if panels else None


def _curve(drawing: Drawing, steps: _Steps, heading: str, here: pd.DataFrame, phase: str) -> Panel:
    data = []
    names = steps.names
    for engine in engines_in(here):
        own = here[here["engine"] == engine]
        for place, (_, group) in enumerate(grouped(own, names) if names else [((), own)]):
            order = "rate" if group["rate"].nunique() > 1 else "clients"
            group = group.sort_values([order, "reached"])
            first = records(group)[0]
            for measure, words, dash in (
                ("response_mean", "mean", 0),
                ("response_p99", "99th percentile", 1),
            ):
                name = f"{drawing.line_name(first, names)}: {words}"
                line = Line(name, first)
                for row in records(group):
                    told = (
                        f"{seconds(row[measure])} at {number(row['reached'])} operations/s "
                        f"({_asked(row)})"
                    )
                    bare = {k: v for k, v in row.items() if k not in ("low", "high")}
                    text = drawing.hover(name, bare, "steps", told)
                    y = None if missing(row[measure]) else row[measure] * 1e3
                    line.add(row["reached"], y, None, text, steps.source(row, measure))
                data.append(drawing.trace(line, dash=dash, rank=place))
    times = pd.concat([here["response_mean"], here["response_p99"]]) * 1e3
    data += [_knee(drawing, row, times) for _, row in knees_of(drawing.tables, phase, here)]
    layout = {
        "xaxis": value_axis("operations per second, all together", here["reached"].to_list()),
        "yaxis": value_axis("response time in ms", times.to_list()),
    }
    return Panel(heading, data, layout)


def _knee(drawing: Drawing, row: Mapping[str, Any], times: pd.Series) -> dict[str, Any]:
    """An upright line at the throughput of a knee."""
    name = f"{title(str(row['engine']))}: knee"
    told = f"knee at {number(row['throughput'])} operations/s, {row['load']} {number(row['knee'])}"
    if not missing(row["knee_low"]):
        told += f" (95 % interval {number(row['knee_low'])} to {number(row['knee_high'])})"
    text = f"<b>{html.escape(name)}</b><br>{html.escape(told)}<br>{html.escape(str(row['flags']))}"
    line = Line(name, row)
    for y in (float(times.min()), float(times.max())):
        line.add(row["throughput"], y, None, text, f"knees:{row['_row']}")
    return drawing.trace(line, mode="lines", dash=3)
