"""What differs between nodes: their latency and load, and what slowed nodes cost."""

from __future__ import annotations

import numpy as np
import pandas as pd

from storewise.analysis.common.engines import title, varying_factors
from storewise.analysis.model.tables import Tables
from storewise.figures.chart import Axis, Chart, Panel, Point, Series, point
from storewise.figures.selection import engines_in, labelled, lowest
from storewise.figures.style import INK, engine_colour

#: Most nodes of a panel; those of a larger cluster that were slowest are shown.
_NODES = 16
#: Most engines and phases of the first figure, ways of slowing of the second.
_MOST = 3
_KINDS = (
    ("cpu_user", "CPU user", "#9E9E9E", ""),
    ("cpu_system", "CPU system", "#CFCFCF", "///"),
    ("cpu_iowait", "CPU iowait", INK, "..."),
)


def _rows(tables: Tables) -> pd.DataFrame:
    """Rows of trials at the lowest level of their other factors, with the engine; repeats are
    pooled by the figures."""
    rows = tables.per_node.merge(
        tables.trials[["trial", "repeat", *tables.results.factors]], on="trial"
    )
    names = [n for n in varying_factors(rows, tables.results.factors) if n != "nodes"]
    rows = lowest(rows, names)
    # The largest cluster shows most of how nodes differ.
    if "nodes" in rows:
        most = rows.groupby("engine")["nodes"].transform("max")
        rows = rows[rows["nodes"].isna() | (rows["nodes"] == most)]
    return rows


def _nodes(rows: pd.DataFrame) -> list[str]:
    """The nodes of a panel by role and number."""
    names = set(map(str, rows["node"]))
    if len(names) > _NODES:
        slow = rows.groupby("node")["service_p95"].max().sort_values(ascending=False)
        names = set(map(str, slow.index[:_NODES]))
    roles = {name: name.rstrip("0123456789") for name in names}
    return sorted(names, key=lambda n: (roles[n], int(n[len(roles[n]) :] or 0)))


def latency_by_node(tables: Tables) -> Chart | None:
    """Service time by owning node and operation above, the node's host's CPU below; a column for
    each engine and phase, at the phase's last step without slowed nodes (else its last)."""
    if tables.per_node.empty:
        return None
    rows = _rows(tables)
    rows = rows[rows["service_p95"].notna()]
    several = rows.groupby(["engine", "phase"])["node"].transform("nunique")
    rows = rows[several > 1]
    if rows.empty:
        return None
    above: list[Panel] = []
    below: list[Panel] = []
    for engine in engines_in(rows):
        for phase in tables.phases_of(rows):
            here = rows[(rows["engine"] == engine) & (rows["phase"] == phase)]
            if here.empty or len(above) == _MOST:
                continue
            plain = here[here["slowed_nodes"] == 0]
            here = plain if len(plain) else here
            here = here[here["step"] == here["step"].max()]
            nodes = _nodes(here)
            above.append(_times(engine, phase, here, nodes))
            below.append(_load(f"{title(engine)}, {phase}: hosts", here, nodes))
    return Chart([*above, *below], 2.6, len(above), still=True)


def _times(engine: str, phase: str, rows: pd.DataFrame, nodes: list[str]) -> Panel:
    """Median (bar), 95th percentile (line above it) and mean (dot) by node and operation."""
    here = sorted(set(rows["operation"]))
    width = 0.8 / len(here)
    series = []
    for place, name in enumerate(here):
        times = rows[rows["operation"] == name].groupby("node")
        times = times[["service_p50", "service_p95", "service_mean"]].median().reindex(nodes) * 1e3
        at = np.arange(len(nodes)) + (place - (len(here) - 1) / 2) * width
        colour = engine_colour(engine, place)
        bars, dots = [], []
        for x, (median, high, mean) in zip(at, times.to_numpy(), strict=True):
            bars.append(Point(x, median, median, high))
            dots.append(Point(x, mean))
        series += [
            Series(f"{title(engine)}: {name}", bars, "bars", colour=colour, width=0.9 * width),
            Series("", dots, "markers", legend="", colour=INK, marker="."),
        ]
    top = 1.05 * rows[["service_p95", "service_mean"]].max().max() * 1e3
    x, y = Axis("", "category", nodes), Axis("service time, ms", "linear", top=top)
    return Panel(f"{title(engine)}, {phase}", x, y, series)


def _load(heading: str, rows: pd.DataFrame, nodes: list[str]) -> Panel:
    means = rows.groupby("node")[[name for name, *_ in _KINDS]].mean().reindex(nodes).fillna(0.0)
    stack = [
        Series(
            label,
            list(map(Point, range(len(nodes)), means[name])),
            "stack",
            colour=colour,
            hatch=hatch,
        )
        for name, label, colour, hatch in _KINDS
    ]
    return Panel(
        heading, Axis("", "category", nodes), Axis("host CPU, %", "linear", top=100), stack
    )


def slowed_nodes(tables: Tables) -> Chart | None:
    """Throughput, 95th percentile of each node, and iowait over the number of slowed nodes; a row
    for each phase (and way of slowing)."""
    slow = tables.slowdown
    if slow.empty:
        return None
    slow = lowest(slow, varying_factors(slow, tables.results.factors))
    each = _rows(tables)
    ways = [
        (phase, way)
        for phase in tables.phases_of(slow)
        for way in sorted(set(slow[(slow["phase"] == phase)]["slow"]) - {""})
    ]
    panels = []
    for phase, way in ways[:_MOST]:
        rates: list[Series] = []
        times: list[Series] = []
        waits: list[Series] = []
        here = slow[(slow["phase"] == phase) & slow["slow"].isin(["", way])]
        for engine in engines_in(here):
            rows = here[here["engine"] == engine].sort_values("slowed_nodes")
            rows = rows.drop_duplicates("slowed_nodes")
            points = [point(r["slowed_nodes"], r["mean"], r, "") for _, r in labelled(rows)]
            rates.append(Series(title(engine), points, record={"engine": engine}))
            nodes = each[
                (each["engine"] == engine)
                & (each["phase"] == phase)
                & each["step"].isin(set(rows["step"]))
            ]
            times += _marks(engine, nodes, "service_p95", 1e3)
            waits += _marks(engine, nodes, "cpu_iowait", 1.0)
        x = Axis("slowed nodes", "linear", sorted(set(here["slowed_nodes"])))
        panels += [
            Panel(f"{phase}: {way}", x, Axis("operations per second", "linear"), rates),
            Panel("95th percentile", x, Axis("p95 of each node, ms", "linear"), times),
            Panel("iowait", x, Axis("iowait of each node, %", "linear", top=100), waits),
        ]
    return Chart(panels, 2.7, most=3 * _MOST, still=True)


def _marks(engine: str, rows: pd.DataFrame, value: str, scale: float) -> list[Series]:
    """A mark for each node: full where it was slowed, hollow where it was not."""
    marks = []
    for name, slowed in (("not slowed", False), ("slowed", True)):
        nodes = rows[(rows["slowed"] != "") == slowed]
        nodes = nodes.groupby(["slowed_nodes", "node"])[value].max().reset_index().dropna()
        points = [
            Point(count, y * scale, hollow=not slowed)
            for count, y in zip(nodes["slowed_nodes"], nodes[value], strict=True)
        ]
        marks.append(Series(name, points, "markers", {"engine": engine}))
    return marks
