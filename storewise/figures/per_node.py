"""What differs between nodes: their latency and the load of their hosts."""

from __future__ import annotations

import pandas as pd

from storewise.analysis.common.engines import title
from storewise.analysis.common.text import number
from storewise.analysis.model.tables import Tables
from storewise.figures.chart import Axis, Chart, Panel, Point, Series
from storewise.figures.hosts import KINDS
from storewise.figures.selection import by_engine, by_phase, choose
from storewise.figures.style import INK

#: Most nodes of a panel: the slowest of a larger cluster.
_NODES = 16
#: Columns of times, with what they are called and look like.
_TIMES = (
    ("service_p50", "median", "", ""),
    ("service_mean", "mean", INK, "."),
    ("service_p95", "95th percentile", INK, "|"),
)


def latency_by_node(tables: Tables) -> Chart | None:
    """Service time by owning node, a panel per operation, then the CPU of the nodes' hosts.

    For each engine and phase, at the last step of each number of slowed nodes; at the lowest level
    of the trials' other factors, of the largest cluster: it shows most of how nodes differ.
    """
    if tables.per_node.empty:
        return None
    factors = tables.results.factors
    rows = tables.per_node.merge(tables.trials[["trial", *factors]], on="trial")
    rows = rows.dropna(subset="service_p95")
    rows = choose(rows, [f for f in factors if f != "nodes"], 0).rows
    most = rows.groupby("engine")["nodes"].transform("max")
    rows = rows[rows["nodes"].isna() | (rows["nodes"] == most)]
    rows = rows[rows.groupby(["engine", "phase"])["node"].transform("nunique") > 1]
    panels: list[Panel] = []
    for engine, of_engine in by_engine(rows):
        for phase, of_phase in by_phase(tables, of_engine):
            for slowed in sorted(set(of_phase["slowed_nodes"])):
                here = of_phase[of_phase["slowed_nodes"] == slowed]
                here = here[here["step"] == here["step"].max()]
                heading = f"{title(engine)}, {phase}" + (f", {slowed} slowed" if slowed else "")
                panels += _panels(heading, here, engine)
    return Chart(panels)


def _panels(heading: str, rows: pd.DataFrame, engine: str) -> list[Panel]:
    """Of one step: median, mean and 95th percentile of each node, a panel per operation, over
    repeats, and what the processors of the nodes' hosts did."""
    slowest = rows.groupby("node")["service_p95"].max().nlargest(_NODES)
    nodes = [node for node in dict.fromkeys(rows["node"]) if node in slowest]
    slowed = set(rows.loc[rows["slowed"] != "", "node"])
    names = [f"{node} (slowed)" if node in slowed else node for node in nodes]

    def points(values: pd.Series, unit: str) -> list[Point]:
        pairs = zip(values.reindex(nodes), names, strict=True)
        return [Point(value, name, words=f"{number(value)} {unit}") for value, name in pairs]

    panels = []
    for operation, group in rows.groupby("operation"):
        times = 1e3 * group.groupby("node")[[column for column, *_ in _TIMES]].median()
        dots = [
            Series(name, points(times[column], "ms"), "markers", engine, colour, marker)
            for column, name, colour, marker in _TIMES
        ]
        axis = Axis("service time in ms")
        panels.append(Panel(f"{heading}: {operation}", axis, Axis(), dots, names))
    means = rows.groupby("node")[[f"cpu_{kind}" for kind, _ in KINDS]].mean().fillna(0.0)
    bars = [
        Series(kind, points(means[f"cpu_{kind}"], "%"), "bars", colour=colour)
        for kind, colour in KINDS
    ]
    axis = Axis("host CPU in %", "linear", top=100)
    return [*panels, Panel(f"{heading}: hosts", axis, Axis(), bars, names)]
