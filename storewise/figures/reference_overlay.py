"""Published curves over measured ones: shapes only, for the hardware is another."""

from __future__ import annotations

from typing import Any

import pandas as pd
from matplotlib.figure import Figure

from storewise.analysis.common.engines import title
from storewise.analysis.common.frames import grouped, records
from storewise.analysis.common.text import level
from storewise.analysis.model.tables import Tables
from storewise.figures.selection import MAX_PANELS, style_of
from storewise.figures.style import GREY, legend_outside, new_figure, plain_numbers, spread

AXIS = {
    "clients": "clients",
    "workers": "worker hosts",
    "nodes": "data nodes",
    "processes": "client processes",
    "operations": "operations",
    "selectivity_pct": "selectivity in %",
}
#: How a published line looks, and a measured one never does.
_PUBLISHED = {"ls": "--", "lw": 1.3, "markerfacecolor": "none", "alpha": 0.9}


def published_shapes(tables: Tables) -> Figure | None:
    """A panel per published series: each curve as a multiple of its own value at one level.

    Dashed lines with hollow markers are published, full lines measured. Where a series was
    published for several settings, the one with the most measured levels is drawn.
    """
    found = tables.reference_curves
    panels = [one_setting(group) for _, group in grouped(found, ["reference", "series"])]
    panels = panels[:MAX_PANELS]
    if not panels:
        return None
    columns = min(2, len(panels))
    rows = -(-len(panels) // columns)
    figure, axes = new_figure(rows, columns, height=3.2, sharey=False)
    for axis in axes[len(panels) :]:
        axis.set_visible(False)
    for axis, panel in zip(axes, panels, strict=False):
        _draw(axis, panel, tables)
    legend_outside(figure, axes[: len(panels)], columns=2)
    names = ", ".join(dict.fromkeys(str(p["reference"].iloc[0]) for p in panels))
    figure.suptitle(f"{names}: published on other hardware, so only shapes compare", fontsize=9)
    return figure


def one_setting(group: pd.DataFrame) -> pd.DataFrame:
    """The published curves of one setting, and all measured ones that stand beside them."""
    counts = group[group["source"] == "measured"]["fixed"].value_counts()
    # The last of equals: the largest amount of work, where settings are amounts.
    fixed = list(dict.fromkeys(group[group["source"] == "published"]["fixed"]))
    chosen = max(reversed(fixed), key=lambda setting: int(counts.get(setting, 0)))
    kept: pd.DataFrame = group[group["fixed"] == chosen]
    return kept


def _draw(axis: Any, panel: pd.DataFrame, tables: Tables) -> None:
    style = style_of(tables)
    engines: dict[str, str] = {}
    for row in records(panel[panel["source"] == "measured"]):
        engines.setdefault(str(row["system"]), str(row["engine"]))
    fixed = str(panel["fixed"].iloc[0])
    for (source, system, engine, setting), own in grouped(
        panel, ["source", "system", "engine", "setting"]
    ):
        own = own.sort_values("x")
        if source == "published":
            like = engines.get(system, "")
            axis.plot(
                own["x"],
                own["relative"],
                color=style.colour(like) if like else GREY,
                marker=style.marker(like) if like else "o",
                label=f"published: {system}",
                **_PUBLISHED,
            )
        else:
            more = str(setting).removeprefix(fixed).strip(", ")
            axis.plot(
                own["x"],
                own["relative"],
                color=style.colour(engine),
                marker=style.marker(engine),
                label=f"here: {title(engine)}{f' ({more})' if more else ''}",
            )
    first = panel.iloc[0]
    heading = str(first["title"])
    axis.set_title(f"{heading}\n({fixed})" if fixed else heading, fontsize=9)
    axis.set_xlabel(AXIS.get(str(first["x_name"]), str(first["x_name"])))
    bases = {level(float(base)) for base in panel["base"]}
    axis.set_ylabel(
        f"value over that at {bases.pop()}" if len(bases) == 1 else "value over its first"
    )
    axis.axhline(1.0, color=GREY, lw=0.8, ls=":")
    if spread(panel["x"].to_list()):
        axis.set_xscale("log")
    if spread(panel["relative"].to_list()):
        axis.set_yscale("log")
    plain_numbers(axis.xaxis)
    plain_numbers(axis.yaxis)
