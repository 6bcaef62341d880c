"""What the processors of hosts, servers and clients did."""

from __future__ import annotations

import numpy as np
import pandas as pd
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from storewise.analysis.common.engines import title, varying_factors
from storewise.analysis.files.parts import SESSION
from storewise.analysis.model.tables import Tables
from storewise.figures.selection import engines_in, style_of
from storewise.figures.style import GREY, legend_outside, new_figure


def _highest(table: pd.DataFrame, tables: Tables) -> pd.DataFrame:
    """The trial of each engine and phase in `table` that is shown: trial, engine, phase.

    It is the first repeat at the highest setting: that is where a limit would be met.
    """
    factors = tables.results.factors
    found = table.merge(tables.trials[["trial", "repeat", *factors]], on="trial")
    names = varying_factors(found, factors)
    numeric = [n for n in names if pd.api.types.is_numeric_dtype(found[n])]
    last = found.sort_values([*numeric, "repeat"], ascending=[False] * len(numeric) + [True])
    return last.drop_duplicates(["engine", "phase"])[["trial", "engine", "phase"]]


def host_cpu(tables: Tables) -> Figure | None:
    """Host CPU over time by kind, iowait included, one panel per engine and phase.

    Nodes on hosts of their own have panels beside those of their clients.
    """
    cpu = tables.cpu
    if cpu.empty:
        return None
    chosen = _highest(cpu, tables)
    cpu = cpu.merge(chosen, on=["trial", "phase"])
    clients = dict(zip(tables.trials["trial"], tables.trials["host"], strict=True))
    apart = [
        h not in clients[t].split(", ") for t, h in zip(cpu["trial"], cpu["host"], strict=True)
    ]
    cpu = cpu.assign(who=np.where(apart, "nodes", "clients"))
    phases = tables.phases_of(chosen)[:3]
    rows = [
        (engine, who)
        for engine in engines_in(chosen)
        for who in sorted(set(cpu[cpu["engine"] == engine]["who"]))
    ]
    both = {engine for engine, who in rows if who == "nodes"}
    figure, axes = new_figure(len(rows), len(phases), height=1.55, sharey=True)
    kinds = (
        ("user", "#0072B2", ""),
        ("system", "#56B4E9", "///"),
        ("iowait", "#D55E00", "..."),
        ("steal", "#000000", "xx"),
    )
    for number, axis in enumerate(axes):
        (engine, who), phase = rows[number // len(phases)], phases[number % len(phases)]
        here = cpu[(cpu["engine"] == engine) & (cpu["who"] == who) & (cpu["phase"] == phase)]
        axis.set_ylim(0, 100)
        axis.set_title(f"{title(engine)}{f' {who}' if engine in both else ''}, {phase}")
        if here.empty:
            axis.text(0.5, 0.5, "not measured", ha="center", va="center", transform=axis.transAxes)
            continue
        mean = here.groupby("second")[[k for k, _, _ in kinds]].mean()
        # Steps over whole seconds: each value is the mean of its second.
        edges = np.append(mean.index.to_numpy(), mean.index.max() + 1)
        below = np.zeros(len(mean))
        for kind, colour, hatch in kinds:
            if kind == "steal" and not (mean[kind] > 0.5).any():
                continue
            above = below + mean[kind].to_numpy()
            axis.stairs(
                above,
                edges,
                baseline=below,
                fill=True,
                facecolor=colour,
                edgecolor="white",
                hatch=hatch,
                lw=0,
                label=kind,
            )
            below = above
        axis.set_xlim(0, edges.max())
        axis.xaxis.set_major_locator(MaxNLocator(6, integer=True))
        if number // len(phases) == len(rows) - 1:
            axis.set_xlabel("seconds since the start of the phase")
        if number % len(phases) == 0:
            axis.set_ylabel("host CPU in %")
    legend_outside(figure, axes)
    return figure


def busy_nodes(tables: Tables) -> Figure | None:
    """Cores that each node and the busiest client process used, a panel per phase."""
    load = tables.host[tables.host["phase"] != SESSION]
    nodes = load[(load["metric"] == "store_cpu") & (load["node"] != "")]
    if nodes.empty:
        return None
    chosen = _highest(nodes, tables)
    clients = load[load["metric"] == "client_cpu"].merge(chosen, on=["trial", "phase"])
    clients = clients.groupby(["engine", "phase"])[["mean", "max"]].max().reset_index()
    found = nodes.merge(chosen, on=["trial", "phase"])
    found = found.groupby(["engine", "phase", "node"])[["mean", "max"]].max().reset_index()
    found = pd.concat([found, clients.assign(node="busiest client")], ignore_index=True)
    phases = tables.phases_of(found)[:3]
    rows = [
        (engine, node)
        for engine in engines_in(found)
        for node in sorted(
            set(found[found["engine"] == engine]["node"]), key=lambda n: (" " in n, len(n), n)
        )
    ]
    style = style_of(tables)
    figure, axes = new_figure(1, len(phases), height=1.2 + 0.3 * len(rows), sharey=True)
    for axis, phase in zip(axes, phases, strict=True):
        here = found[found["phase"] == phase].set_index(["engine", "node"])
        for place, (engine, node) in enumerate(rows):
            if (engine, node) not in here.index:
                continue
            row = here.loc[(engine, node)]
            client = node == "busiest client"
            axis.barh(
                place,
                row["mean"],
                height=0.65,
                color=GREY if client else style.colour(engine),
                hatch="" if client else style.hatch(engine),
                edgecolor="white",
            )
            axis.plot(row["max"], place, "|", color="#000000", markersize=9)
        axis.set_title(phase)
        axis.set_xlabel("cores")
        axis.set_xlim(left=0)
        axis.xaxis.set_major_locator(MaxNLocator(5))
        axis.grid(visible=False, axis="y")
    axes[0].set_yticks(range(len(rows)), [f"{title(e)}, {n}" for e, n in rows])
    axes[0].invert_yaxis()
    return figure
