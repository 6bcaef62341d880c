"""What steps show: throughput over clients, latency over throughput, run time over clients."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from storewise.analysis.common.engines import title, varying_factors
from storewise.analysis.common.frames import records
from storewise.analysis.measure.steps import ALL, OTHER, PARAMETERS, wide
from storewise.analysis.model.tables import Tables
from storewise.figures.selection import MAX_PANELS, engines_in, lowest, shared_setting, style_of
from storewise.figures.style import legend_outside, new_figure, plain_numbers, spread


def _rows(tables: Tables, *, whole: bool) -> tuple[pd.DataFrame, list[str]]:
    """Wide rows of all operations together (`whole`) or of each, other factors at their lowest."""
    found = tables.steps[tables.steps["operation"].eq(ALL) == whole]
    if found.empty:
        return found, []
    names = varying_factors(found, tables.results.factors)
    return wide(lowest(found, names), tables.results.factors), names


def _panels(axes_count: int) -> tuple[int, int]:
    """(rows, columns) of panels."""
    columns = min(3, axes_count)
    return -(-axes_count // columns), columns


def _subtitle(figure: Figure, found: pd.DataFrame, names: list[str]) -> None:
    if names:
        figure.suptitle(f"with {shared_setting(found, names)}", fontsize=9)


def _highest(found: pd.DataFrame, names: Sequence[str]) -> pd.DataFrame:
    """Rows at the highest value of each of these parameters (none at all counts as the lowest)."""
    for name in names:
        values = found[name].dropna()
        if len(values):
            found = found[found[name] == values.max()]
    return found


def _alike(phase: str, here: pd.DataFrame) -> Iterator[tuple[str, pd.DataFrame]]:
    """Steps of a phase that differ in nothing but PARAMETERS, with what they are called: other
    steps were asked something else, and no line joins them."""
    for other in dict.fromkeys(map(str, here[OTHER])):
        yield (f"{phase}, {other}" if other else phase), here[here[OTHER] == other]


def throughput_over_clients(tables: Tables) -> Figure | None:
    """Operations per second over client threads, a panel per phase."""
    found, names = _rows(tables, whole=True)
    if found.empty or "operations_per_s" not in found:
        return None
    found = found[found["operations_per_s"] > 0]
    phases = []
    for phase in tables.phases_of(found):
        for name, rows in _alike(phase, found[found["phase"] == phase]):
            here = _highest(rows, ["planned", "rate"])
            if here["clients"].nunique() > 1:
                phases.append((name, here))
    phases = phases[:MAX_PANELS]
    if not phases:
        return None
    style = style_of(tables)
    figure, axes = new_figure(*_panels(len(phases)), height=3.3, sharey=False)
    for axis, (phase, here) in zip(axes, phases, strict=False):
        axis.set_title(phase)
        for engine in engines_in(here):
            own = here[here["engine"] == engine].sort_values("clients")
            own = own.drop_duplicates("clients")
            mean = own["operations_per_s"].to_numpy(dtype=float)
            low, high = own["low"].to_numpy(dtype=float), own["high"].to_numpy(dtype=float)
            axis.errorbar(
                own["clients"],
                mean,
                yerr=np.nan_to_num(np.clip(np.vstack([mean - low, high - mean]), 0, None)),
                capsize=3,
                elinewidth=1,
                color=style.colour(engine),
                marker=style.marker(engine),
                label=title(engine),
            )
        _client_axis(axis, here["clients"])
        _rate_axis(axis, here["operations_per_s"])
    _finish(figure, axes, len(phases))
    axes[0].set_ylabel("operations per second")
    _subtitle(figure, found, names)
    return figure


def latency_over_throughput(tables: Tables) -> Figure | None:
    """Response time of each operation over the throughput of all: mean, and p99 dashed."""
    each, names = _rows(tables, whole=False)
    whole, _ = _rows(tables, whole=True)
    if each.empty or "response_mean" not in each or whole.empty:
        return None
    keys = [*tables.results.factors, "phase", "step", *PARAMETERS]
    reached = whole[[*keys, "operations_per_s"]].rename(columns={"operations_per_s": "reached"})
    found = each.merge(reached, on=keys, how="inner")
    found = found[found["response_mean"].notna() & (found["reached"] > 0)]
    panels = []
    for phase in tables.phases_of(found):
        for name, here in _alike(phase, found[found["phase"] == phase]):
            for operation in sorted(set(here["operation"])):
                own = _highest(here[here["operation"] == operation], ["planned"])
                if own.groupby("engine")["reached"].nunique().max() > 1:
                    panels.append((name, operation, own))
    panels = panels[: 2 * MAX_PANELS]
    if not panels:
        return None
    style = style_of(tables)
    figure, axes = new_figure(*_panels(len(panels)), height=3.1, sharey=False)
    several = len({phase for phase, _, _ in panels}) > 1
    for axis, (phase, operation, here) in zip(axes, panels, strict=False):
        axis.set_title(f"{phase}: {operation}" if several else operation)
        for engine in engines_in(here):
            own = here[here["engine"] == engine].sort_values("reached")
            # Steps are joined in the order of what was asked of them, if that was all one thing.
            order = "rate" if own["rate"].nunique() > 1 else "clients"
            own = own.sort_values([order, "reached"])
            look = {"color": style.colour(engine), "marker": style.marker(engine)}
            axis.plot(own["reached"], own["response_mean"] * 1e3, label=title(engine), **look)
            axis.plot(own["reached"], own["response_p99"] * 1e3, ls="--", lw=1, ms=3, **look)
        for engine, knee in knees_of(tables, phase, here):
            axis.axvline(knee["throughput"], color=style.colour(engine), lw=1, ls=":")
        axis.set_xlabel("operations/s, all together")
        values = pd.concat([here["response_mean"], here["response_p99"]]) * 1e3
        if spread(values[values > 0]):
            axis.set_yscale("log")
        else:
            axis.set_ylim(0, 1.2 * float(values.max()))
        if spread(here["reached"]):
            axis.set_xscale("log")
        else:
            axis.set_xlim(0, 1.08 * float(here["reached"].max()))
        plain_numbers(axis.xaxis)
        plain_numbers(axis.yaxis)
    _finish(figure, axes, len(panels))
    axes[0].set_ylabel("response time in ms")
    _subtitle(figure, found, names)
    return figure


def knees_of(
    tables: Tables, phase: str, here: pd.DataFrame
) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """(engine, row of the judged table `knees` with its label as `_row`) of each engine of a panel,
    at the settings of its rows."""
    knees = tables.judged.get("knees")
    if knees is None or knees.empty:
        return
    keys = [k for k in (*tables.results.factors, "phase", OTHER) if k in here and k in knees]
    wanted = {tuple(str(row[k]) for k in keys) for row in records(here)}
    found = knees[knees["throughput"].notna()]
    for label, row in zip(found.index, records(found), strict=True):
        if tuple(str(row[k]) for k in keys) in wanted:
            yield str(row["engine"]), {**row, "_row": label}


def runtime_over_clients(tables: Tables) -> Figure | None:
    """Total run time over client threads, a panel per number of operations of a phase."""
    found, names = _rows(tables, whole=True)
    if found.empty or "runtime" not in found:
        return None
    panels = []
    for phase in tables.phases_of(found):
        for name, here in _alike(phase, found[found["phase"] == phase]):
            counts = sorted(here["planned"].dropna().unique())
            if len(counts) > 1:
                panels += [(name, count, here[here["planned"] == count]) for count in counts]
    panels = panels[: 2 * MAX_PANELS]
    if not panels:
        return None
    style = style_of(tables)
    figure, axes = new_figure(*_panels(len(panels)), height=3.0, sharey=False)
    for axis, (phase, count, here) in zip(axes, panels, strict=False):
        axis.set_title(f"{phase}: {count:,.0f} operations")
        for engine in engines_in(here):
            own = here[here["engine"] == engine].sort_values("clients")
            axis.plot(
                own["clients"],
                own["runtime"],
                color=style.colour(engine),
                marker=style.marker(engine),
                label=title(engine),
            )
        _client_axis(axis, here["clients"])
        if spread(here["runtime"]):
            axis.set_yscale("log")
        else:
            axis.set_ylim(0, 1.2 * float(here["runtime"].max()))
        plain_numbers(axis.yaxis)
    _finish(figure, axes, len(panels))
    axes[0].set_ylabel("run time in s")
    _subtitle(figure, found, names)
    return figure


def _client_axis(axis: Any, clients: pd.Series) -> None:
    levels = sorted(set(clients.dropna()))
    if levels and min(levels) > 0 and max(levels) / min(levels) >= 8:
        axis.set_xscale("log", base=2)
        axis.minorticks_off()
    axis.set_xticks(levels, [f"{level:g}" for level in levels])
    axis.set_xlabel("client threads")


def _rate_axis(axis: Any, values: pd.Series) -> None:
    if spread(values):
        axis.set_yscale("log")
    else:
        axis.set_ylim(0, 1.25 * float(values.max()))
    plain_numbers(axis.yaxis)


def _finish(figure: Figure, axes: Sequence[Any], used: int) -> None:
    for axis in axes[used:]:
        axis.set_visible(False)
    legend_outside(figure, list(axes[:used]), columns=4)
