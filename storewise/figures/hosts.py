"""What the processors of hosts did."""

from __future__ import annotations

import pandas as pd

from storewise.analysis.common.engines import title, varying_factors
from storewise.analysis.model.tables import Tables
from storewise.figures.chart import Axis, Chart, Panel, Point, Series
from storewise.figures.selection import by_engine
from storewise.figures.style import GREY

#: Most phases of a figure, and means over time of a panel.
_PHASES, _STEPS = 3, 60
#: Kinds of use from below, with the colour of each.
KINDS = (("user", "#4C72B0"), ("system", "#A9BDE0"), ("iowait", "#C44E52"))
_STEAL = ("steal", GREY)
#: Seconds from which on a line over time is one.
LEAST_SECONDS = 5


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
    for engine, rows in by_engine(cpu):
        apart = "nodes" in set(rows["who"])
        for who in sorted(set(rows["who"])):
            name = f"{title(engine)} {who}" if apart else title(engine)
            for phase in tables.phases_of(cpu)[:_PHASES]:
                here = rows[(rows["who"] == who) & (rows["phase"] == phase)]
                if len(here):
                    panels.append(_over_time(f"{name}, {phase}", here))
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
