"""Operations and documents per second, per trial and over repeats.

Definitions (the usual ones of closed-loop load generators, such as YCSB, Cooper et al., SoCC 2010,
section 4, with start and end cut off):

- A phase's *wall time* is that of its slowest worker; all start together at a barrier.
- A phase that loads does a fixed amount of work, so its rate is all its documents over the wall
  time, parsing and the final flush included. ``insert_documents_per_s`` leaves parsing out: the
  sum over processes of documents / (time in the store's calls / threads).
- Any other phase is judged by its *steady part*: the whole seconds after warm-up in which every
  worker was active, without the first one, if the phase took at least 5 s and ten operations ended
  in that part; else by the whole time after warm-up (the warning ``short_phase`` names phases under
  5 s), or by the whole phase if no operation ended after warm-up.

Counts of workers, processes and threads are summed; seconds in which nothing finished count as 0.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd

from storewise.analysis.common.frames import grouped, keys_of, numbered, records, rows_of
from storewise.analysis.common.warnings import StudyWarning

#: A phase that is at least so long (s) has a steady part.
MIN_STEADY_SECONDS = 5.0
#: At least so many operations must end in it: the last of few slow ones ends after it.
MIN_STEADY_OPERATIONS = 10
STEP = ["trial", "phase", "step"]
#: Values of STEP.
StepKey = tuple[str, str, int]
#: The operation of a load, and the one that ends it.
INSERT = "insert"
FINISH = "finish"

UNITS = {
    "documents_per_s": "documents/s",
    "operations_per_s": "operations/s",
    "insert_documents_per_s": "documents/s",
    "parse_share": "1",
    "client_share": "1",
    "errors": "1",
    "duration": "s",
}


def counters(samples: pd.DataFrame, metric: str, *, per_second: bool) -> pd.DataFrame:
    """Rows of one counter, either the ones per second or the totals over the step.

    Where a worker reports its processes apart, its own sums are left out, so that each count is
    there once. Totals are made from the seconds where a step has none.
    """
    rows = samples[(samples["metric"] == metric) & samples["operation"].notna()]
    timed = rows["second"].notna().to_numpy()
    rows = rows[timed] if per_second else rows[~timed | ~numbered(rows, STEP).any(~timed)]
    return without_sums(rows, [*STEP, "worker"])


def without_sums(rows: pd.DataFrame, keys: list[str]) -> pd.DataFrame:
    """Counts without a worker's own where some with equal `keys` are of its processes."""
    apart = rows["process"].notna().to_numpy()
    if apart.any() and not apart.all():
        rows = rows[apart | ~numbered(rows, keys).any(apart)]
    return rows


def loading(samples: pd.DataFrame) -> set[tuple[str, str]]:
    """(trial, phase) of the phases that loaded the stores.

    The driver says it of each (`acknowledged`); where it did not, a phase that inserts and does
    nothing else is taken for one.
    """
    phase = ["trial", "phase"]
    loads = samples.loc[samples["metric"] == "acknowledged", phase].drop_duplicates()
    phases = {(str(t), str(p)) for t, p in loads.itertuples(index=False)}
    trials = {trial for trial, _ in phases}
    named = samples.loc[samples["operation"].notna(), [*phase, "operation"]].drop_duplicates()
    for (trial, name), group in grouped(named, phase):
        operations = set(group["operation"])
        if trial not in trials and INSERT in operations and operations <= {INSERT, FINISH}:
            phases.add((str(trial), str(name)))
    return phases


def durations(samples: pd.DataFrame) -> pd.DataFrame:
    """Wall time and the shortest worker's time of each step, in s: trial, phase, step, wall, all.

    A worker's time is that of its slowest process.
    """
    rows = samples[(samples["metric"] == "duration") & samples["operation"].isna()]
    workers = numbered(rows, [*STEP, "worker"])
    longest = workers.highest(rows["value"])
    steps = numbered(rows, STEP)
    shortest = np.full(steps.groups, np.inf)
    np.minimum.at(shortest, steps.number[workers.first], longest)
    return keys_of(rows, STEP, steps.first).assign(wall=steps.highest(rows["value"]), all=shortest)


