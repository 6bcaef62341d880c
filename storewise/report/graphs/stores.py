"""Interactive figures of what stores take and of single questions: storage, plans, published."""

from __future__ import annotations

import math
from typing import Any

import pandas as pd

from storewise.analysis.common.engines import CEILING, title, varying_factors
from storewise.analysis.common.frames import grouped, missing, records
from storewise.analysis.common.text import level, number, seconds
from storewise.figures.costs import cost_panels
from storewise.figures.reference_overlay import AXIS, one_setting
from storewise.figures.selection import engines_in
from storewise.report.graphs.base import Drawing, Graph, Line, Panel, interval, value_axis
from storewise.report.graphs.rates import MOST


def storage(drawing: Drawing) -> Graph | None:
    """Bytes on disk per document, beside what the inputs take as they lie on disk."""
    tables = drawing.tables
    found = tables.storage_summary
    found = found[(found["measure"] == "bytes_per_document") & (found["mean"] > 0)]
    found = found[found["engine"] != CEILING]
    if found.empty:
        return None
    names = varying_factors(found, tables.results.factors)
    data = []
    for label, row in zip(found.index, records(found), strict=True):
        name = drawing.line_name(row, names)
        told = f"{number(row['mean'])} bytes per document"
        text = drawing.hover(name, row, "storage_summary", told)
        data.append(bar(drawing, name, row, "mean", text, f"storage_summary:{label}"))
    inputs = tables.results.inputs
    if inputs is not None and inputs.documents:
        share = inputs.bytes / inputs.documents
        line = Line("inputs as they lie on disk", {})
        for name in dict.fromkeys(d["name"] for d in data):
            line.add(
                share, name, None, f"inputs as they lie on disk: {number(share)} bytes/document"
            )
        data.append(drawing.trace(line, mode="lines", colour="#7A7A7A", dash=1))
    layout = {
        "xaxis": {"title": {"text": "bytes on disk per document"}, "rangemode": "tozero"},
        "yaxis": {"type": "category", "autorange": "reversed"},
    }
    return Graph([Panel("Storage after the load", data, layout, rows=len(found))])


def bar(
    drawing: Drawing, name: str, row: dict[str, Any], value: str, text: str, source: str
) -> dict[str, Any]:
    """A sideways bar of one row, with its interval."""
    line = Line(name, row)
    line.add(row[value], name, row if interval(row)[0] is not None else None, text, source)
    found = drawing.trace(line, sideways=True)
    for key in ("mode", "line"):
        del found[key]
    errors = found.pop("error_x", None)
    found |= {"type": "bar", "orientation": "h", "marker": {"color": found["marker"]["color"]}}
    found["textposition"] = "none"
    if errors and (errors["array"][0] or errors["arrayminus"][0]):
        # In the bar's own colour it could not be seen: the page gives it that of its text.
        found["error_x"] = {**errors, "color": "#000000"}
    return found


def costs(drawing: Drawing) -> Graph | None:
    """A bar per engine and setting with its interval, a panel per phase."""
    panels = []
    found = list(cost_panels(drawing.tables))
    names = (
        varying_factors(pd.concat([r for *_, r in found]), drawing.tables.results.factors)
        if (found)
        else []
    )
    for heading, label, rows in found:
        data = []
        for engine in engines_in(rows):
            own = rows[rows["engine"] == engine]
            for place, row in zip(own.index, records(own), strict=True):
                name = drawing.line_name(row, names)
                text = drawing.hover(name, row, "costs", f"{number(row['mean'])} {label}")
                data.append(bar(drawing, name, row, "mean", text, f"costs:{place}"))
        layout = {
            "xaxis": {"title": {"text": label}, "rangemode": "tozero"},
            "yaxis": {"type": "category", "autorange": "reversed"},
        }
        panels.append(Panel(heading, data, layout, rows=len(data)))
    return Graph(panels[:MOST]) if panels else None


def capacity(drawing: Drawing) -> Graph | None:
    """Hours that the full corpus would take over nodes or workers, measured and modelled."""
    curve = drawing.tables.judged.get("capacity_curve")
    if curve is None or curve.empty:
        return None
    panels = []
    for kind in dict.fromkeys(map(str, curve["over"])):
        here = curve[curve["over"] == kind]
        names = varying_factors(here, drawing.tables.results.factors)
        data = []
        for engine in engines_in(here):
            own = here[here["engine"] == engine]
            for place, (_, group) in enumerate(grouped(own, names) if names else [((), own)]):
                data += _corpus(drawing, group.sort_values("count"), names, place)
        counts = here["count"].to_list()
        layout = {
            "xaxis": {**value_axis(kind, counts), "title": {"text": kind}, "type": "log"},
            "yaxis": {**value_axis("hours for the full corpus", here["hours"].to_list())},
        }
        panels.append(Panel(f"over {kind}", data, layout))
    return Graph(panels[:MOST], lowest=True)


