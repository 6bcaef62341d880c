"""The figures, one function each, from the analysis' tables.

Each function returns None where the tables have nothing to show (a single level has no scaling).
"""

from __future__ import annotations

import numpy as np
import pandas as pd
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from storewise.analysis.common.engines import BASELINE, CEILING, title, varying_factors
from storewise.analysis.common.frames import grouped, records
from storewise.analysis.common.text import setting
from storewise.analysis.judge.comparable_steps import WITH, closed_steps
from storewise.analysis.model.tables import Tables
from storewise.figures.selection import (
    MAX_PANELS,
    engines_in,
    lowest,
    phase_title,
    shared_setting,
    style_of,
)
from storewise.figures.style import (
    LINES,
    legend_outside,
    new_figure,
    plain_numbers,
    spread,
)


def throughput_by_engine(tables: Tables) -> Figure | None:
    """Throughput by engine and setting, a panel per phase, with 95 % intervals."""
    found = rates_shown(tables)
    phases = tables.phases_of(found)[:MAX_PANELS]
    if not phases:
        return None
    names = varying_factors(found, tables.results.factors)
    labels = [
        ", ".join(words for words in (setting(row, names), row[WITH]) if words)
        for row in records(found)
    ]
    found = found.assign(setting=labels)
    style = style_of(tables)
    engines = engines_in(found)
    # Not every engine has every factor: those of servers are not for embedded stores.
    settings = {
        engine: list(dict.fromkeys(found[found["engine"] == engine]["setting"]))
        for engine in engines
    }
    rows = max(2, sum(map(len, settings.values())))
    figure, axes = new_figure(1, len(phases), height=0.9 + 0.27 * rows + 0.3 * len(engines))
    for axis, phase in zip(axes, phases, strict=True):
        here = found[found["phase"] == phase]
        position, ticks = 0.0, []
        for engine in engines:
            own = here[here["engine"] == engine]
            start = position
            for name in settings[engine]:
                for row in records(own[own["setting"] == name]):
                    known = np.isfinite(row["low"]) and row["high"] > row["low"]
                    errors = (
                        [[row["mean"] - row["low"]], [row["high"] - row["mean"]]] if known else None
                    )
                    axis.errorbar(
                        row["mean"],
                        position,
                        xerr=errors,
                        fmt=style.marker(engine),
                        color=style.colour(engine),
                        capsize=3,
                        elinewidth=1.2,
                    )
                ticks.append((position, _row_name(engine, name, name == settings[engine][0])))
                position += 1
            axis.axhspan(start - 0.5, position - 0.5, color=style.colour(engine), alpha=0.06, lw=0)
            position += 0.35
        axis.set_yticks([t[0] for t in ticks], [t[1] for t in ticks])
        axis.grid(visible=False, axis="y")
        axis.invert_yaxis()
        axis.set_title(phase_title(phase))
        what = here["measure"].iloc[0].removesuffix("_per_s")
        narrow = len(phases) > 3
        label = f"{what}/s" if narrow else f"{what} per second"
        axis.set_xlabel(label)
        means = here["mean"].to_list()
        if spread(means):
            axis.set_xscale("log")
            axis.set_xlabel(f"{label} ({'log.' if narrow else 'logarithmic'})")
        else:
            top = np.nanmax([*means, *here["high"].fillna(0)])
            axis.set_xlim(0, min(float(top), 2.0 * max(means)) * 1.05)
            axis.xaxis.set_major_locator(MaxNLocator(2 if narrow else 4))
        plain_numbers(axis.xaxis)
        if axis is not axes[0]:
            axis.set_yticklabels([])
    return figure


def rates_shown(tables: Tables) -> pd.DataFrame:
    """Documents per second; of the phases of other workloads than the study's own, once they have
    loaded, operations per second. Steps at a target rate are left out: it was not the store that
    set it."""
    summary = tables.summary[tables.summary["mean"] > 0]
    loads = set(tables.summary.loc[tables.summary["measure"] == "insert_documents_per_s", "phase"])
    own = tables.results.study.get("workload", "alignments") != "alignments"
    kept = []
    for phase in tables.phases_of(summary):
        measure = "operations_per_s" if own and phase not in loads else "documents_per_s"
        rows = summary[(summary["phase"] == phase) & (summary["measure"] == measure)]
        if phase in loads:
            # The files themselves load nothing: what was timed there is parsing alone.
            rows = rows[rows["engine"] != BASELINE]
        kept.append(closed_steps(rows, tables.steps))
    kept = [rows for rows in kept if len(rows)]
    return pd.concat(kept, ignore_index=True) if kept else summary.iloc[:0]


def _row_name(engine: str, name: str, first: bool) -> str:
    if not name:
        return title(engine)
    return f"{title(engine)}, {name}" if first else name


