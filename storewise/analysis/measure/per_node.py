"""Figures per server node: clients' operations by the node that owns the document, and host load.

Operations and latencies come from the clients' Hdr logs, whose intervals name the owner. The load
comes from the nodes' samplers, assigned to the same steps by Unix time. Steps with slowed or killed
nodes are marked.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from storewise.analysis.common.frames import key_of, records
from storewise.analysis.files.parts import Part, steps_of
from storewise.analysis.measure.latency import figures
from storewise.analysis.measure.reduction import STEP, Reduction
from storewise.analysis.measure.throughput import StepKey
from storewise.analysis.model.columns import ALL, OTHER, SLOWED
from storewise.analysis.model.results import Key, Results
from storewise.metrics.hdr import SparseHistogram, bucket_indexes
from storewise.metrics.outages import common, longest
from storewise.workloads.faults import OWN_FIELDS, Slow

#: Default of `limit_ms`, the service time above which operations are counted as `over_limit`.
LIMIT_MS = 5.0
#: Percentiles of a time, and its mean.
TIMES: Mapping[str, float | None] = {"mean": None, "p50": 50.0, "p95": 95.0, "p99": 99.0}
#: Metrics of a node's own processes and of its host: means over the step.
LOAD = (
    *("store_cpu", "cpu_user", "cpu_system", "cpu_iowait", "disk_read", "disk_write"),
    *("disk_busy", "network_received", "network_sent", "loopback"),
)
COLUMNS = [*STEP, "operation", "node", "host", "slowed", "slowed_nodes", "operations", "errors"]
COLUMNS += ["share", "operations_per_s"]
COLUMNS += [f"{time}_{name}" for time in ("service", "response") for name in TIMES]
COLUMNS += ["limit_ms", "over_limit", *LOAD]


def step_conditions(parts: Iterable[Part], samples: Reduction) -> pd.DataFrame:
    """The faults of each step: trial, phase, step, slow (in words, empty if none), slowed_nodes
    (their number), names (comma-separated), crash (whether a node was killed), limit_ms."""
    slowed = samples.table(
        "SELECT DISTINCT trial, phase, step, node FROM every_sample "
        "WHERE metric = 'slow_time' AND node IS NOT NULL"
    )
    nodes: dict[Any, list[str]] = slowed.groupby(STEP)["node"].unique().to_dict()
    rows = []
    for phase, steps in steps_of(parts).items():
        for number, step in enumerate(steps):
            names = sorted(nodes.get((*phase, number), ()))
            slow = _words(step["slow"]) if step.get("slow") and names else ""
            limit = float(step.get("limit_ms") or LIMIT_MS)
            crash = bool(step.get("crash"))
            rows.append((*phase, number, slow, len(names), ",".join(names), crash, limit))
    return pd.DataFrame(rows, columns=[*STEP, "slow", "slowed_nodes", "names", "crash", "limit_ms"])


def _words(slow: Mapping[str, Any]) -> str:
    """How nodes were slowed, in words. A stored step has defaults of the other ways, too."""
    known = {"how", *(name for name, how in OWN_FIELDS.items() if how == slow.get("how"))}
    try:
        return Slow.model_validate({k: v for k, v in slow.items() if k in known}).words()
    except ValueError:
        return str(slow.get("how", "unknown"))


def per_node(
    histograms: Mapping[Key, SparseHistogram],
    balance: pd.DataFrame,
    durations: pd.DataFrame,
    host: pd.DataFrame,
    nodes: pd.DataFrame,
    conditions: pd.DataFrame,
) -> pd.DataFrame:
    """One row per trial, phase, step, operation and owning node (COLUMNS).

    Times in s; `over_limit` is the share of operations whose service time was above `limit_ms`;
    `operations_per_s` over the step's wall time; LOAD are means over the step (`store_cpu` in
    cores, shares of the host's time in %, the others in B/s), the same for each operation of a
    node. `balance`, `host` and `nodes` are the tables of these names, `durations` has the wall
    time of each step (trial, phase, step, wall), `conditions` is `step_conditions`.
    """
    walls = {key_of(row, STEP): row["wall"] for row in records(durations)}
    of_step = {key_of(row, STEP): row for row in records(conditions)}
    hosts = dict(zip(map(tuple, nodes[["trial", "node"]].to_numpy()), nodes["host"], strict=True))
    means = host.set_index([*STEP, "host", "node", "metric"])["mean"].to_dict()
    rows = []
    for row in records(balance):
        step, node = key_of(row, STEP), row["node"]
        place, condition = hosts.get((row["trial"], node)), of_step.get(step, {})
        limit, wall = condition.get("limit_ms", LIMIT_MS), walls.get(step)
        row |= {
            "host": place,
            "slowed": condition["slow"] if node in condition.get("names", "").split(",") else "",
            "slowed_nodes": condition.get("slowed_nodes", 0),
            "operations_per_s": row["operations"] / wall if wall else None,
            "limit_ms": limit,
        }
        for time in ("service", "response"):
            histogram = histograms.get((*step, row["operation"], node, time), SparseHistogram())
            row |= {f"{time}_{name}": value for name, value in figures(histogram, TIMES).items()}
            if time == "service" and histogram.get_total_count():
                # As exact as the histogram: three digits.
                bucket = bucket_indexes(np.array([int(limit * 1e6)], dtype=np.int64))[0]
                row["over_limit"] = histogram.above(int(bucket)) / histogram.get_total_count()
        for metric in LOAD:
            at = node if metric == "store_cpu" else ""
            row[metric] = means.get((*step, place, at, metric))
        rows.append(row)
    return pd.DataFrame(rows, columns=COLUMNS)


def slowed_rates(measures: pd.DataFrame, results: Results) -> pd.DataFrame:
    """Rows of `measures` for phases with slowed nodes: each rate divided by the rate of the trial's
    first step without slowed nodes (SLOWED; 1 for that step). OTHER has their number and how they
    were slowed: ``1 slowed: cpu``."""
    conditions = results.measured.conditions
    rates = measures[(measures["measure"] == "operations_per_s") & (measures["operation"] == ALL)]
    # A target rate does not show what the slowed store could do.
    rates = rates[rates["rate"].isna()]
    rates = rates.merge(conditions[~conditions["crash"].astype(bool)], on=STEP)
    free = rates[rates["slowed_nodes"] == 0].drop_duplicates(["trial", "phase"])
    slowed = rates[rates["slowed_nodes"] > 0]
    free = free.merge(slowed[["trial", "phase"]].drop_duplicates())
    table = pd.concat([free, slowed]).merge(
        free[["trial", "phase", "value"]], on=["trial", "phase"], suffixes=("", "_free")
    )
    words = [
        f"{n} slowed: {how}" if n else "0 slowed"
        for n, how in zip(table["slowed_nodes"], table["slow"], strict=True)
    ]
    share = table["value"] / table["value_free"]
    table = table.assign(measure=SLOWED, value=share, unit="1", count=np.nan, **{OTHER: words})
    return table[list(measures)]


CRASH_COLUMNS = [*STEP, "node", "after", "recovery_time"]
CRASH_COLUMNS += ["unavailable_time", "unavailable_time_node", "errors", "lost_documents"]


def crashes(parts: Iterable[Part], samples: Reduction, checked: pd.DataFrame) -> pd.DataFrame:
    """One row per step in which a server was killed (CRASH_COLUMNS).

    `after` is when it was killed, in s from the step's start; `recovery_time` from then to its
    first answer; `unavailable_time` is the longest time without a success of any operation by any
    client, `unavailable_time_node` the same for the killed node's documents (missing if owners are
    unknown), both with a resolution of 5 ms, in the workers' synchronized clocks. `errors` counts
    the step's failed operations, `lost_documents` comes from the trial's verification.
    """
    crashes: dict[StepKey, list[tuple[Part, dict[str, Any]]]] = {}
    for part in parts:
        for crash in part.conditions.get("crashes") or ():
            key = (part.trial, part.phase, crash["step"])
            crashes.setdefault(key, []).append((part, crash))
    if not crashes:
        return pd.DataFrame(columns=CRASH_COLUMNS)
    whole = "FROM every_sample WHERE second IS NULL"
    started = samples.table(
        "SELECT trial, phase, step, worker, max(value) AS start "
        f"{whole} AND metric = 'started_at' AND worker IS NOT NULL GROUP BY ALL"
    )
    starts: dict[Any, float] = started.set_index([*STEP, "worker"])["start"].to_dict()
    of_steps = samples.table(
        "SELECT trial, phase, step, max(value) FILTER (metric = 'recovery_time') AS recovered, "
        f"sum(value) FILTER (metric = 'errors') AS failed {whole} GROUP BY ALL"
    ).set_index(STEP)
    recovered, failed = (of_steps[name].dropna().to_dict() for name in ("recovered", "failed"))
    # If one kind of document was not verified, the sum is unknown.
    lost = checked.groupby("trial")["lost"].agg(lambda lost: lost.sum(skipna=False)).to_dict()
    rows = []
    for step, of_workers in sorted(crashes.items()):
        node, after = of_workers[0][1]["node"], float(of_workers[0][1]["after"])
        times = [starts.get((*step, part.worker), np.nan) for part, _ in of_workers]
        zero = min((at for key, at in starts.items() if key[:3] == step), default=0.0)
        shifts = [0.0 if np.isnan(at) else at - zero for at in times]
        outages = [crash["outages"] for _, crash in of_workers]
        known = any(node in one for one in outages)
        of_node = longest(_common(outages, shifts, node), after) if known else None
        rows.append(
            (
                *step,
                node,
                after,
                recovered.get(step),
                longest(_common(outages, shifts, ""), after),
                of_node,
                failed.get(step, 0.0),
                lost.get(step[0]),
            )
        )
    return pd.DataFrame(rows, columns=CRASH_COLUMNS)


def _common(
    outages: Sequence[Mapping[str, Any]], shifts: Sequence[float], owner: str
) -> list[tuple[float, float]]:
    """The intervals in which all workers had an outage, on the first worker's time axis."""
    return common(
        [
            [(a + shift, b + shift) for a, b in one[owner]]
            for one, shift in zip(outages, shifts, strict=True)
            if owner in one
        ]
    )
