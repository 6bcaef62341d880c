"""Operations and documents per second, per trial and over repeats.

Definitions (the usual ones of closed-loop load generators, such as YCSB, Cooper et al., SoCC 2010,
section 4, with start and end cut off):

- A phase's *wall time* is that of its slowest worker; all start together at a barrier.
- A phase that loads does a fixed amount of work, so its rate is all its documents over the wall
  time, parsing and the final flush included. ``insert_documents_per_s`` leaves parsing out: the
  sum over processes of documents / (time in the store's calls / threads).
- Any other phase is judged by its *steady part*: the whole seconds after warm-up in which every
  worker was active, without the first one, if the phase took at least 5 s; else by all that
  followed the warm-up over its exact time, which the warning ``short_phase`` tells.

Counts of workers, processes and threads are summed; seconds in which nothing finished count as 0.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from storewise.analysis.common.frames import grouped, keys_of, numbered, rows_of
from storewise.analysis.common.warnings import StudyWarning

#: Seconds from which on a phase has a steady part.
LONG_ENOUGH = 5.0
STEP = ["trial", "phase", "step"]
StepKey = tuple[str, str, int]
#: The operation of a load, and the one that ends it.
INSERT = "insert"
FINISH = "finish"

UNITS = {
    "documents_per_s": "documents/s",
    "operations_per_s": "operations/s",
    "insert_documents_per_s": "documents/s",
    "parse_share": "1",
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
    rows = rows[timed] if per_second else rows[~timed | ~_with(rows, STEP, ~timed)]
    apart = rows["process"].notna().to_numpy()
    if apart.any() and not apart.all():
        rows = rows[apart | ~_with(rows, [*STEP, "worker"], apart)]
    return rows


def _with(rows: pd.DataFrame, keys: Sequence[str], one: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Which rows are in a group with a row that is `one`."""
    groups = numbered(rows, keys)
    found = np.zeros(groups.groups, dtype=bool)
    found[groups.number[one]] = True
    return found[groups.number]


def loading(samples: pd.DataFrame) -> set[tuple[str, str]]:
    """(trial, phase) of the phases that loaded the stores.

    The driver says it of each (`acknowledged`); where it did not, a phase that inserts and does
    nothing else is taken for one.
    """
    told = samples.loc[samples["metric"] == "acknowledged", ["trial", "phase"]]
    found = {(str(t), str(p)) for t, p in told.drop_duplicates().itertuples(index=False)}
    known = {trial for trial, _ in found}
    named = samples.loc[samples["operation"].notna(), ["trial", "phase", "operation"]]
    for (trial, phase), group in grouped(named.drop_duplicates(), ["trial", "phase"]):
        operations = set(map(str, group["operation"]))
        if str(trial) not in known and INSERT in operations and operations <= {INSERT, FINISH}:
            found.add((str(trial), str(phase)))
    return found


def durations(samples: pd.DataFrame) -> pd.DataFrame:
    """Wall time and the shortest worker's time of each step, in s: trial, phase, step, wall, all.

    A worker's time is that of its slowest process.
    """
    rows = samples[samples["metric"] == "duration"]
    rows = rows[rows["operation"].isna()]
    workers = numbered(rows, [*STEP, "worker"])
    longest = workers.highest(rows["value"])
    steps = numbered(rows, STEP)
    of_worker = steps.number[workers.first]
    shortest = np.full(steps.groups, np.inf)
    np.minimum.at(shortest, of_worker, longest)
    found = keys_of(rows, STEP, steps.first)
    return found.assign(wall=steps.highest(rows["value"]), all=shortest)


