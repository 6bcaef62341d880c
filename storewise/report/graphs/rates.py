"""Interactive figures of rates: throughput, operations over time, scaling, nodes."""

from __future__ import annotations

import html
import math
from typing import Any

import pandas as pd

from storewise.analysis.common.engines import title, varying_factors
from storewise.analysis.common.frames import grouped, missing, records
from storewise.analysis.common.text import number, setting
from storewise.figures.rates import rates_shown
from storewise.figures.scaling import AXIS
from storewise.figures.selection import engines_in, phase_title
from storewise.figures.usl_curves import law_of, relative_law
from storewise.report.data.rows import Finder
from storewise.report.graphs.base import Drawing, Graph, Line, Panel, level_axis, value_axis

#: Most panels of an interactive figure; choosing phases does not bring back those beyond it.
MOST = 24
#: Lines of fewer points have markers.
_FEW = 20
_KEYS = ("phase", "step", "measure")


def throughput(drawing: Drawing) -> Graph | None:
    """A row per engine and setting with its mean and interval, a panel per phase."""
    tables = drawing.tables
    found = rates_shown(tables)
    if found.empty:
        return None
    factors = tables.results.factors
    names = varying_factors(found, factors)
    finder = Finder(tables.summary, [*factors, *_KEYS])
    panels = []
    for phase in tables.phases_of(found)[:MOST]:
        here = found[found["phase"] == phase]
        data = []
        what = str(here["measure"].iloc[0]).removesuffix("_per_s")
        for engine in engines_in(here):
            for row in records(here[here["engine"] == engine]):
                name = ", ".join(filter(None, (drawing.line_name(row, names), row.get("with", ""))))
                line = Line(name, row)
                told = f"{number(row['mean'])} {what}/s"
                source = _source("summary", finder.find(row))
                text = drawing.hover(name, row, "summary", told)
                line.add(row["mean"], name, row, text, source)
                data.append(drawing.trace(line, mode="markers", sideways=True))
        axis = value_axis(f"{what} per second", here["mean"].to_list())
        layout = {"xaxis": axis, "yaxis": {"type": "category", "autorange": "reversed"}}
        panels.append(Panel(phase_title(phase), data, layout, rows=len(data)))
    return Graph(panels)


def _source(csv: str, rows: tuple[int, ...]) -> str:
    return f"{csv}:{rows[0]}" if rows else ""


def over_time(drawing: Drawing) -> Graph | None:
    """Operations per second, mean over repeats, a panel per phase."""
    tables = drawing.tables
    factors = tables.results.factors
    series = tables.series.merge(tables.trials[["trial", *factors]], on="trial")
    # Too short a last second would give a wild rate.
    series = series[(series["length"] >= 0.2) | (series["second"] == 0)]
    if series.empty:
        return None
    names = varying_factors(series, factors)
    panels = []
    for phase in tables.phases_of(series)[:MOST]:
        here = series[series["phase"] == phase]
        several = here["step"].nunique() > 1
        data = []
        warm_until = 0
        for engine in engines_in(here):
            own = here[here["engine"] == engine]
            for place, (_, group) in enumerate(grouped(own, [*names, "step"])):
                first = records(group)[0]
                name = drawing.line_name(first, names)
                name += f", step {first['step']:g}" if several else ""
                by_second = group.groupby("second")
                mean = by_second["operations_per_s"].mean()
                warm = by_second["warmup"].max().astype(bool)
                if warm.any():
                    warm_until = max(warm_until, int(mean[warm].index.max()) + 1)
                line = Line(name, first)
                line.x = [float(s) + 0.5 for s in mean.index]
                line.y = [float(v) for v in mean]
                count = group["trial"].nunique()
                data.append(
                    drawing.trace(
                        line,
                        # A line of one second would not be seen.
                        mode="lines+markers" if len(line.x) < _FEW else "lines",
                        dash=place,
                        rank=place,
                        hoverinfo="all",
                        hovertemplate="%{y:,.3~s} operations/s in second %{x:.0f}"
                        f"<br>mean of n = {count}<extra>%{{fullData.name}}</extra>",
                    )
                )
                del data[-1]["text"], data[-1]["customdata"]
        axis = value_axis("operations per second", [v for d in data for v in d["y"] if v and v > 0])
        seconds: dict[str, Any] = {
            "title": {"text": "seconds since the start of the phase"},
            "rangemode": "tozero",
        }
        seconds["range"] = [0, max((x for d in data for x in d["x"]), default=0.5) + 0.5]
        layout: dict[str, Any] = {"xaxis": seconds, "yaxis": axis}
        if warm_until:
            layout["shapes"] = [_band(0, warm_until)]
        panels.append(Panel(phase_title(phase), data, layout))
    return Graph(panels, lowest=True, time=True)


