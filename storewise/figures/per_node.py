"""What differs between nodes: their latency and load, and what slowed nodes cost."""

from __future__ import annotations

import numpy as np
import pandas as pd

from storewise.analysis.common.engines import title
from storewise.analysis.common.frames import records
from storewise.analysis.common.text import number
from storewise.analysis.model.tables import Tables
from storewise.figures.chart import Axis, Chart, Panel, Point, Series, point
from storewise.figures.hosts import KINDS
from storewise.figures.selection import choose, engines_in, labelled
from storewise.figures.style import INK, engine_colour

#: Most nodes of a panel; those of a larger cluster that were slowest are shown.
_NODES = 16
#: Most engines and phases of the first figure, ways of slowing of the second.
_MOST = 3


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
    """Service time by owning node and operation, then the CPU of the nodes' hosts, for each engine
    and phase, at the phase's last step without slowed nodes (else its last)."""
    if tables.per_node.empty:
        return None
    rows = _rows(tables)
    rows = rows[rows["service_p95"].notna()]
    rows = rows[rows.groupby(["engine", "phase"])["node"].transform("nunique") > 1]
    panels: list[Panel] = []
    for engine in engines_in(rows):
        for phase in tables.phases_of(rows[rows["engine"] == engine]):
            here = rows[(rows["engine"] == engine) & (rows["phase"] == phase)]
            plain = here[here["slowed_nodes"] == 0]
            here = plain if len(plain) else here
            here = here[here["step"] == here["step"].max()]
            nodes = _nodes(here)
            record = {"engine": engine, "phase": phase}
            panels += [_times(here, nodes, record), _load(here, nodes, record)]
    return Chart(panels[: 2 * _MOST]) if panels else None


def _times(rows: pd.DataFrame, nodes: list[str], record: dict[str, str]) -> Panel:
    """Median (bar), 95th percentile (line above it) and mean (dot) by node and operation."""
    engine = record["engine"]
    operations = sorted(set(rows["operation"]))
    width = 0.8 / len(operations)
    series = []
    for place, name in enumerate(operations):
        times = rows[rows["operation"] == name].groupby("node")
        times = times[["service_p50", "service_p95", "service_mean"]].median().reindex(nodes) * 1e3
        at = np.arange(len(nodes)) + (place - (len(operations) - 1) / 2) * width
        bars, dots = [], []
        for x, node, (median, high, mean) in zip(at, nodes, times.to_numpy(), strict=True):
            words = f"{node}: median {number(median)} ms, p95 {number(high)}, mean {number(mean)}"
            bars.append(Point(x, median, median, high, words=words))
            dots.append(Point(x, mean, words=words))
        colour = engine_colour(engine, place)
        what = f"{title(engine)}: {name}"
        series += [
            Series(what, bars, "bars", record, colour=colour, width=0.9 * width),
            Series("mean", dots, "markers", record, colour=INK, marker="."),
        ]
    heading = f"{title(engine)}, {record['phase']}"
    return Panel(heading, Axis("", "category", nodes), Axis("service time in ms", "linear"), series)


def _load(rows: pd.DataFrame, nodes: list[str], record: dict[str, str]) -> Panel:
    names = [f"cpu_{kind}" for kind, *_ in KINDS]
    means = rows.groupby("node")[names].mean().reindex(nodes).fillna(0.0)
    stack = []
    for kind, colour in KINDS:
        points = [
            Point(x, value, words=f"{node}: {number(value)} %")
            for x, (node, value) in enumerate(means[f"cpu_{kind}"].items())
        ]
        stack.append(Series(kind, points, "stack", record, colour=colour))
    heading = f"{title(record['engine'])}, {record['phase']}: hosts"
    y = Axis("host CPU in %", "linear", top=100)
    return Panel(heading, Axis("", "category", nodes), y, stack)


def slowed_nodes(tables: Tables) -> Chart | None:
    """Throughput, 95th percentile of each node, and iowait over the number of slowed nodes; three
    panels for each phase (and way of slowing)."""
    if tables.slowdown.empty:
        return None
    slow = choose(tables.slowdown, tables.results.factors, 0).rows
    each = _rows(tables)
    ways = slow[slow["slow"] != ""][["phase", "slow"]].drop_duplicates().to_numpy()
    panels = []
    for phase, way in ways[:_MOST]:
        rates: list[Series] = []
        times: list[Series] = []
        waits: list[Series] = []
        here = slow[(slow["phase"] == phase) & slow["slow"].isin(["", way])]
        for engine in engines_in(here):
            record = {"engine": engine, "phase": phase}
            rows = here[here["engine"] == engine].sort_values("slowed_nodes")
            rows = rows.drop_duplicates("slowed_nodes")
            points = [
                point(r["slowed_nodes"], r["mean"], r, f"{number(r['mean'])}/s", f"slowdown:{at}")
                for at, r in labelled(rows)
            ]
            rates.append(Series(title(engine), points, record=record))
            nodes = each[(each["engine"] == engine) & (each["phase"] == phase)]
            nodes = nodes[nodes["step"].isin(set(rows["step"]))]
            times.append(_marks(nodes, "service_p95", 1e3, "ms", record))
            waits.append(_marks(nodes, "cpu_iowait", 1.0, "%", record))
        x = Axis("slowed nodes", "linear", sorted(set(here["slowed_nodes"])))
        panels += [
            Panel(f"{phase}: {way}", x, Axis("operations per second", "linear"), rates),
            Panel(f"{phase}: {way}", x, Axis("p95 of each node in ms", "linear"), times),
            Panel(f"{phase}: {way}", x, Axis("iowait of each node in %", "linear"), waits),
        ]
    return Chart(panels) if panels else None


def _marks(
    rows: pd.DataFrame, value: str, scale: float, unit: str, record: dict[str, str]
) -> Series:
    """A mark for each node: full where it was slowed, hollow where it was not."""
    rows = rows.assign(slowed=rows["slowed"] != "")
    highest = rows.groupby(["slowed_nodes", "node", "slowed"])[value].max().dropna().reset_index()
    points = [
        Point(
            row["slowed_nodes"],
            row[value] * scale,
            words=f"{row['node']}{' (slowed)' if row['slowed'] else ''}: "
            f"{number(row[value] * scale)} {unit}",
            hollow=not row["slowed"],
        )
        for row in records(highest)
    ]
    return Series(title(record["engine"]), points, "markers", record)
