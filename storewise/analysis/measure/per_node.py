"""Nodes that differ: what clients saw of each owner of documents, and what its host did meanwhile.

Operations and times come from the clients' Hdr logs, whose intervals carry the owner; the nodes'
own figures from their samplers, given to the same steps by Unix time (`nodes.node_samples`), so
that both are about the same time. A step in which nodes were slowed, or one was killed, says so.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from storewise.analysis.common.frames import grouped, missing, records
from storewise.analysis.files.parts import Part
from storewise.analysis.measure.latency import NS
from storewise.analysis.measure.repeats import over_repeats
from storewise.analysis.measure.throughput import STEP
from storewise.analysis.model.results import OwnerKey, Results
from storewise.metrics.hdr import bucket_indexes, percentiles
from storewise.metrics.outages import common, longest
from storewise.metrics.sparse_histogram import Counted
from storewise.workloads.faults import OWN_FIELDS, Slow

#: Share of operations beyond this, ms, where a phase names no `limit_ms`.
LIMIT_MS = 5.0
PERCENTILES = {"p50": 50.0, "p95": 95.0, "p99": 99.0}
TIMES = [f"{time}_{p}" for time in ("service", "response") for p in ("mean", *PERCENTILES)]
#: Of a node's own processes and of its host: means over the step.
LOAD = (
    "store_cpu",
    "cpu_user",
    "cpu_system",
    "cpu_iowait",
    "disk_read",
    "disk_write",
    "disk_busy",
    "network_received",
    "network_sent",
    "loopback",
)
COLUMNS = [
    *STEP,
    "operation",
    "node",
    "host",
    "slowed",
    "slowed_nodes",
    "operations",
    "errors",
    "share",
    "operations_per_s",
    *TIMES,
    "limit_ms",
    "over_limit",
    *LOAD,
]


def step_conditions(parts: Iterable[Part], samples: pd.DataFrame) -> pd.DataFrame:
    """What was done to nodes in each step: trial, phase, step, slow (in words, empty for none),
    slowed_nodes (their number), names (with commas), crash (whether one was killed), limit_ms."""
    rows = []
    seen = set()
    slowed = _slowed(samples)
    for part in parts:
        steps = part.conditions.get("steps")
        key = (part.trial, part.phase)
        if part.worker is None or not isinstance(steps, list) or key in seen:
            continue
        seen.add(key)
        for number, step in enumerate(steps):
            names = sorted(slowed.get((*key, number), ()))
            slow = step.get("slow")
            rows.append(
                {
                    "trial": part.trial,
                    "phase": part.phase,
                    "step": number,
                    "slow": _words(slow) if slow and names else "",
                    "slowed_nodes": len(names),
                    "names": ",".join(names),
                    "crash": bool(step.get("crash")),
                    "limit_ms": float(step.get("limit_ms") or LIMIT_MS),
                }
            )
    columns = [*STEP, "slow", "slowed_nodes", "names", "crash", "limit_ms"]
    return pd.DataFrame(rows, columns=columns)


def _words(slow: Mapping[str, Any]) -> str:
    """Of a stored step, which has the defaults of other ways of slowing too."""
    known = {"how", *(name for name, how in OWN_FIELDS.items() if how == slow.get("how"))}
    try:
        return Slow.model_validate({k: v for k, v in slow.items() if k in known}).words()
    except ValueError:
        return str(slow.get("how", "unknown"))


def _slowed(samples: pd.DataFrame) -> dict[tuple[str, str, int], set[str]]:
    """Nodes that were slowed, by trial, phase and step."""
    rows = samples[(samples["metric"] == "slow_time") & samples["node"].notna()]
    found: dict[tuple[str, str, int], set[str]] = {}
    for row in records(rows[[*STEP, "node"]]):
        key = (str(row["trial"]), str(row["phase"]), int(row["step"]))
        found.setdefault(key, set()).add(str(row["node"]))
    return found


def per_node(
    histograms: Mapping[OwnerKey, Counted],
    balance: pd.DataFrame,
    durations: pd.DataFrame,
    host: pd.DataFrame,
    nodes: pd.DataFrame,
    told: pd.DataFrame,
) -> pd.DataFrame:
    """One row per trial, phase, step, operation and owning node (COLUMNS).

    Times in s; `over_limit` is the share of operations whose service time was above `limit_ms`;
    `operations_per_s` over the step's wall time; LOAD are means over the step (`store_cpu` in
    cores, shares of the host's time in %, the others in B/s), the same for each operation of a
    node. `balance`, `host` and `nodes` are the tables of these names, `durations` has the wall
    time of each step (trial, phase, step, wall), `told` is `step_conditions`.
    """
    if balance.empty:
        return pd.DataFrame(columns=COLUMNS)
    walls = _by_step(durations)
    conditions = _by_step(told)
    places = {(r["trial"], r["node"]): r["host"] for r in records(nodes)}
    means = {
        (r["trial"], r["phase"], r["step"], r["host"], r["node"], r["metric"]): r["mean"]
        for r in records(host)
    }
    rows = []
    for row in records(balance):
        step = (row["trial"], row["phase"], row["step"])
        node, place = row["node"], places.get((row["trial"], row["node"]))
        condition = conditions.get(step, {})
        limit = condition.get("limit_ms", LIMIT_MS)
        slowed = node in str(condition.get("names", "")).split(",")
        found = {
            **{k: row[k] for k in [*STEP, "operation", "node", "operations", "errors", "share"]},
            "host": place,
            "slowed": condition["slow"] if slowed else "",
            "slowed_nodes": condition.get("slowed_nodes", 0),
            "operations_per_s": _ratio(row["operations"], walls.get(step, {}).get("wall")),
            "limit_ms": limit,
        }
        for time in ("service", "response"):
            histogram = histograms.get((*step, row["operation"], node, time))
            if histogram is None or not histogram.get_total_count():
                continue
            values = percentiles(histogram, list(PERCENTILES.values()))
            found |= {f"{time}_{name}": values[p] / NS for name, p in PERCENTILES.items()}
            found[f"{time}_mean"] = histogram.get_mean_value() / NS
            if time == "service":
                found["over_limit"] = share_over(histogram, limit)
        for metric in LOAD:
            own = node if metric == "store_cpu" else ""
            found[metric] = means.get((*step, place, own, metric))
        rows.append(found)
    return pd.DataFrame(rows, columns=COLUMNS)


def share_over(histogram: Counted, limit_ms: float) -> float:
    """Share of a histogram's values above a limit, to its three digits."""
    index = int(bucket_indexes(np.array([int(limit_ms * 1e6)], dtype=np.int64))[0])
    return histogram.above(index) / histogram.get_total_count()