def by_step(table: pd.DataFrame, value: str, *inner: str) -> dict[StepKey, dict[Any, float]]:
    """Sums of a column by trial, phase and step, within these by the columns `inner` (one: its
    levels; none: under "")."""
    groups = numbered(table, [*STEP, *inner])
    keys = keys_of(table, [*STEP, *inner], groups.first)
    found: dict[StepKey, dict[Any, float]] = {}
    for key, total in zip(keys.itertuples(index=False), groups.sums(table[value]), strict=True):
        place = (str(key[0]), str(key[1]), int(key[2]))
        found.setdefault(place, {})[key[3] if inner else ""] = float(total)
    return found


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
    table = pd.DataFrame(
        {
            "trial": steps["trial"].astype(str).to_numpy()[step],
            "phase": steps["phase"].astype(str).to_numpy()[step],
            "step": steps["step"].to_numpy()[step],
            "second": second,
            "length": np.clip(wall[step] - second, 1e-9, 1.0),
        }
    )
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
        table[metric] = np.bincount(
            start[of_row[within]] + when[within],
            weights=rows["value"].to_numpy(dtype=float)[within],
            minlength=len(table),
        ).astype(float)
    for metric in ("operations", "documents"):
        table[f"{metric}_per_s"] = table[metric] / table["length"]
    table["warmup"] = second < first[step]
    last = np.floor(steps["all"].to_numpy(dtype=float) + 1e-9)
    steady = (second >= np.maximum(first, 1)[step]) & (second < last[step])
    table["steady"] = steady & (wall >= LONG_ENOUGH)[step]
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
    totals = {
        metric: by_step(counters(samples, metric, per_second=False), "value", "operation")
        for metric in (
            "operations",
            "documents",
            "errors",
            "service_time_sum",
            "prepare_time_sum",
        )
    }
    insert_rates = _insert_rates(samples, threads or {}, processes or {})
    steady = {word: _parts_of(by_second, word) for word in ("steady", "warmup")}
    of_load = loading(samples)
    rows: list[dict[str, object]] = []
    for step in rows_of(durations(samples)):
        key = _key(step)
        total = {metric: values.get(key, {}) for metric, values in totals.items()}
        wall = float(step.wall)
        operations = total["operations"]
        loads = key[:2] in of_load and INSERT in operations
        found: dict[str, float] = {
            "errors": sum(total["errors"].values()),
            "duration": wall,
        }
        part = "whole"
        if loads:
            found["documents_per_s"] = sum(total["documents"].values()) / wall
            found["operations_per_s"] = operations[INSERT] / wall
            prepare = sum(total["prepare_time_sum"].values())
            service = sum(total["service_time_sum"].values())
            if prepare + service > 0:
                found["parse_share"] = prepare / (prepare + service)
            if key in insert_rates:
                found["insert_documents_per_s"] = insert_rates[key]
        else:
            part, rates = _steady(steady["steady"][key], steady["warmup"][key], total, wall)
            found |= rates
        rows += [
            {
                **dict(zip(STEP, key, strict=True)),
                "measure": measure,
                "value": value,
                "unit": UNITS[measure],
                "part": part,
                "wall": wall,
            }
            for measure, value in found.items()
        ]
    return pd.DataFrame(rows, columns=[*STEP, "measure", "value", "unit", "part", "wall"])


def _parts_of(by_second: pd.DataFrame, word: str) -> dict[StepKey, dict[str, float]]:
    """Of the seconds of each step that are `word`: their number, length, operations, documents."""
    groups = numbered(by_second, STEP)
    own = by_second[word].to_numpy(dtype=bool)
    sums = {"seconds": groups.sums(own)}
    for name in ("length", "operations", "documents"):
        sums[name] = groups.sums(np.where(own, by_second[name].to_numpy(dtype=float), 0.0))
    keys = rows_of(keys_of(by_second, STEP, groups.first))
    return {
        _key(row): {name: float(values[place]) for name, values in sums.items()}
        for place, row in enumerate(keys)
    }


def _steady(
    window: Mapping[str, float],
    warm: Mapping[str, float],
    total: Mapping[str, Mapping[Any, float]],
    wall: float,
) -> tuple[str, dict[str, float]]:
    """Rates of the steady part, else of all that followed the warm-up."""
    names = ("operations", "documents")
    if window["seconds"]:
        return "steady", {f"{name}_per_s": window[name] / window["seconds"] for name in names}
    left = wall - warm["length"]
    if left <= 0:
        # All of it was warm-up: the whole is all there is.
        warm, left = dict.fromkeys(names, 0.0), wall
    return "whole", {
        f"{name}_per_s": (sum(total[name].values()) - warm[name]) / left for name in names
    }


def _insert_rates(
    samples: pd.DataFrame,
    threads: Mapping[tuple[str, str], int],
    processes: Mapping[str, int],
) -> dict[tuple[str, str, int], float]:
    """Documents/s of a load with the time between the store's calls left out."""
    clients = [*STEP, "worker", "process"]
    documents = counters(samples, "documents", per_second=False)
    documents = documents[documents["operation"] == INSERT]
    service = counters(samples, "service_time_sum", per_second=False)
    table = pd.DataFrame(
        {
            "documents": documents.groupby(clients, observed=True, dropna=False)["value"].sum(),
            "service": service.groupby(clients, observed=True, dropna=False)["value"].sum(),
        }
    ).dropna()
    table = table[table["service"] > 0].reset_index()
    if table.empty:
        return {}
    # Of a worker whose processes are not apart the time is that of all its clients.
    each = [
        threads.get((str(row.trial), str(row.phase)), 1)
        * (1 if pd.notna(row.process) else processes.get(str(row.trial), 1))
        for row in rows_of(table)
    ]
    table["rate"] = table["documents"] / (table["service"] / np.asarray(each, dtype=float))
    summed = table.groupby(STEP, observed=True)["rate"].sum().reset_index()
    return {(str(r.trial), str(r.phase), int(r.step)): r.rate for r in rows_of(summed)}


def short_phases(table: pd.DataFrame) -> list[StudyWarning]:
    """One warning per phase that has trials too short for a steady part."""
    found = []
    walls = table[table["measure"] == "duration"]
    for phase, group in walls.groupby("phase", observed=True):
        short = group[group["wall"] < LONG_ENOUGH]
        if len(short):
            found.append(
                StudyWarning(
                    "short_phase",
                    "",
                    f"phase {phase}: {len(short)} of {len(group)} runs took less than "
                    f"{LONG_ENOUGH:g} s (shortest {short['wall'].min():.2g} s); their rates are "
                    "of the whole phase, start included",
                    "give the phase more work (more inputs, operations or seconds)",
                )
            )
    return found


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
