"""What differs between nodes: their latency and load, and what slowed nodes cost."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from storewise.analysis.common.engines import title, varying_factors
from storewise.analysis.model.tables import Tables
from storewise.figures.selection import MAX_PANELS, engines_in, lowest, style_of
from storewise.figures.style import COLOURS, legend_outside, new_figure

#: Most nodes of a panel; those of a larger cluster that were slowest are shown.
_NODES = 16
_KINDS = (
    ("cpu_user", "CPU user", "#999999", ""),
    ("cpu_system", "CPU system", "#cccccc", "///"),
    ("cpu_iowait", "CPU iowait", "#000000", "..."),
)


def _rows(tables: Tables) -> pd.DataFrame:
    """Rows of trials at the lowest level of their other factors, with the engine; repeats are
    pooled by the figures."""
    found = tables.per_node.merge(
        tables.trials[["trial", "repeat", *tables.results.factors]], on="trial"
    )
    names = [n for n in varying_factors(found, tables.results.factors) if n != "nodes"]
    found = lowest(found, names)
    # The largest cluster shows most of how nodes differ.
    if "nodes" in found:
        most = found.groupby("engine")["nodes"].transform("max")
        found = found[found["nodes"].isna() | (found["nodes"] == most)]
    return found


def _number(node: str) -> tuple[str, int]:
    role = node.rstrip("0123456789")
    return role, int(node[len(role) :] or 0)


def _nodes(here: pd.DataFrame) -> list[str]:
    names = sorted(set(here["node"]), key=_number)
    if len(names) > _NODES:
        slow = here.groupby("node")["service_p95"].max().sort_values(ascending=False)
        names = sorted(map(str, slow.index[:_NODES]), key=_number)
    return names


def latency_by_node(tables: Tables) -> Figure | None:
    """Service time by owning node and operation above, the node's host's CPU below; a column for
    each engine and phase, at the phase's last step without slowed nodes (else its last)."""
    if tables.per_node.empty:
        return None
    found = _rows(tables)
    found = found[found["service_p95"].notna()]
    several = found.groupby(["engine", "phase"])["node"].transform("nunique")
    found = found[several > 1]
    if found.empty:
        return None
    panels = [
        (engine, phase)
        for engine in engines_in(found)
        for phase in tables.phases_of(found)
        if ((found["engine"] == engine) & (found["phase"] == phase)).any()
    ][: MAX_PANELS // 2]
    names = sorted(set(found["operation"]))
    colours = {name: COLOURS[place % len(COLOURS)] for place, name in enumerate(names)}
    figure, axes = new_figure(2, len(panels), height=2.6)
    for column, (engine, phase) in enumerate(panels):
        here = found[(found["engine"] == engine) & (found["phase"] == phase)]
        plain = here[here["slowed_nodes"] == 0]
        here = plain if len(plain) else here
        here = here[here["step"] == here["step"].max()]
        upper, lower = axes[column], axes[len(panels) + column]
        upper.set_title(f"{title(engine)}, {phase}")
        nodes = _nodes(here)
        _times(upper, here, nodes, colours)
        _load(lower, here, nodes)
        if column == 0:
            upper.set_ylabel("service time, ms")
            lower.set_ylabel("host CPU, %")
    legend_outside(figure, axes)
    return figure


def _times(axis: Any, here: pd.DataFrame, nodes: list[str], colours: Mapping[str, str]) -> None:
    """Median (bar), 95th percentile (line above it) and mean (tick) by node and operation."""
    operations = sorted(set(here["operation"]))
    width = 0.8 / len(operations)
    for number, operation in enumerate(operations):
        own = here[here["operation"] == operation].groupby("node")
        own = own[["service_p50", "service_p95", "service_mean"]].median().reindex(nodes) * 1e3
        at = np.arange(len(nodes)) + (number - (len(operations) - 1) / 2) * width
        colour = colours[operation]
        median, high = own["service_p50"].to_numpy(), own["service_p95"].to_numpy()
        axis.bar(at, median, width * 0.9, color=colour, label=operation)
        axis.vlines(at, median, high, color=colour, lw=1)
        axis.plot(at, high, "_", color=colour, ms=6)
        axis.plot(at, own["service_mean"], ".", color="#000000", ms=4)
    _names(axis, nodes)
    axis.set_ylim(0, 1.05 * axis.get_ylim()[1])


def _load(axis: Any, here: pd.DataFrame, nodes: list[str]) -> None:
    mean = here.groupby("node")[[name for name, *_ in _KINDS]].mean().reindex(nodes).fillna(0.0)
    below = np.zeros(len(nodes))
    for name, label, colour, hatch in _KINDS:
        height = mean[name].to_numpy(dtype=float)
        axis.bar(
            range(len(nodes)),
            height,
            0.7,
            bottom=below,
            color=colour,
            hatch=hatch,
            edgecolor="white",
            lw=0,
            label=label,
        )
        below = below + height
    _names(axis, nodes)
    axis.set_ylim(0, 100)


def _names(axis: Any, nodes: Sequence[str]) -> None:
    tilt = {"rotation": 60, "ha": "right"} if len(nodes) > 4 else {}
    axis.set_xticks(range(len(nodes)), list(nodes), **tilt)


def slowed_nodes(tables: Tables) -> Figure | None:
    """Throughput, 95th percentile of each node, and iowait over the number of slowed nodes; a row
    for each phase (and way of slowing)."""
    slow = tables.slowdown
    if slow.empty:
        return None
    slow = lowest(slow, varying_factors(slow, tables.results.factors))
    ways = [
        (phase, way)
        for phase in tables.phases_of(slow)
        for way in sorted(set(slow[(slow["phase"] == phase)]["slow"]) - {""})
    ][: MAX_PANELS // 2]
    style = style_of(tables)
    each = _rows(tables)
    figure, axes = new_figure(len(ways), 3, height=2.7)
    for row, (phase, way) in enumerate(ways):
        rates, times, waits = axes[3 * row : 3 * row + 3]
        here = slow[(slow["phase"] == phase) & slow["slow"].isin(["", way])]
        for engine in engines_in(here):
            own = here[here["engine"] == engine].sort_values("slowed_nodes")
            own = own.drop_duplicates("slowed_nodes")
            mean = own["mean"].to_numpy(dtype=float)
            low, high = own["low"].to_numpy(dtype=float), own["high"].to_numpy(dtype=float)
            look = {"color": style.colour(engine), "marker": style.marker(engine)}
            rates.errorbar(
                own["slowed_nodes"],
                mean,
                yerr=np.nan_to_num(np.clip(np.vstack([mean - low, high - mean]), 0, None)),
                capsize=3,
                elinewidth=1,
                label=title(engine),
                **look,
            )
            steps = set(own["step"])
            of_nodes = each[
                (each["engine"] == engine) & (each["phase"] == phase) & each["step"].isin(steps)
            ]
            _over(times, of_nodes, "service_p95", 1e3, look)
            _over(waits, of_nodes, "cpu_iowait", 1.0, look)
        rates.set_title(f"{phase}: {way}")
        for axis, label in (
            (rates, "operations per second"),
            (times, "p95 of each node, ms"),
            (waits, "iowait of each node, %"),
        ):
            axis.set_ylabel(label)
            axis.set_ylim(0, 1.08 * axis.get_ylim()[1] if axis is not waits else 100)
            axis.set_xticks(sorted(set(here["slowed_nodes"])))
            axis.set_xlabel("slowed nodes")
    legend_outside(figure, axes)
    return figure


def _over(axis: Any, rows: pd.DataFrame, value: str, scale: float, look: Mapping[str, Any]) -> None:
    """A mark for each node: full where it was slowed, hollow where it was not."""
    for slowed, filled in ((False, "none"), (True, look["color"])):
        own = rows[(rows["slowed"] != "") == slowed]
        own = own.groupby(["slowed_nodes", "node"])[value].max().reset_index().dropna()
        axis.plot(
            own["slowed_nodes"],
            own[value] * scale,
            ls="",
            markerfacecolor=filled,
            label="slowed" if slowed else "not slowed",
            **{**look, "color": look["color"]},
        )