def _corpus(
    drawing: Drawing, group: pd.DataFrame, names: list[str], rank: int
) -> list[dict[str, Any]]:
    first = records(group)[0]
    name = drawing.line_name(first, names)
    lines = {"measured": Line(name, first), "model": Line(f"{name}: model", first)}
    for label, row in zip(group.index, records(group), strict=True):
        # The bounds are of hours here, not of the rate that the table has as `low` and `high`.
        bounds = {"low": row["hours_low"], "high": row["hours_high"]}
        told = f"{number(row['hours'])} hours with {number(row['count'])}, {row['how']}"
        told += ", beyond what was measured" if row["extrapolated"] else ""
        kept = {**row, **bounds}
        text = drawing.hover(name, kept, "", told)
        source = f"capacity_curve:{label}"
        if row["how"] == "measured":
            lines["measured"].add(row["count"], row["hours"], kept, text, source)
        lines["model"].add(row["count"], row["hours"], None, text, source)
    return [
        drawing.trace(lines["measured"], mode="markers", rank=rank),
        drawing.trace(lines["model"], mode="lines", dash=1, rank=rank),
    ]


def plans(drawing: Drawing) -> Graph | None:
    """Seconds of an execution over selectivity, a panel per query; hollow markers where the plan
    did not use the secondary index."""
    tables = drawing.tables
    found = tables.plan_summary
    found = found[(found["engine"] != CEILING) & (found["mean"] > 0)] if len(found) else found
    if found.empty or found["selectivity_pct"].nunique() < 2:
        return None
    names = varying_factors(found, tables.results.factors)
    panels = []
    for query in sorted(set(found["query"])):
        here = found[found["query"] == query]
        data = []
        for engine in engines_in(here):
            own = here[here["engine"] == engine]
            for place, (_, group) in enumerate(grouped(own, names) if names else [((), own)]):
                group = group.sort_values("selectivity_pct")
                first = records(group)[0]
                name = drawing.line_name(first, names)
                line = Line(name, first)
                hollow = []
                for label, row in zip(group.index, records(group), strict=True):
                    unused = not missing(row["uses_index"]) and not row["uses_index"]
                    hollow.append(unused)
                    told = f"{seconds(row['mean'])} at {row['selectivity_pct']:g} %"
                    # Least and greatest of the executions are no interval of their mean.
                    bare = {k: v for k, v in row.items() if k not in ("low", "high")}
                    text = drawing.hover(name, bare, "plan_summary", told)
                    text += "<br>did not use the index" if unused else ""
                    source = f"plan_summary:{label}"
                    line.add(row["selectivity_pct"], row["mean"], None, text, source)
                trace = drawing.trace(line, dash=place, rank=place)
                symbol = trace["marker"]["symbol"]
                trace["marker"]["symbol"] = [f"{symbol}-open" if h else symbol for h in hollow]
                data.append(trace)
        layout = {
            "xaxis": {"title": {"text": "selectivity (% of the readings)"}, "type": "log"},
            "yaxis": value_axis("seconds", here["mean"].to_list()),
        }
        panels.append(Panel(query, data, layout))
    return Graph(panels[:MOST])


def published(drawing: Drawing) -> Graph | None:
    """Published curves over measured ones, each as a multiple of its own first value."""
    curves = drawing.tables.reference_curves
    if curves.empty:
        return None
    panels = [
        _shapes(drawing, one_setting(group))
        for _, group in grouped(curves, ["reference", "series"])
    ]
    return Graph(panels[:MOST])


def _shapes(drawing: Drawing, panel: pd.DataFrame) -> Panel:
    engines = {
        str(r["system"]): str(r["engine"]) for r in records(panel[panel["source"] == "measured"])
    }
    fixed = str(panel["fixed"].iloc[0])
    data = []
    for (source, system, engine, words), own in grouped(
        panel, ["source", "system", "engine", "setting"]
    ):
        here = source == "measured"
        more = str(words or "").removeprefix(fixed).strip(", ")
        name = f"here: {title(str(engine))}" if here else f"published: {system}"
        name += f" ({more})" if here and more else ""
        line = Line(name, {"engine": engine} if here else {})
        own = own.sort_values("x")
        for label, row in zip(own.index, records(own), strict=True):
            if math.isfinite(row["relative"]):
                told = f"{number(row['relative'])} times the value at {level(row['base'])}"
                value = f"{number(row['value'])} {row['unit']}"
                text = drawing.hover(name, {}, "reference_curves", f"{told} ({value})")
                point = f"reference_curves:{label}"
                line.add(row["x"], row["relative"], None, text, point)
        like = str(engine) if here else engines.get(str(system), "")
        colour = drawing.style.colour(like) if like else "#7A7A7A"
        trace = drawing.trace(line, colour=colour, dash=0 if here else 1)
        if not here:
            trace["marker"]["symbol"] = "circle-open"
            trace["meta"]["ref"] = True
        data.append(trace)
    first = panel.iloc[0]
    heading = f"{first['title']} ({fixed})" if fixed else str(first["title"])
    x = value_axis(AXIS.get(str(first["x_name"]), str(first["x_name"])), panel["x"].to_list())
    bases = {level(float(base)) for base in panel["base"]}
    words = f"value over that at {bases.pop()}" if len(bases) == 1 else "value over its first"
    layout = {"xaxis": x, "yaxis": value_axis(words, panel["relative"].to_list())}
    return Panel(heading, data, layout)
