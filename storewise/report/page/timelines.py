"""Timelines of trials: operations, and processors, disk and network of each host.

A study of many long trials has more seconds than a page can hold: then seconds are aggregated to
longer intervals, each shown by its mean, and the page says so.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import pandas as pd

from storewise.analysis.common.engines import title
from storewise.analysis.common.frames import grouped, records
from storewise.analysis.common.text import setting
from storewise.analysis.model.tables import Tables
from storewise.figures.hosts import LEAST_SECONDS
from storewise.figures.style import page_colour

#: Most values of all timelines of a page, and most points of one curve.
MOST_VALUES = 1_500_000
MOST_POINTS = 1_200
#: Hosts beyond these are shown by their mean and the highest of them.
MOST_HOSTS = 12
#: Curves of a host, with the columns of `cpu` that make each.
METRICS: Mapping[str, tuple[str, ...]] = {
    "cpu": ("user", "system", "steal"),
    "iowait": ("iowait",),
    "disk_busy": ("disk_busy",),
    "disk_read": ("disk_read",),
    "disk_write": ("disk_write",),
    "received": ("network_received",),
    "sent": ("network_sent",),
}
_STEP = ["trial", "phase", "step"]


def timelines(tables: Tables) -> tuple[int, list[dict[str, Any]], list[dict[str, Any]]]:
    """(Seconds that are joined, the trials with what they are called, their data), in the order of
    `trials`; phases shorter than LEAST_SECONDS are no lines and left out.

    Data: "parts", one per phase and step, with "x0" and "dx" of all curves in s, "operations" per
    second, "warm" (seconds of warm-up) and "hosts": host -> metric of METRICS -> values.
    """
    series, cpu = tables.series, _curves(tables.cpu)
    longest = max(series["second"].max(), cpu["second"].max()) if len(series) else 0
    values = len(series) + len(METRICS) * len(cpu)
    joined = max(1, math.ceil(longest / MOST_POINTS), math.ceil(values / MOST_VALUES))
    hosts = dict(grouped(cpu, _STEP))
    order = {phase: place for place, phase in enumerate(tables.phases_of(series))}
    by_trial: dict[str, list[tuple[int, int, dict[str, Any]]]] = {}
    for (trial, phase, step), rows in grouped(series, _STEP):
        of_hosts = hosts.get((trial, phase, step), cpu.iloc[:0])
        if max(rows["second"].max(), of_hosts["second"].max()) + 1 >= LEAST_SECONDS:
            part = {"phase": phase, "step": step, **_part(rows, of_hosts, joined)}
            by_trial.setdefault(str(trial), []).append((order[phase], step, part))
    factors = [f for f in tables.results.factors if f != "engine"]
    shown = [f for f in factors if len(tables.trials) and tables.trials[f].nunique() > 1]
    names, data = [], []
    for row in records(tables.trials):
        if parts := by_trial.get(str(row["trial"])):
            words = ", ".join(filter(None, (title(str(row["engine"])), setting(row, shown))))
            name = f"{words}, repeat {row['repeat']}"
            colour = page_colour(str(row["engine"]))
            names.append({"id": row["trial"], "name": name, "colour": colour})
            data.append({"parts": [part for *_, part in sorted(parts, key=lambda one: one[:2])]})
    return joined, names, data


def _curves(cpu: pd.DataFrame) -> pd.DataFrame:
    """A column per metric of METRICS, empty where not measured. Of the hosts of a step that has
    more than MOST_HOSTS two are left: their mean and the highest."""
    made = {n: cpu[list(c)].sum(axis=1, min_count=1) for n, c in METRICS.items()}
    curves = cpu[[*_STEP, "host", "second"]].astype({"host": str}).assign(**made)
    hosts = curves.groupby(_STEP, observed=True)["host"].transform("nunique")
    many = curves[hosts > MOST_HOSTS].groupby([*_STEP, "second"], observed=True)[list(METRICS)]
    both = {"mean": many.mean(), "highest": many.max()}
    joined = [one.reset_index().assign(host=f"{name} of all hosts") for name, one in both.items()]
    return pd.concat([curves[hosts <= MOST_HOSTS], *joined])


def _part(rows: pd.DataFrame, hosts: pd.DataFrame, joined: int) -> dict[str, Any]:
    kept = rows[(rows["length"] >= 0.2) | (rows["second"] == 0)]
    rates = kept.groupby(kept["second"] // joined)["operations_per_s"].mean()
    means = hosts.groupby(["host", hosts["second"] // joined])[list(METRICS)].mean()
    curves = {
        host: {name: _curve(one[name].droplevel(0)) for name in METRICS if one[name].notna().any()}
        for host, one in means.groupby(level=0)
    }
    of_step = {"dx": joined, "x0": joined / 2, "warm": int(rows["warmup"].sum())}
    return {**of_step, "operations": _curve(rates), "hosts": curves}


def _curve(means: pd.Series) -> list[float]:
    """The values with four digits, without missing values at the end."""
    known = means.dropna()
    values = means.reindex(range(int(known.index.max()) + 1)) if len(known) else known
    return [float(f"{value:.4g}") for value in values]