def by_operation(counts: pd.DataFrame) -> dict[StepKey, dict[str, float]]:
    """Sums of `counters` by trial, phase and step, within these by operation."""
    groups = numbered(counts, [*STEP, "operation"])
    keys = keys_of(counts, [*STEP, "operation"], groups.first).itertuples(index=False, name=None)
    sums: dict[StepKey, dict[str, float]] = {}
    for (*step, operation), total in zip(keys, groups.sums(counts["value"]), strict=True):
        sums.setdefault((step[0], step[1], step[2]), {})[operation] = float(total)
    return sums


def series(samples: pd.DataFrame) -> pd.DataFrame:
    """What happened in each second of each step, workers summed.

    Columns: trial, phase, step, second, length (s of it that lie within the step), operations,
    documents, errors (counts), operations_per_s, documents_per_s, warmup, steady.
    """
    steps = durations(samples)
    keys = {_key(row): place for place, row in enumerate(rows_of(steps))}
    wall = steps["wall"].to_numpy(dtype=float)
    whole = np.maximum(1, np.ceil(wall - 1e-9)).astype(np.int64)
    start = np.cumsum(whole) - whole
    step = np.repeat(np.arange(len(steps)), whole)
    second = np.arange(len(step)) - start[step]
    table = steps[STEP].astype({"trial": str, "phase": str}).iloc[step].reset_index(drop=True)
    table["second"] = second
    table["length"] = np.clip(wall[step] - second, 1e-9, 1.0)
    first = np.zeros(len(steps), dtype=np.int64)
    for metric in ("operations", "documents", "errors"):
        rows = counters(samples, metric, per_second=True)
        groups = numbered(rows, STEP)
        places = [keys.get(_key(row), -1) for row in rows_of(keys_of(rows, STEP, groups.first))]
        of_row = np.array(places, dtype=np.int64)[groups.number]
        when = rows["second"].to_numpy(dtype=np.int64)
        if metric == "operations":
            warm = rows["warmup"].to_numpy(dtype=bool) & (of_row >= 0)
            np.maximum.at(first, of_row[warm], when[warm] + 1)
        within = (of_row >= 0) & (when >= 0)
        within[within] = when[within] < whole[of_row[within]]
        at, values = start[of_row[within]] + when[within], rows["value"].to_numpy(dtype=float)
        table[metric] = np.bincount(at, values[within], len(table)).astype(float)
    for metric in ("operations", "documents"):
        table[f"{metric}_per_s"] = table[metric] / table["length"]
    table["warmup"] = second < first[step]
    last = np.floor(steps["all"].to_numpy(dtype=float) + 1e-9)
    steady = (second >= np.maximum(first, 1)[step]) & (second < last[step])
    steady &= (wall >= MIN_STEADY_SECONDS)[step]
    ended = np.bincount(step[steady], table["operations"].to_numpy()[steady], len(steps))
    table["steady"] = steady & (ended >= MIN_STEADY_OPERATIONS)[step]
    return table


def _key(row: Any) -> StepKey:
    return str(row.trial), str(row.phase), int(row.step)


def throughput(
    samples: pd.DataFrame,
    by_second: pd.DataFrame,
    *,
    threads: Mapping[tuple[str, str], int] | None = None,
    processes: Mapping[str, int] | None = None,
) -> pd.DataFrame:
    """One row per trial, phase, step and measure: value, unit, part ("steady" or "whole"), wall.

    `samples` must hold whole phases only, `by_second` is `series` of them. `threads` are the
    client threads of a process by trial and loading phase, `processes` those of a worker by
    trial; both are 1 where nothing is said.
    """
    metrics = ("operations", "documents", "errors", "service_time_sum", "prepare_time_sum")
    totals = {
        metric: by_operation(counters(samples, metric, per_second=False)) for metric in metrics
    }
    insert_rates = _insert_rates(samples, threads or {}, processes or {})
    steady, warm = (parts_of(by_second, word) for word in ("steady", "warmup"))
    loads = loading(samples)
    rows: list[dict[str, object]] = []
    for step in rows_of(durations(samples)):
        key, wall = _key(step), float(step.wall)
        operations = totals["operations"].get(key, {})
        total = {metric: sum(values.get(key, {}).values()) for metric, values in totals.items()}
        values = {"errors": total["errors"], "duration": wall}
        part = "whole"
        between = total["prepare_time_sum"]
        share = between / (between + total["service_time_sum"]) if between else 0.0
        if key[:2] in loads and INSERT in operations:
            values["documents_per_s"] = total["documents"] / wall
            values["operations_per_s"] = operations[INSERT] / wall
            values["parse_share"] = share
            if key in insert_rates:
                values["insert_documents_per_s"] = insert_rates[key]
        else:
            part = "steady" if steady[key]["seconds"] else "whole"
            if part == "steady":  # in a short step it says how long the first operation was made
                values["client_share"] = share
            values |= _rates(steady[key], warm[key], total, wall)
        place = {"part": part, "wall": wall, **dict(zip(STEP, key, strict=True))}
        rows += [{**place, "measure": name, "value": value} for name, value in values.items()]
    table = pd.DataFrame(rows, columns=[*STEP, "measure", "value", "unit", "part", "wall"])
    return table.assign(unit=table["measure"].map(UNITS))