def operations_over_time(tables: Tables) -> Figure | None:
    """Operations per second over time, a panel per phase, one line per engine and setting.

    Lines are means over repeats; warm-up is shaded.
    """
    series = tables.series.merge(tables.trials[["trial", *tables.results.factors]], on="trial")
    # Too short a last second would give a wild rate.
    series = series[(series["length"] >= 0.2) | (series["second"] == 0)]
    if series.empty:
        return None
    phases = tables.phases_of(series)[:MAX_PANELS]
    names = varying_factors(series, tables.results.factors)
    style = style_of(tables)
    figure, axes = new_figure(len(phases), 1, height=2.9)
    for axis, phase in zip(axes, phases, strict=True):
        here = series[series["phase"] == phase]
        kinds = sorted(
            {setting(row, names) for row in records(here.drop_duplicates(names or None))}
        )
        highest: list[float] = []
        warm_until = 0
        for engine in engines_in(here):
            own = here[here["engine"] == engine]
            for _, group in grouped(own, [*names, "step"]):
                name = setting(records(group)[0], names)
                mean = group.groupby("second")["operations_per_s"].mean()
                warm = group.groupby("second")["warmup"].max()
                highest += mean.to_list()
                label = f"{title(engine)}, {name}" if name else title(engine)
                line = LINES[kinds.index(name) % len(LINES)]
                options = {"color": style.colour(engine), "marker": style.marker(engine)}
                axis.plot(
                    mean.index + 0.5,
                    mean,
                    line,
                    label=label,
                    markevery=max(1, len(mean) // 12),
                    **options,
                )
                if warm.any():
                    warm_until = max(warm_until, int(mean[warm.astype(bool)].index.max()) + 1)
        if warm_until:
            axis.axvspan(0, warm_until, color="#000000", alpha=0.08, lw=0)
        axis.set_title(phase_title(phase))
        axis.set_ylabel("operations per second")
        axis.set_xlabel("seconds since the start of the phase")
        axis.set_xlim(0, float(here["second"].max()) + 1.05)
        axis.xaxis.set_major_locator(MaxNLocator(10, integer=True))
        if spread(highest):
            axis.set_yscale("log")
        else:
            axis.set_ylim(bottom=0)
        plain_numbers(axis.yaxis)
    legend_outside(figure, axes, columns=3)
    return figure


def latency_percentiles(tables: Tables) -> Figure | None:
    """Service time percentiles by engine at the lowest setting, a panel per phase's operation."""
    found = tables.latency_summary
    found = found[(found["time"] == "service") & (found["operation"] != "finish")]
    if found.empty:
        return None
    names = varying_factors(found, tables.results.factors)
    found = lowest(found, names)
    order = tables.phases_of(found)
    pairs = set(zip(found["phase"], found["operation"], strict=True))
    panels = sorted(pairs, key=lambda pair: (order.index(pair[0]), pair[1]))[:MAX_PANELS]
    style = style_of(tables)
    figure, axes = new_figure(1, len(panels), height=3.5, sharey=False)
    for axis, (phase, operation) in zip(axes, panels, strict=False):
        here = found[(found["phase"] == phase) & (found["operation"] == operation)]
        order = list(dict.fromkeys(here["percentile"]))
        for engine in engines_in(here):
            own = here[(here["engine"] == engine)].groupby("percentile")["value"].max()
            axis.plot(
                range(len(order)),
                [own[p] * 1e3 for p in order],
                color=style.colour(engine),
                marker=style.marker(engine),
                label=title(engine),
            )
        axis.set_xticks(range(len(order)), order)
        axis.set_yscale("log")
        plain_numbers(axis.yaxis)
        axis.set_title(f"{phase}: one {operation}")
        axis.set_xlabel("percentile")
        axis.set_ylabel("service time in ms (logarithmic)" if axis is axes[0] else "")
    legend_outside(figure, axes)
    if names:
        figure.suptitle(f"with {shared_setting(found, names)}", fontsize=9)
    return figure


def storage_per_document(tables: Tables) -> Figure | None:
    """Bytes on disk per document by engine, against what the inputs take as they lie on disk."""
    found = tables.storage_summary
    found = found[(found["measure"] == "bytes_per_document") & (found["mean"] > 0)]
    if found.empty:
        return None
    found = found[found["engine"] != CEILING]
    names = varying_factors(found, tables.results.factors)
    found = found.sort_values(["engine", *names])
    style = style_of(tables)
    figure, (axis,) = new_figure(height=1.1 + 0.34 * len(found))
    labels = []
    for place, row in enumerate(records(found)):
        known = np.isfinite(row["low"]) and row["high"] > row["low"]
        errors = [[row["mean"] - row["low"]], [row["high"] - row["mean"]]] if known else None
        axis.barh(
            place,
            row["mean"],
            height=0.7,
            color=style.colour(row["engine"]),
            edgecolor="white",
            hatch=style.hatch(row["engine"]),
            xerr=errors,
            capsize=3,
        )
        axis.annotate(
            f"{row['mean']:.0f}",
            (row["high"] if known else row["mean"], place),
            xytext=(5, 0),
            textcoords="offset points",
            va="center",
        )
        name = setting(row, names)
        labels.append(f"{title(row['engine'])}, {name}" if name else title(row["engine"]))
    inputs = tables.results.inputs
    if inputs is not None and inputs.documents:
        share = inputs.bytes / inputs.documents
        axis.axvline(share, color="#000000", ls="--", lw=1.2, label="inputs as they lie on disk")
    axis.set_yticks(range(len(labels)), labels)
    axis.invert_yaxis()
    axis.grid(visible=False, axis="y")
    axis.set_xlabel("bytes on disk per document")
    axis.margins(x=0.1)
    legend_outside(figure, [axis])
    return figure
