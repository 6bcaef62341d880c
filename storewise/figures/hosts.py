"""Figures of host CPU over time, and of latency and CPU by node."""

from __future__ import annotations

import numpy as np
import pandas as pd
from pandas.api.types import is_numeric_dtype

from storewise.analysis.common.engines import title, varying_factors
from storewise.analysis.common.text import number
from storewise.analysis.model.tables import Tables
from storewise.figures.chart import Axis, Chart, Panel, Point, Series
from storewise.figures.selection import by_engine, by_phase, choose
from storewise.figures.style import GREY, INK

#: Most phases of a figure, and means over time of a panel.
_PHASES, _STEPS = 3, 60
#: Kinds of use from below, with the colour of each.
KINDS = (("user", "#4C72B0"), ("system", "#A9BDE0"), ("iowait", "#C44E52"))
_STEAL = ("steal", GREY)
#: Seconds from which on a line over time is one.
LEAST_SECONDS = 5
#: Most nodes of a panel: the slowest of a larger cluster.
_NODES = 16
#: Columns of times, with what they are called and look like.
_TIMES = (
    ("service_p50", "median", "", ""),
    ("service_mean", "mean", INK, "."),
    ("service_p95", "95th percentile", INK, "|"),
)


def host_cpu(tables: Tables) -> Chart | None:
    """Host CPU over time by kind of use, a panel per engine and phase of LEAST_SECONDS or more: the
    first repeat at the highest setting, which reaches limits first.

    Nodes on separate hosts have panels beside those of their clients.
    """
    factors = tables.results.factors
    trials = tables.trials.rename(columns={"host": "clients"})
    names = [n for n in varying_factors(trials, factors) if is_numeric_dtype(trials[n])]
    trials = trials.sort_values([*names, "repeat"], ascending=[False] * len(names) + [True])
    trials = trials.reset_index(drop=True).reset_index(names="place")
    cpu = tables.cpu.merge(trials[["trial", "place", "engine", "clients"]], on="trial")
    phases = cpu.groupby(["engine", "phase"], observed=True)
    cpu = cpu[cpu["place"] == phases["place"].transform("min")]
    phases = cpu.groupby(["engine", "phase"], observed=True)
    cpu = cpu[phases["second"].transform("nunique") >= LEAST_SECONDS]
    panels = []
    for engine, rows in by_engine(cpu):
        pairs = zip(rows["host"], rows["clients"], strict=True)
        ours = np.array([host in clients.split(", ") for host, clients in pairs])
        of_clients = f"{title(engine)}{'' if ours.all() else ' clients'}"
        for name, here in ((of_clients, rows[ours]), (f"{title(engine)} nodes", rows[~ours])):
            for phase, in_phase in list(by_phase(tables, here))[:_PHASES]:
                panels.append(_over_time(f"{name}, {phase}", in_phase))
    return Chart(panels)


def _over_time(heading: str, rows: pd.DataFrame) -> Panel:
    kinds = [*KINDS, *([_STEAL] if (rows["steal"] > 0.5).any() else [])]
    # More steps than pixels would only make the picture large.
    span = 1 + int(rows["second"].max()) // _STEPS
    spans = rows["second"] // span * span
    means = rows.groupby(spans)[[kind for kind, _ in kinds]].mean()
    stack = [
        Series(kind, list(map(Point, means.index, means[kind])), "area", colour=colour)
        for kind, colour in kinds
    ]
    end = float(means.index.max()) + span
    x = Axis("seconds since the start of the phase", "linear", top=end)
    return Panel(heading, x, Axis("host CPU in %", "linear", top=100), stack)


def latency_by_node(tables: Tables) -> Chart | None:
    """Service time by owning node, a panel per operation, and CPU of the nodes' hosts.

    For each engine and phase: the last step of each number of slowed nodes, in the largest cluster,
    at the lowest level of all other factors.
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
    """Panels of one step: median, mean and 95th percentile by node, a panel per operation, as
    medians over repeats; then the CPU of the nodes' hosts."""
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
