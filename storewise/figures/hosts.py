"""What the processors of hosts, servers and clients did."""

from __future__ import annotations

import pandas as pd

from storewise.analysis.common.engines import title, varying_factors
from storewise.analysis.files.parts import SESSION
from storewise.analysis.model.tables import Tables
from storewise.figures.chart import Axis, Chart, Panel, Point, Series, rows_axis
from storewise.figures.rates import LEAST_SECONDS
from storewise.figures.selection import engines_in
from storewise.figures.style import INK

#: Most phases of a figure.
_PHASES = 3
#: Most nodes that all have a row, and rows of an engine where there are more.
_ROWS, _BUSIEST = 20, 3
#: Columns of `cpu` from below, with the colour and hatch of each.
_KINDS = (
    ("user", "#9E9E9E", ""),
    ("system", "#CFCFCF", "///"),
    ("iowait", "#000000", "..."),
    ("steal", "#7A7A7A", "xx"),
)
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
    cpu = cpu.assign(
        who=[
            "clients" if host in clients[trial].split(", ") else "nodes"
            for trial, host in zip(cpu["trial"], cpu["host"], strict=True)
        ]
    )
    seconds = cpu.groupby(["engine", "phase"])["second"].transform("nunique")
    cpu = cpu[seconds >= LEAST_SECONDS]
    phases = tables.phases_of(cpu)[:_PHASES]
    panels = []
    for engine in engines_in(chosen):
        rows = cpu[cpu["engine"] == engine]
        kinds = sorted(set(rows["who"]))
        for who in kinds:
            name = f"{title(engine)} {who}" if "nodes" in kinds else title(engine)
            for phase in phases:
                here = rows[(rows["who"] == who) & (rows["phase"] == phase)]
                if len(here):
                    panels.append(_over_time(f"{name}, {phase}", here))
    if not panels:
        return None
    return Chart(panels, 1.55, max(2, len(phases)), most=len(panels), time=True, still=True)


def _over_time(heading: str, rows: pd.DataFrame) -> Panel:
    means = rows.groupby("second")[[kind for kind, *_ in _KINDS]].mean()
    stack = [
        Series(
            kind,
            [Point(second, value) for second, value in means[kind].items()],
            "stack",
            colour=colour,
            hatch=hatch,
        )
        for kind, colour, hatch in _KINDS
        if kind != "steal" or (means[kind] > 0.5).any()
    ]
    # Each value is the mean of its second.
    end = float(means.index.max()) + 1
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
    places = [
        (engine, node)
        for engine in engines_in(rows)
        for node in sorted(
            set(rows[rows["engine"] == engine]["node"]), key=lambda n: (n == _CLIENT, len(n), n)
        )
    ]
    names = [f"{title(engine)}, {node}" for engine, node in places]
    panels = []
    for phase in tables.phases_of(rows):
        here = rows[rows["phase"] == phase].set_index(["engine", "node"])
        bars = []
        for (engine, node), name in zip(places, names, strict=True):
            if (engine, node) in here.index:
                row = here.loc[(engine, node)]
                record = {} if node == _CLIENT else {"engine": engine}
                bars.append(Series(name, [Point(row["mean"], name)], "bars", record))
                tick = [Point(row["max"], name)]
                bars.append(Series("", tick, "markers", colour=INK, marker="|"))
        panels.append(Panel(phase, Axis("cores", "linear"), rows_axis(names), bars))
    return Chart(panels, most=_PHASES, still=True)
