"""How rates change with the size of a cluster or the number of clients."""

from __future__ import annotations

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from storewise.analysis.common.engines import CEILING, title, varying_factors
from storewise.analysis.common.frames import records
from storewise.analysis.common.text import setting
from storewise.analysis.model.tables import Tables
from storewise.figures.selection import (
    MAX_PANELS,
    engines_in,
    lowest,
    phase_title,
    shared_setting,
    style_of,
)
from storewise.figures.style import legend_outside, new_figure, plain_numbers, spread
from storewise.figures.usl_curves import law_of, relative_law

#: Factors that get a row of panels of their own, as far as there is room.
_MAX_FACTORS = 3


def speedup(tables: Tables) -> Figure | None:
    """Speed-up over the levels of each numeric factor, with the ideal line, a row per factor."""
    found = tables.scaling[tables.scaling["quantity"] == "speedup"]
    found = found[found["measure"] == "documents_per_s"]
    if found.empty:
        return None
    factors = list(dict.fromkeys(found["factor"]))[:_MAX_FACTORS]
    names = varying_factors(found, tables.results.factors)
    chosen = {
        factor: lowest(found[found["factor"] == factor], [n for n in names if n != factor])
        for factor in factors
    }
    phases = tables.phases_of(found)[: MAX_PANELS // 2]
    style = style_of(tables)
    figure, axes = new_figure(
        len(factors), len(phases), height=3.3 if len(factors) == 1 else 2.7, sharey=False
    )
    for number, axis in enumerate(axes):
        factor, phase = factors[number // len(phases)], phases[number % len(phases)]
        here = chosen[factor]
        here = here[here["phase"] == phase]
        axis.set_title(phase_title(phase))
        axis.set_xlabel(AXIS.get(factor, factor))
        if here.empty:
            axis.text(0.5, 0.5, "not measured", ha="center", va="center", transform=axis.transAxes)
            continue
        base = float(here["base"].min())
        levels = sorted(set(here["level"]))
        ideal = [level / base for level in levels]
        axis.plot(levels, ideal, color="#000000", lw=1, ls=":", label="ideal")
        engines = engines_in(here)
        width = 0.02 * (max(levels) - min(levels))
        for place, engine in enumerate(engines):
            own = here[here["engine"] == engine].sort_values("level").drop_duplicates("level")
            shift = width * (place - (len(engines) - 1) / 2)
            mean = own["mean"].to_numpy(dtype=float)
            errors = np.vstack([mean - own["low"], own["high"] - mean]).astype(float)
            axis.errorbar(
                own["level"] + shift,
                mean,
                yerr=np.nan_to_num(errors),
                capsize=3,
                elinewidth=1,
                color=style.colour(engine),
                marker=style.marker(engine),
                label=title(engine),
            )
            law = law_of(tables, records(own)[0], factor) if len(own) else None
            if law is not None:
                axis.plot(*relative_law(law, base, levels), "--", lw=1, color=style.colour(engine))
        axis.set_xticks(levels, [f"{level:g}" for level in levels])
        axis.set_ylim(0, 1.5 * max([*ideal, *here["mean"]]))
        if number % len(phases) == 0:
            axis.set_ylabel(f"speed-up over {setting({factor: base}, [factor])}")
    legend_outside(figure, axes, columns=5)
    return figure


AXIS = {
    "nodes": "data nodes",
    "node_threads": "threads per node",
    "node_memory_mb": "memory per node in MiB",
    "processes": "processes per worker",
    "threads": "threads per process",
}


def over_nodes(tables: Tables) -> Figure | None:
    """Documents per second over the number of data nodes, a panel per phase.

    Stores without servers are horizontal lines: what the same clients reach without a cluster.
    """
    found = tables.summary[tables.summary["measure"] == "documents_per_s"]
    if "nodes" not in found or not (found["nodes"].nunique() > 1):
        return None
    found = found[found["mean"] > 0]
    names = [n for n in varying_factors(found, tables.results.factors) if n != "nodes"]
    several = found.groupby("engine")["nodes"].nunique()
    found = lowest(found, [*names, *(["step"] if found["step"].nunique() > 1 else [])])
    levels = sorted(found["nodes"].dropna().unique())
    phases = tables.phases_of(found[found["nodes"].notna()])[:3]
    style = style_of(tables)
    figure, axes = new_figure(1, len(phases), height=3.4, sharey=False)
    for axis, phase in zip(axes, phases, strict=True):
        here = found[found["phase"] == phase]
        for engine in engines_in(here):
            own = here[here["engine"] == engine].sort_values("nodes")
            look = {"color": style.colour(engine), "label": title(engine)}
            if several[engine] == 0:
                dashes = ":" if engine == CEILING else "--"
                axis.axhline(float(own["mean"].iloc[0]), ls=dashes, lw=1.2, **look)
                continue
            _line(axis, own, style.marker(engine), look)
        axis.set_xticks(levels, [f"{level:g}" for level in levels])
        axis.set_xlabel("data nodes")
        axis.set_title(phase_title(phase))
        axis.set_xlim(min(levels) - 0.3, max(levels) + 0.3)
        means = here["mean"].to_list()
        if spread(means):
            axis.set_yscale("log")
        else:
            axis.set_ylim(0, 1.25 * max(means))
        plain_numbers(axis.yaxis)
        if axis is axes[0]:
            axis.set_ylabel("documents per second")
    legend_outside(figure, axes, columns=4)
    if names:
        figure.suptitle(f"with {shared_setting(found, names)}", fontsize=9)
    return figure


def _line(axis: object, own: pd.DataFrame, marker: str, look: dict[str, str]) -> None:
    mean = own["mean"].to_numpy(dtype=float)
    errors = np.vstack([mean - own["low"], own["high"] - mean]).astype(float)
    axis.errorbar(  # type: ignore[attr-defined]
        own["nodes"],
        mean,
        yerr=np.nan_to_num(errors),
        capsize=3,
        elinewidth=1,
        marker=marker,
        **look,
    )