def parts_of(by_second: pd.DataFrame, word: str) -> dict[StepKey, dict[str, float]]:
    """Of the seconds of each step that are `word`: their number, length, operations, documents."""
    groups = numbered(by_second, STEP)
    chosen = by_second[word].to_numpy(dtype=bool)
    sums = pd.DataFrame({"seconds": groups.sums(chosen)})
    for name in ("length", "operations", "documents"):
        sums[name] = groups.sums(np.where(chosen, by_second[name].to_numpy(dtype=float), 0.0))
    keys = map(_key, rows_of(keys_of(by_second, STEP, groups.first)))
    return dict(zip(keys, records(sums), strict=True))


def _rates(
    steady: Mapping[str, float], warm: Mapping[str, float], total: Mapping[str, float], wall: float
) -> dict[str, float]:
    """Rates of the steady part, else of all that followed the warm-up."""
    names = ("operations", "documents")
    if steady["seconds"]:
        return {f"{name}_per_s": steady[name] / steady["seconds"] for name in names}
    left = wall - warm["length"]
    if left <= 0 or total["operations"] <= warm["operations"]:
        # No operation ended after the warm-up: take the whole phase.
        warm, left = dict.fromkeys(names, 0.0), wall
    return {f"{name}_per_s": (total[name] - warm[name]) / left for name in names}


def _insert_rates(
    samples: pd.DataFrame,
    threads: Mapping[tuple[str, str], int],
    processes: Mapping[str, int],
) -> dict[StepKey, float]:
    """Documents/s of a load with the time between the store's calls left out."""
    documents = counters(samples, "documents", per_second=False)
    documents = documents[documents["operation"] == INSERT]
    service = counters(samples, "service_time_sum", per_second=False)
    sums = {
        name: rows.groupby([*STEP, "worker", "process"], observed=True, dropna=False)["value"].sum()
        for name, rows in (("documents", documents), ("service", service))
    }
    table = pd.DataFrame(sums).dropna().reset_index()
    table = table[table["service"] > 0]
    # Of a worker whose processes are not apart the time is that of all its clients.
    clients = [
        threads.get((row.trial, row.phase), 1)
        * (1 if pd.notna(row.process) else processes.get(row.trial, 1))
        for row in rows_of(table)
    ]
    table["rate"] = table["documents"] / (table["service"] / np.asarray(clients, dtype=float))
    rates: dict[Any, float] = table.groupby(STEP, observed=True)["rate"].sum().to_dict()
    return rates


def short_phases(table: pd.DataFrame) -> list[StudyWarning]:
    """One warning per phase that has trials too short for a steady part."""
    walls = table[table["measure"] == "duration"]
    phases = {str(phase): group["wall"] for phase, group in walls.groupby("phase", observed=True)}
    return [
        StudyWarning(
            "short_phase",
            "",
            f"phase {phase}: {(wall < MIN_STEADY_SECONDS).sum()} of {len(wall)} runs took less "
            f"than {MIN_STEADY_SECONDS:g} s (shortest {wall.min():.2g} s); their rates are "
            "of the whole phase, start included",
            "give the phase more work (more inputs, operations or seconds)",
        )
        for phase, wall in phases.items()
        if (wall < MIN_STEADY_SECONDS).any()
    ]


def errors(table: pd.DataFrame) -> list[StudyWarning]:
    """One warning per trial and phase with failed operations."""
    rows = table[(table["measure"] == "errors") & (table["value"] > 0)]
    return [
        StudyWarning(
            "operation_errors",
            str(row.trial),
            f"phase {row.phase}: {int(row.value)} operations failed; rates and latencies are of "
            "those that succeeded",
            "see the trial's log for the first error",
        )
        for row in rows_of(rows)
    ]
