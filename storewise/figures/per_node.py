"""What differs between nodes: their latency and load, and what slowed nodes cost."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pandas as pd

from storewise.analysis.common.engines import title
from storewise.analysis.common.text import number
from storewise.analysis.model.tables import Tables
from storewise.figures.chart import Axis, Chart, Panel, Point, Series, level_axis
from storewise.figures.hosts import KINDS
from storewise.figures.selection import by_engine, by_phase, choose, curves
from storewise.figures.style import INK

#: Most nodes of a panel: the slowest of a larger cluster.
_NODES = 16
#: Most ways of slowing.
_MOST = 3
#: Columns of times, with what they are called and look like.
_TIMES = (
    ("service_p50", "median", "", ""),
    ("service_mean", "mean", INK, "."),
    ("service_p95", "95th percentile", INK, "|"),
)


def _rows(tables: Tables) -> pd.DataFrame:
    """Rows of trials at the lowest level of their other factors, with the engine, of the largest
    cluster: it shows most of how nodes differ. Repeats are pooled by the figures."""
    factors = tables.results.factors
    rows = tables.per_node.merge(tables.trials[["trial", *factors]], on="trial")
    rows = rows.dropna(subset="service_p95")
    rows = choose(rows, [f for f in factors if f != "nodes"], 0).rows
    if "nodes" in rows:
        most = rows.groupby("engine")["nodes"].transform("max")
        rows = rows[rows["nodes"].isna() | (rows["nodes"] == most)]
    return rows


def latency_by_node(tables: Tables) -> Chart | None:
    """Service time by owning node, a panel per operation, then the CPU of the nodes' hosts.

    For each engine and phase, at the last of its steps with the fewest slowed nodes.
    """
    if tables.per_node.empty:
        return None
    rows = _rows(tables)
    rows = rows[rows.groupby(["engine", "phase"])["node"].transform("nunique") > 1]
    panels: list[Panel] = []
    for engine, of_engine in by_engine(rows):
        for phase, here in by_phase(tables, of_engine):
            here = here[here["slowed_nodes"] == here["slowed_nodes"].min()]
            here = here[here["step"] == here["step"].max()]
            slowest = here.groupby("node")["service_p95"].max().nlargest(_NODES)
            nodes = [node for node in dict.fromkeys(here["node"]) if node in slowest]
            heading = f"{title(engine)}, {phase}"
            for operation, group in here.groupby("operation"):
                panels.append(_times(f"{heading}: {operation}", group, nodes, engine))
            panels.append(_load(f"{heading}: hosts", here, nodes))
    return Chart(panels)


def _times(heading: str, rows: pd.DataFrame, nodes: list[str], engine: str) -> Panel:
    """Median, mean and 95th percentile of each node."""
    times = 1e3 * rows.groupby("node")[[column for column, *_ in _TIMES]].median().reindex(nodes)
    series = []
    for column, name, colour, marker in _TIMES:
        values = times[column].items()
        points = [Point(time, node, words=f"{number(time)} ms") for node, time in values]
        series.append(Series(name, points, "markers", engine, colour, marker))
    return Panel(heading, Axis("service time in ms"), Axis(), series, nodes)


def _load(heading: str, rows: pd.DataFrame, nodes: list[str]) -> Panel:
    """What the processors of the nodes' hosts did."""
    means = rows.groupby("node")[[f"cpu_{kind}" for kind, _ in KINDS]].mean().reindex(nodes)
    series = []
    for kind, colour in KINDS:
        shares = means[f"cpu_{kind}"].fillna(0.0).items()
        points = [Point(share, node, words=f"{number(share)} %") for node, share in shares]
        series.append(Series(kind, points, "bars", colour=colour))
    return Panel(heading, Axis("host CPU in %", "linear", top=100), Axis(), series, nodes)


def slowed_nodes(tables: Tables) -> Chart | None:
    """Throughput, and the 95th percentile of each node (full where it was slowed), over the number
    of slowed nodes; two panels for each phase (and way of slowing)."""
    if tables.slowdown.empty:
        return None
    slow = choose(tables.slowdown, tables.results.factors, 0).rows
    each = _rows(tables)
    each = each.assign(hollow=each["slowed"] == "")
    by_node = ["engine", "phase", "step", "slowed_nodes", "node", "hollow"]
    each = each.groupby(by_node, observed=True)["service_p95"].max().reset_index()
    ways = slow.loc[slow["slow"] != "", ["phase", "slow"]].drop_duplicates()
    panels = []
    for phase, way in ways.to_numpy()[:_MOST]:
        here = slow[(slow["phase"] == phase) & slow["slow"].isin(["", way])]
        here = here.sort_values("slowed_nodes").drop_duplicates(["engine", "slowed_nodes"])
        nodes = each.merge(here[["engine", "phase", "step"]])
        rates = curves(here, (), "slowed_nodes", "mean", _rate, "slowdown")
        times = curves(nodes, (), "slowed_nodes", "service_p95", _time, scale=1e3)
        x = level_axis("slowed nodes", here["slowed_nodes"], "linear")
        for label, lines in (
            ("operations per second", [line for line, _ in rates]),
            ("p95 of each node in ms", [replace(line, mode="markers") for line, _ in times]),
        ):
            panels.append(Panel(f"{phase}: {way}", x, Axis(label, "linear"), lines))
    return Chart(panels)


def _rate(row: Mapping[str, Any]) -> str:
    return f"{number(row['mean'])}/s"


def _time(row: Mapping[str, Any]) -> str:
    slowed = "" if row["hollow"] else " (slowed)"
    return f"{row['node']}{slowed}: {number(1e3 * row['service_p95'])} ms"