def _ratio(value: float, by: Any) -> float | None:
    return None if missing(by) or not by else float(value) / float(by)


def _by_step(table: pd.DataFrame) -> dict[tuple[Any, ...], dict[str, Any]]:
    return {(str(r["trial"]), str(r["phase"]), r["step"]): r for r in records(table)}


def slowdown(throughput: pd.DataFrame, told: pd.DataFrame, results: Results) -> pd.DataFrame:
    """Throughput with 0, 1, 2 ... slowed nodes, over repeats, of phases in which any was slowed.

    Columns: factors, phase, step, slow, slowed_nodes, unit, n, mean, low, high, resampled,
    relative (to the mean without slowed nodes of the same factors' levels and phase).
    """
    factors = list(results.factors)
    columns = [*factors, "phase", "step", "slow", "slowed_nodes"]
    columns += ["unit", "n", "mean", "low", "high", "resampled", "relative"]
    slowed = told[told["slowed_nodes"] > 0]
    phases = {(r["trial"], r["phase"]) for r in records(slowed)}
    rates = throughput[throughput["measure"] == "operations_per_s"]
    rates = rates.merge(told[~told["crash"].astype(bool)], on=STEP)
    rates = rates[[(r["trial"], r["phase"]) in phases for r in records(rates)]]
    if rates.empty:
        return pd.DataFrame(columns=columns)
    keys = ["phase", "step", "slow", "slowed_nodes", "measure"]
    found = over_repeats(rates, results, keys)
    found["relative"] = np.nan
    for _, group in grouped(found, [*factors, "phase"]):
        free = group[group["slowed_nodes"] == 0]["mean"]
        if len(free):
            found.loc[group.index, "relative"] = group["mean"] / float(free.mean())
    return found.reindex(columns=columns)


