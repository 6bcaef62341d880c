"""What a million documents or operations cost, and how long the full corpus would take."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from storewise.analysis.common.engines import title, varying_factors
from storewise.analysis.common.frames import grouped, records
from storewise.analysis.common.text import setting
from storewise.analysis.model.tables import Tables
from storewise.figures.selection import MAX_PANELS, engines_in, phase_title, style_of
from storewise.figures.style import legend_outside, new_figure, plain_numbers, spread

#: Of what was judged, what is drawn: money where the study has prices, else hours of hosts.
_MONEY, _HOURS, _YEAR = "money_per_million", "host_hours_per_million", "corpus_money_per_year"
_OVER = {"nodes": "data nodes", "workers": "workers"}


def cost_panels(tables: Tables) -> Iterator[tuple[str, str, pd.DataFrame]]:
    """(heading, label of the axis, rows of `costs`) of each panel; rates that the study set are
    left out, for then it was not the store that made the costs."""
    costs = tables.judged.get("costs")
    if costs is None or costs.empty:
        return
    costs = costs[~costs["paced"].fillna(value=False).astype(bool) & (costs["mean"] > 0)]
    measure = _MONEY if (costs["measure"] == _MONEY).any() else _HOURS
    found = costs[costs["measure"] == measure]
    for phase in tables.phases_of(found):
        here = found[found["phase"] == phase]
        unit = str(here["unit"].iloc[0])
        what, _, per = unit.partition("/")
        words = "host hours" if what == "h" else what
        yield phase_title(phase), f"{words} per {per.replace('10^6', 'million')}", here
    yearly = costs[costs["measure"] == _YEAR]
    if len(yearly):
        yield "keeping the full corpus", str(yearly["unit"].iloc[0]).replace("/", " per "), yearly


def costs(tables: Tables) -> Figure | None:
    """A bar per engine and setting with its interval, a panel per phase."""
    panels = list(cost_panels(tables))[:MAX_PANELS]
    if not panels:
        return None
    style = style_of(tables)
    together = pd.concat([rows for _, _, rows in panels])
    names = varying_factors(together, tables.results.factors)
    labels: dict[str, int] = {}
    for engine in engines_in(together):
        for row in records(together[together["engine"] == engine].sort_values(names)):
            words = ", ".join(filter(None, (title(engine), setting(row, names))))
            labels.setdefault(words, len(labels))
    columns = min(3, len(panels))
    height = 1.0 + 0.3 * len(labels)
    figure, axes = new_figure(-(-len(panels) // columns), columns, height=height, sharey=True)
    for axis in axes[len(panels) :]:
        axis.set_visible(False)
    for axis, (heading, label, rows) in zip(axes, panels, strict=False):
        for row in records(rows):
            engine = str(row["engine"])
            words = ", ".join(filter(None, (title(engine), setting(row, names))))
            known = np.isfinite(row["low"]) and row["high"] > row["low"]
            axis.errorbar(
                row["mean"],
                labels[words],
                xerr=[[row["mean"] - row["low"]], [row["high"] - row["mean"]]] if known else None,
                fmt=style.marker(engine),
                color=style.colour(engine),
                capsize=3,
                elinewidth=1.2,
            )
        axis.set_title(heading)
        axis.set_xlabel(label)
        if spread(rows["mean"].to_list()):
            axis.set_xscale("log")
        else:
            axis.set_xlim(left=0)
        plain_numbers(axis.xaxis)
        axis.grid(visible=False, axis="y")
    axes[0].set_yticks(range(len(labels)), list(labels))
    axes[0].invert_yaxis()
    return figure


def capacity(tables: Tables) -> Figure | None:
    """Hours that the full corpus would take over nodes or workers: markers are measured, dashed
    lines the model, dotted beyond what was measured."""
    curve = tables.judged.get("capacity_curve")
    if curve is None or curve.empty:
        return None
    kinds = list(dict.fromkeys(curve["over"]))[:MAX_PANELS]
    style = style_of(tables)
    figure, axes = new_figure(1, len(kinds), height=3.4, sharey=False)
    for axis, kind in zip(axes, kinds, strict=True):
        here = curve[curve["over"] == kind]
        for engine in engines_in(here):
            own = here[here["engine"] == engine]
            names = varying_factors(own, tables.results.factors)
            for place, (_, line) in enumerate(grouped(own, names) if names else [((), own)]):
                look = {"color": style.colour(engine), "marker": style.marker(engine)}
                measured = line[line["how"] == "measured"].sort_values("count")
                label = title(engine) if place == 0 else None
                axis.plot(measured["count"], measured["hours"], ls="", label=label, **look)
                model = line.sort_values("count").drop_duplicates("count")
                axis.plot(model["count"], model["hours"], "--", lw=1, color=look["color"])
        axis.set_xscale("log")
        axis.set_yscale("log")
        axis.set_xlabel(_OVER.get(str(kind), str(kind)))
        plain_numbers(axis.xaxis)
        plain_numbers(axis.yaxis)
    axes[0].set_ylabel("hours to load the full corpus")
    legend_outside(figure, axes)
    return figure