def _band(start: float, end: float) -> dict[str, Any]:
    """Shaded seconds of warm-up."""
    return {
        "type": "rect",
        "xref": "x",
        "yref": "paper",
        "x0": start,
        "x1": end,
        "y0": 0,
        "y1": 1,
        "fillcolor": "rgba(128,128,128,0.2)",
        "line": {"width": 0},
        "layer": "below",
    }


def scaling(drawing: Drawing) -> Graph | None:
    """Speed-up over the levels of each numeric factor, with the ideal line."""
    tables = drawing.tables
    found = tables.scaling[tables.scaling["quantity"] == "speedup"]
    found = found[found["measure"] == "documents_per_s"]
    if found.empty:
        return None
    names = varying_factors(found, tables.results.factors)
    panels = []
    for factor in dict.fromkeys(found["factor"]):
        rows = found[found["factor"] == factor]
        others = [n for n in names if n != factor]
        for phase in tables.phases_of(rows):
            here = rows[rows["phase"] == phase]
            data = _speedups(drawing, here, str(factor), others)
            base, levels = float(here["base"].min()), sorted(set(here["level"]) | set(here["base"]))
            data.append(_ideal(drawing, levels, base, {"phase": phase}))
            data += _published(drawing, str(factor), str(phase))
            top = 1.5 * max([max(levels) / base, *here["mean"]])
            layout = {
                "xaxis": {**level_axis(AXIS.get(factor, factor), levels), "type": "linear"},
                "yaxis": {
                    "title": {"text": f"speed-up over {setting({factor: base}, [factor])}"},
                    "range": [0, top],
                },
            }
            heading = f"{phase_title(phase)}, over {AXIS.get(factor, factor)}"
            panels.append(Panel(heading, data, layout))
    return Graph(panels[:MOST], lowest=True)


def _speedups(
    drawing: Drawing, here: pd.DataFrame, factor: str, others: list[str]
) -> list[dict[str, Any]]:
    data = []
    for engine in engines_in(here):
        own = here[here["engine"] == engine]
        lines = list(grouped(own, others)) if others else [((), own)]
        for place, (_, group) in enumerate(lines):
            group = group.sort_values("level")
            first = {k: v for k, v in records(group)[0].items() if k != factor}
            name = drawing.line_name(first, others)
            line = Line(name, first)
            for label, row in zip(group.index, records(group), strict=True):
                at = setting({factor: row["level"]}, [factor])
                told = f"{number(row['mean'])} times, at {at}"
                text = drawing.hover(name, row, "scaling", told)
                line.add(row["level"], row["mean"], row, text, f"scaling:{label}")
            data.append(drawing.trace(line, dash=place, rank=place, over=factor))
            data += _law(drawing, group, factor, name, place)
    return data


