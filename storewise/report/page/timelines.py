"""What one trial did over time: operations, processors, disk and network of each host.

A study of many long trials has more seconds than a page can hold: where they are too many, seconds
are joined to longer spans, each shown by its mean, and the page says so.
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
#: Columns of `cpu` that are shown, with what makes each.
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


def span(tables: Tables) -> int:
    """Seconds that are joined, 1 where all can be shown."""
    longest = max((_last(t) for t in (tables.series, tables.cpu)), default=0)
    values = len(tables.series) + len(METRICS) * _kept(tables.cpu)
    return max(1, -(-longest // MOST_POINTS), math.ceil(values / MOST_VALUES))


def _kept(cpu: pd.DataFrame) -> float:
    """Rows that are shown: of too many hosts only two curves are."""
    if cpu.empty:
        return 0
    groups = cpu.groupby(_STEP, observed=True)["host"].agg(["size", "nunique"])
    rows, hosts = groups["size"], groups["nunique"]
    return float(rows.where(hosts <= MOST_HOSTS, 2 * rows / hosts).sum())


def _last(table: pd.DataFrame) -> int:
    return int(table["second"].max()) + 1 if len(table) else 0


def timelines(tables: Tables) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """(the trials with what they are called, their data), in the order of `trials`; phases shorter
    than LEAST_SECONDS are no lines and left out.

    Data: "parts", one per phase and step, with "x0" and "dx" of all curves in s, "operations" per
    second, "warm" (seconds of warm-up) and "hosts": host -> metric of METRICS -> values.
    """
    joined = span(tables)
    series = dict(grouped(tables.series, _STEP))
    hosts = dict(grouped(_shown(tables.cpu), _STEP))
    by_trial: dict[str, list[tuple[Any, ...]]] = {}
    for key in dict.fromkeys([*series, *hosts]):
        by_trial.setdefault(str(key[0]), []).append(key)
    order = {phase: place for place, phase in enumerate(tables.phases_of(tables.series))}
    factors = [f for f in tables.results.factors if f != "engine"]
    shown = [f for f in factors if len(tables.trials) and tables.trials[f].nunique() > 1]
    names, data = [], []
    for row in records(tables.trials):
        keys = [
            key
            for key in by_trial.get(str(row["trial"]), [])
            if max(_last(one[key]) for one in (series, hosts) if key in one) >= LEAST_SECONDS
        ]
        if not keys:
            continue
        keys.sort(key=lambda k: (order.get(k[1], 99), k[2]))
        words = ", ".join(filter(None, (title(str(row["engine"])), setting(row, shown))))
        name = f"{words}, repeat {row['repeat']}"
        colour = page_colour(str(row["engine"]))
        names.append({"id": row["trial"], "name": name, "colour": colour})
        data.append({"parts": [_part(k, series.get(k), hosts.get(k), joined) for k in keys]})
    return names, data


def _shown(cpu: pd.DataFrame) -> pd.DataFrame:
    """One column per metric of METRICS; what was not measured stays empty."""
    made = {n: cpu[list(c)].sum(axis=1, min_count=1) for n, c in METRICS.items()}
    return cpu[[*_STEP, "host", "second"]].assign(**made)


def _part(
    key: tuple[Any, ...], series: pd.DataFrame | None, hosts: pd.DataFrame | None, joined: int
) -> dict[str, Any]:
    part: dict[str, Any] = {"phase": key[1], "step": key[2], "dx": joined, "x0": joined / 2}
    if series is not None:
        kept = series[(series["length"] >= 0.2) | (series["second"] == 0)]
        part["operations"] = _curve(
            kept.groupby(kept["second"] // joined)["operations_per_s"].mean()
        )
        part["warm"] = int(series["warmup"].sum())
    part["hosts"] = _hosts(hosts, joined) if hosts is not None else {}
    return part


def _hosts(group: pd.DataFrame, joined: int) -> dict[str, dict[str, list[float]]]:
    """The curves of hosts, or of more than MOST_HOSTS their mean and the highest."""
    means = group.groupby(["host", group["second"] // joined], observed=True)[list(METRICS)].mean()
    by_host: dict[str, dict[str, list[float]]] = {}
    for metric in METRICS:
        curves = means[metric].unstack("host").dropna(axis=1, how="all")
        if (n := curves.shape[1]) > MOST_HOSTS:
            both = {"mean": curves.mean(axis=1), "highest": curves.max(axis=1)}
            curves = pd.DataFrame({f"{name} of {n} hosts": one for name, one in both.items()})
        for name in curves:
            by_host.setdefault(str(name), {})[metric] = _curve(curves[name])
    return by_host


def _curve(means: pd.Series) -> list[float]:
    """Four digits are more than a screen shows; what is missing at the end is left away."""
    known = means.dropna()
    values = means.reindex(range(int(known.index.max()) + 1)) if len(known) else known
    return [float(f"{value:.4g}") for value in values]
