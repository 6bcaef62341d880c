"""Seconds over selectivity, and where a store did without its index."""

from __future__ import annotations

import pandas as pd
from matplotlib.figure import Figure

from storewise.analysis.common.engines import CEILING, title, varying_factors
from storewise.analysis.common.frames import grouped, missing, records
from storewise.analysis.common.text import setting
from storewise.analysis.model.tables import Tables
from storewise.figures.selection import engines_in, style_of
from storewise.figures.style import LINES, legend_outside, new_figure, plain_numbers, tick

#: Combinations of other factors that get a line style each; further ones are left out.
_MAX_LINES = len(LINES)


def over_selectivity(tables: Tables) -> Figure | None:
    """Seconds of an execution over the share of the readings, a panel per query, both axes
    logarithmic; markers are hollow where the plan did not use the secondary index."""
    found = tables.plan_summary
    found = found[(found["engine"] != CEILING) & (found["mean"] > 0)] if len(found) else found
    if found.empty or found["selectivity_pct"].nunique() < 2:
        return None
    names = varying_factors(found, tables.results.factors)
    queries = sorted(set(found["query"]))
    style = style_of(tables)
    figure, axes = new_figure(1, len(queries), height=3.6, sharey=True)
    for axis, query in zip(axes, queries, strict=True):
        here = found[found["query"] == query]
        for engine in engines_in(here):
            own = here[here["engine"] == engine]
            # Several settings of one engine differ by their lines.
            lines = list(grouped(own, names)) if names else [((), own)]
            for number, (_, points) in enumerate(lines[:_MAX_LINES]):
                points = points.sort_values("selectivity_pct")
                text = setting(records(points)[0], names) if names and len(lines) > 1 else ""
                label = title(engine) + (f", {text}" if text else "")
                _line(axis, points, style.colour(engine), style.marker(engine), number, label)
        axis.set_xscale("log")
        axis.set_yscale("log")
        axis.set_title(query)
        axis.set_xlabel("selectivity (% of the readings)")
        shares = sorted(set(here["selectivity_pct"]))
        axis.set_xticks(shares, _labels(shares))
        axis.minorticks_off()
        axis.yaxis.set_major_formatter(lambda value, _: tick(value))
        if axis is axes[0]:
            axis.set_ylabel("seconds")
    plain_numbers(axes[0].yaxis)
    legend_outside(figure, axes, columns=2)
    return figure


def _labels(shares: list[float]) -> list[str]:
    """Texts of ticks; those that would lie on the one before are empty."""
    found: list[str] = []
    last = 0.0
    for share in shares:
        close = share < 1.7 * last
        found.append("" if close else f"{share:g}")
        last = last if close else share
    return found


def _line(
    axis: object, points: pd.DataFrame, colour: str, marker: str, number: int, label: str
) -> None:
    shares = points["selectivity_pct"].to_list()
    means = points["mean"].to_list()
    look = {"color": colour, "ls": LINES[number], "marker": marker}
    axis.plot(shares, means, label=label, **look)  # type: ignore[attr-defined]
    hollow = [
        (share, mean)
        for share, mean, used in zip(shares, means, points["uses_index"], strict=True)
        if not missing(used) and not used
    ]
    if hollow:
        axis.plot(  # type: ignore[attr-defined]
            *zip(*hollow, strict=True),
            ls="none",
            marker=marker,
            color=colour,
            markerfacecolor="white",
            zorder=3,
        )