def _law(
    drawing: Drawing, group: pd.DataFrame, factor: str, name: str, rank: int
) -> list[dict[str, Any]]:
    """The fitted law of a line of speed-ups, relative to the same level."""
    row = records(group)[0]
    fitted = law_of(drawing.tables, row, factor)
    if fitted is None:
        return []
    line = Line(f"law: {name}", {k: v for k, v in row.items() if k != factor})
    levels = [*group["level"], *group["base"]]
    told = (
        f"<b>Universal Scalability Law: {html.escape(name)}</b><br>"
        f"sigma {number(fitted['sigma'])}, kappa {number(fitted['kappa'])}, "
        f"R² {fitted['r2']:.3f}"
    )
    for x, y in zip(*relative_law(fitted, float(row["base"]), levels), strict=True):
        line.add(x, y, None, told)
    trace = drawing.trace(line, mode="lines", dash=1, rank=rank)
    trace["line"]["width"] = 1.2
    return [trace]


def _ideal(
    drawing: Drawing, levels: list[float], base: float, record: dict[str, Any]
) -> dict[str, Any]:
    line = Line("ideal", record)
    for level in levels:
        line.add(level, level / base, None, "ideal: as many times as fast as there are more")
    return drawing.trace(line, mode="lines", colour="#7A7A7A", dash=3)


def _published(drawing: Drawing, factor: str, phase: str) -> list[dict[str, Any]]:
    """Published curves over the same factor, as multiples of their own first value."""
    curves = drawing.tables.reference_curves
    if curves.empty:
        return []
    found = curves[(curves["source"] == "published") & (curves["x_name"] == factor)]
    data = []
    for key, group in grouped(found, ["reference", "title", "system", "setting"]):
        words = ", ".join(str(k) for k in key if not missing(k) and k)
        line = Line(f"published: {words}", {"phase": phase})
        for label, row in zip(group.index, records(group), strict=True):
            if math.isfinite(row["relative"]):
                text = f"<b>{line.name}</b><br>{number(row['relative'])} times its first value"
                source = f"reference_curves:{label}"
                line.add(row["x"], row["relative"], None, text, source)
        trace = drawing.trace(line, colour="#7A7A7A", dash=1)
        trace["marker"]["symbol"] = "circle-open"
        trace["meta"]["ref"] = True
        data.append(trace)
    return data


def nodes(drawing: Drawing) -> Graph | None:
    """Documents per second over data nodes; stores without servers are level lines."""
    tables = drawing.tables
    found = tables.summary[tables.summary["measure"] == "documents_per_s"]
    found = found[found["mean"] > 0]
    if "nodes" not in found or not found["nodes"].nunique() > 1:
        return None
    names = [n for n in varying_factors(found, tables.results.factors) if n != "nodes"]
    levels = sorted(found["nodes"].dropna().unique())
    panels = []
    for phase in tables.phases_of(found[found["nodes"].notna()])[:MOST]:
        here = found[found["phase"] == phase]
        data = []
        keys = [*names, "step"]
        for engine in engines_in(here):
            for place, (_, group) in enumerate(grouped(here[here["engine"] == engine], keys)):
                first = {k: v for k, v in records(group)[0].items() if k != "nodes"}
                name = drawing.line_name(first, names)
                alone = bool(group["nodes"].isna().all())
                line = Line(title(engine) if alone and not names else name, first)
                for label, row in zip(group.index, records(group), strict=True):
                    text = drawing.hover(name, row, "summary", f"{number(row['mean'])} documents/s")
                    for x in (levels[0], levels[-1]) if alone else (row["nodes"],):
                        point = None if alone else row
                        line.add(x, row["mean"], point, text, f"summary:{label}")
                mode = "lines" if alone else "lines+markers"
                over = "" if alone else "nodes"
                dash = 3 if alone else place
                data.append(drawing.trace(line, mode=mode, dash=dash, rank=place, over=over))
        layout = {
            "xaxis": level_axis("data nodes", levels),
            "yaxis": value_axis("documents per second", here["mean"].to_list()),
        }
        panels.append(Panel(phase_title(phase), data, layout))
    return Graph(panels, lowest=True)
