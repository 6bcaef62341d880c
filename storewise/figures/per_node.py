"""What differs between nodes: their latency and load, and what slowed nodes cost."""

from __future__ import annotations

import pandas as pd

from storewise.analysis.common.engines import title
from storewise.analysis.common.frames import records
from storewise.analysis.common.text import number
from storewise.analysis.model.tables import Tables
from storewise.figures.chart import Axis, Chart, Panel, Point, Series, level_axis, rows_axis
from storewise.figures.hosts import KINDS
from storewise.figures.selection import by_engine, by_phase, choose, points_of
from storewise.figures.style import INK

#: Most nodes of a panel; those of a larger cluster that were slowest are shown.
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
    """Rows of trials at the lowest level of their other factors, with the engine; repeats are
    pooled by the figures."""
    factors = tables.results.factors
    rows = tables.per_node.merge(tables.trials[["trial", "repeat", *factors]], on="trial")
    rows = choose(rows, [f for f in factors if f != "nodes"], 0).rows
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
    """Service time by owning node, a panel per operation, then the CPU of the nodes' hosts.

    For each engine and phase, at the phase's last step without slowed nodes (else its last).
    """
    if tables.per_node.empty:
        return None
    rows = _rows(tables)
    rows = rows[rows["service_p95"].notna()]
    rows = rows[rows.groupby(["engine", "phase"])["node"].transform("nunique") > 1]
    panels: list[Panel] = []
    for engine, of_engine in by_engine(rows):
        for phase, here in by_phase(tables, of_engine):
            plain = here[here["slowed_nodes"] == 0]
            here = plain if len(plain) else here
            here = here[here["step"] == here["step"].max()]
            nodes, heading = _nodes(here), f"{title(engine)}, {phase}"
            for operation, group in here.groupby("operation"):
                panels.append(_times(f"{heading}: {operation}", group, nodes, engine))
            panels.append(_load(f"{heading}: hosts", here, nodes))
    return Chart(panels)


def _times(heading: str, rows: pd.DataFrame, nodes: list[str], engine: str) -> Panel:
    """Median, mean and 95th percentile of each node."""
    times = rows.groupby("node")[[column for column, *_ in _TIMES]].median().reindex(nodes) * 1e3
    series = []
    for column, name, colour, marker in _TIMES:
        points = [
            Point(time, node, words=f"{number(time)} ms")
            for node, time in zip(nodes, times[column], strict=True)
        ]
        series.append(Series(name, points, "markers", engine, colour, marker))
    return Panel(heading, Axis("service time in ms"), rows_axis(nodes), series)


def _load(heading: str, rows: pd.DataFrame, nodes: list[str]) -> Panel:
    """What the processors of the nodes' hosts did."""
    means = rows.groupby("node")[[f"cpu_{kind}" for kind, _ in KINDS]].mean().reindex(nodes)
    stack = []
    for kind, colour in KINDS:
        points = [
            Point(share, node, words=f"{number(share)} %")
            for node, share in zip(nodes, means[f"cpu_{kind}"].fillna(0.0), strict=True)
        ]
        stack.append(Series(kind, points, "stack", colour=colour))
    return Panel(heading, Axis("host CPU in %", "linear", top=100), rows_axis(nodes), stack)


def slowed_nodes(tables: Tables) -> Chart | None:
    """Throughput, and the 95th percentile of each node, over the number of slowed nodes; two panels
    for each phase (and way of slowing)."""
    if tables.slowdown.empty:
        return None
    slow = choose(tables.slowdown, tables.results.factors, 0).rows
    each = _rows(tables)
    ways = slow[slow["slow"] != ""][["phase", "slow"]].drop_duplicates().to_numpy()
    panels = []
    for phase, way in ways[:_MOST]:
        rates, times = [], []
        here = slow[(slow["phase"] == phase) & slow["slow"].isin(["", way])]
        for engine, of_engine in by_engine(here):
            rows = of_engine.sort_values("slowed_nodes").drop_duplicates("slowed_nodes")
            points = points_of(
                rows, "slowed_nodes", "mean", "slowdown", lambda row: f"{number(row['mean'])}/s"
            )
            rates.append(Series(title(engine), points, engine=engine))
            nodes = each[(each["engine"] == engine) & (each["phase"] == phase)]
            nodes = nodes[nodes["step"].isin(set(rows["step"]))]
            times.append(Series(title(engine), _slowest(nodes), "markers", engine))
        x = level_axis("slowed nodes", here["slowed_nodes"], "linear")
        panels += [
            Panel(f"{phase}: {way}", x, Axis("operations per second", "linear"), rates),
            Panel(f"{phase}: {way}", x, Axis("p95 of each node in ms", "linear"), times),
        ]
    return Chart(panels)


def _slowest(rows: pd.DataFrame) -> list[Point]:
    """The 95th percentile of each node: full where it was slowed, hollow where it was not."""
    times = rows.assign(slowed=rows["slowed"] != "").dropna(subset=["service_p95"])
    times = times.groupby(["slowed_nodes", "node", "slowed"])["service_p95"].max().reset_index()
    points = []
    for row in records(times):
        time = 1e3 * row["service_p95"]
        words = f"{row['node']}{' (slowed)' if row['slowed'] else ''}: {number(time)} ms"
        points.append(Point(row["slowed_nodes"], time, words=words, hollow=not row["slowed"]))
    return points