CRASH_COLUMNS = [
    *STEP,
    "node",
    "after",
    "recovery_time",
    "unavailable_time",
    "unavailable_time_node",
    "errors",
    "lost_documents",
]


def crashes(parts: Iterable[Part], samples: pd.DataFrame, checked: pd.DataFrame) -> pd.DataFrame:
    """One row per step in which a server was killed (CRASH_COLUMNS).

    `after` is when it was killed, in s from the step's start; `recovery_time` from then to its
    first answer; `unavailable_time` is the longest time without a success of any operation by any
    client, `unavailable_time_node` of operations on the killed node's documents (missing where
    owners are not known). It is taken to 5 ms, common to all workers by their clocks. `errors` are
    failed operations of the step, `lost_documents` those of the whole trial's verification.
    """
    starts = _single(samples, "started_at")
    recovered = _single(samples, "recovery_time")
    lost: dict[str, float] = {}
    for row in records(checked):
        lost[str(row["trial"])] = lost.get(str(row["trial"]), 0.0) + float(row["lost"])
    failed = _errors(samples)
    found: dict[tuple[str, str, int], list[tuple[Part, dict[str, Any]]]] = {}
    for part in parts:
        for one in part.conditions.get("crashes") or ():
            found.setdefault((part.trial, part.phase, one["step"]), []).append((part, one))
    rows = []
    for (trial, phase, step), told in sorted(found.items()):
        node, after = told[0][1]["node"], float(told[0][1]["after"])
        times = starts.get((trial, phase, step), {})
        zero = min(times.values(), default=0.0)
        shifts = [times.get(part.worker, zero) - zero for part, _ in told]
        seen = [one["outages"] for _, one in told]
        rows.append(
            {
                "trial": trial,
                "phase": phase,
                "step": step,
                "node": node,
                "after": after,
                "recovery_time": next(iter(recovered.get((trial, phase, step), {}).values()), None),
                "unavailable_time": longest(_common(seen, shifts, ""), after),
                "unavailable_time_node": longest(_common(seen, shifts, node), after)
                if any(node in one for one in seen)
                else None,
                "errors": failed.get((trial, phase, step), 0.0),
                "lost_documents": lost.get(trial),
            }
        )
    return pd.DataFrame(rows, columns=CRASH_COLUMNS)


def _common(
    seen: Sequence[Mapping[str, Any]], shifts: Sequence[float], owner: str
) -> list[tuple[float, float]]:
    """Outages that all workers saw, each shifted to the first one's start."""
    return common(
        [
            [(a + shift, b + shift) for a, b in one[owner]]
            for one, shift in zip(seen, shifts, strict=True)
            if owner in one
        ]
    )


def _single(samples: pd.DataFrame, metric: str) -> dict[tuple[str, str, int], dict[Any, float]]:
    """Values of a metric over a whole step by trial, phase, step and worker (or None)."""
    rows = samples[(samples["metric"] == metric) & samples["second"].isna()]
    found: dict[tuple[str, str, int], dict[Any, float]] = {}
    for row in records(rows[[*STEP, "worker", "value"]]):
        key = (str(row["trial"]), str(row["phase"]), int(row["step"]))
        worker = None if missing(row["worker"]) else int(row["worker"])
        found.setdefault(key, {})[worker] = float(row["value"])
    return found


def _errors(samples: pd.DataFrame) -> dict[tuple[str, str, int], float]:
    rows = samples[(samples["metric"] == "errors") & samples["second"].isna()]
    found: dict[tuple[str, str, int], float] = {}
    for row in records(rows[[*STEP, "value"]]):
        key = (str(row["trial"]), str(row["phase"]), int(row["step"]))
        found[key] = found.get(key, 0.0) + float(row["value"])
    return found
