"""What the processors of hosts, servers and clients did."""

from __future__ import annotations

import pandas as pd

from storewise.analysis.common.engines import title, varying_factors
from storewise.analysis.files.parts import SESSION
from storewise.analysis.model.tables import Tables
from storewise.figures.chart import Axis, Chart, Panel, Point, Series, rows_axis
from storewise.figures.rates import LEAST_SECONDS
from storewise.figures.selection import engines_in
from storewise.figures.style import GREY, INK

#: Most phases of a figure, and means over time of a panel.
_PHASES, _STEPS = 3, 60
#: Most nodes that all have a row, and rows of an engine where there are more.
_ROWS, _BUSIEST = 20, 3
#: Kinds of use from below, with the colour of each.
KINDS = (("user", "#4C72B0"), ("system", "#A9BDE0"), ("iowait", "#C44E52"))
_STEAL = ("steal", GREY)
_CLIENT = "busiest client"


def _highest(table: pd.DataFrame, tables: Tables) -> pd.DataFrame:
    """The trial of each engine and phase in `table` that is shown: trial, engine, phase.

    It is the first repeat at the highest setting: that is where a limit would be met.
    """
    factors = tables.results.factors
    rows = table.merge(tables.trials[["trial", "repeat", *factors]], on="trial")
    names = varying_factors(rows, factors)
    numeric = [n for n in names if pd.api.types.is_numeric_dtype(rows[n])]
    last = rows.sort_values([*numeric, "repeat"], ascending=[False] * len(numeric) + [True])
    return last.drop_duplicates(["engine", "phase"])[["trial", "engine", "phase"]]


def host_cpu(tables: Tables) -> Chart | None:
    """Host CPU over time by kind, iowait included, a panel per engine and phase of LEAST_SECONDS.

    Nodes on hosts of their own have panels beside those of their clients.
    """
    if tables.cpu.empty:
        return None
    chosen = _highest(tables.cpu, tables)
    cpu = tables.cpu.merge(chosen, on=["trial", "phase"])
    clients = dict(zip(tables.trials["trial"], tables.trials["host"], strict=True))
    cpu["who"] = [
        "clients" if host in clients[trial].split(", ") else "nodes"
        for trial, host in zip(cpu["trial"], cpu["host"], strict=True)
    ]
    seconds = cpu.groupby(["engine", "phase"])["second"].transform("nunique")
    cpu = cpu[seconds >= LEAST_SECONDS]
    panels = []
    for engine in engines_in(cpu) if len(cpu) else ():
        rows = cpu[cpu["engine"] == engine]
        apart = "nodes" in set(rows["who"])
        for who in sorted(set(rows["who"])):
            name = f"{title(engine)} {who}" if apart else title(engine)
            for phase in tables.phases_of(cpu)[:_PHASES]:
                here = rows[(rows["who"] == who) & (rows["phase"] == phase)]
                if len(here):
                    panels.append(_over_time(f"{name}, {phase}", engine, here))
    return Chart(panels) if panels else None


def _over_time(heading: str, engine: str, rows: pd.DataFrame) -> Panel:
    kinds = [*KINDS, *([_STEAL] if (rows["steal"] > 0.5).any() else [])]
    # More steps than pixels would only make the picture large.
    span = 1 + int(rows["second"].max()) // _STEPS
    spans = rows["second"] // span * span
    means = rows.groupby(spans)[[kind for kind, _ in kinds]].mean()
    record = {"engine": engine, "phase": rows["phase"].iloc[0]}
    stack = [
        Series(kind, list(map(Point, means.index, means[kind])), "area", record, colour=colour)
        for kind, colour in kinds
    ]
    end = float(means.index.max()) + span
    x = Axis("seconds since the start of the phase", "linear", top=end)
    return Panel(heading, x, Axis("host CPU in %", "linear", top=100), stack)


def busy_nodes(tables: Tables) -> Chart | None:
    """Cores that each node and the busiest client process used, a panel per phase."""
    load = tables.host[tables.host["phase"] != SESSION]
    nodes = load[(load["metric"] == "store_cpu") & (load["node"] != "")]
    if nodes.empty:
        return None
    chosen = _highest(nodes, tables)
    clients = load[load["metric"] == "client_cpu"].merge(chosen, on=["trial", "phase"])
    clients = clients.groupby(["engine", "phase"])[["mean", "max"]].max().reset_index()
    rows = nodes.merge(chosen, on=["trial", "phase"])
    rows = rows.groupby(["engine", "phase", "node"])[["mean", "max"]].max().reset_index()
    if rows.groupby("engine")["node"].nunique().sum() > _ROWS:
        # Of many nodes the busiest tell what limits.
        busiest = rows.sort_values("mean", ascending=False).drop_duplicates(["engine", "node"])
        kept = busiest.groupby("engine").head(_BUSIEST)
        rows = rows.merge(kept[["engine", "node"]], on=["engine", "node"])
    rows = pd.concat([rows, clients.assign(node=_CLIENT)], ignore_index=True)
    rows["last"], rows["signs"] = rows["node"] == _CLIENT, rows["node"].str.len()
    panels = []
    for phase in tables.phases_of(rows)[:_PHASES]:
        here = rows[rows["phase"] == phase].sort_values(["engine", "last", "signs", "node"])
        series = []
        for engine, node, mean, most in here[["engine", "node", "mean", "max"]].to_numpy():
            name = f"{title(engine)}, {node}"
            record = {"engine": engine, "phase": phase}
            colour = GREY if node == _CLIENT else ""
            words = f"{mean:.2f} cores, {most:.2f} in the busiest second"
            bar = [Point(mean, name, words=words)]
            series.append(Series(name, bar, "bars", record, colour=colour))
            tick = [Point(most, name, words=f"{most:.2f} cores")]
            what = "busiest second"
            series.append(Series(what, tick, "markers", record, colour=INK, marker="|"))
        names = rows_axis(one.points[0].y for one in series)
        panels.append(Panel(phase, Axis("cores", "linear"), names, series))
    return Chart(panels)
