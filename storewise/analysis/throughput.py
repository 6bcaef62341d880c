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

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from storewise.analysis.frames import grouped, numbered, records, rows_of
from storewise.analysis.resample import OWN_SPREAD, Estimate, columns, estimate, pooled
from storewise.analysis.results import Results
from storewise.analysis.warning import StudyWarning

#: Seconds from which on a phase has a steady part.
LONG_ENOUGH = 5.0
STEP = ["trial", "phase", "step"]
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
    per_worker = rows.groupby([*STEP, "worker"], observed=True, dropna=False)["value"].max()
    by_step = per_worker.groupby(STEP, observed=True)
    return pd.DataFrame({"wall": by_step.max(), "all": by_step.min()}).reset_index()


def series(samples: pd.DataFrame) -> pd.DataFrame:
    """What happened in each second of each step, workers summed.

    Columns: trial, phase, step, second, length (s of it that lie within the step), operations,
    documents, errors (counts), operations_per_s, documents_per_s, warmup, steady.
    """
    frames = []
    counts = {
        metric: counters(samples, metric, per_second=True)
        .groupby([*STEP, "second"], observed=True)["value"]
        .sum()
        for metric in ("operations", "documents", "errors")
    }
    timed = counters(samples, "operations", per_second=True)
    warm = timed[timed["warmup"]].groupby(STEP, observed=True)["second"].max()
    for row in rows_of(durations(samples)):
        key = (row.trial, row.phase, row.step)
        wall, common = float(row.wall), float(row.all)
        seconds = np.arange(max(1, math.ceil(wall - 1e-9)))
        frame = pd.DataFrame(
            {"trial": str(row.trial), "phase": str(row.phase), "step": row.step, "second": seconds}
        )
        frame["length"] = np.clip(wall - seconds, 1e-9, 1.0)
        for metric, values in counts.items():
            if key in values.index:
                found = values.loc[key]
                frame[metric] = found.reindex(seconds, fill_value=0.0).to_numpy()
            else:
                frame[metric] = 0.0
        for metric in ("operations", "documents"):
            frame[f"{metric}_per_s"] = frame[metric] / frame["length"]
        first = int(warm.loc[key]) + 1 if key in warm.index else 0
        frame["warmup"] = seconds < first
        last = math.floor(common + 1e-9)
        steady = (seconds >= max(first, 1)) & (seconds < last)
        frame["steady"] = steady if wall >= LONG_ENOUGH else False
        frames.append(frame)
    if not frames:
        names = ["second", "length", "operations", "documents", "errors", "operations_per_s"]
        return pd.DataFrame(columns=[*STEP, *names, "documents_per_s", "warmup", "steady"])
    return pd.concat(frames, ignore_index=True)


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
        metric: counters(samples, metric, per_second=False)
        .groupby([*STEP, "operation"], observed=True)["value"]
        .sum()
        for metric in (
            "operations",
            "documents",
            "errors",
            "service_time_sum",
            "prepare_time_sum",
        )
    }
    insert_rates = _insert_rates(samples, threads or {}, processes or {})
    groups = dict(list(by_second.groupby(STEP, observed=True)))
    of_load = loading(samples)
    rows: list[dict[str, object]] = []
    for step in rows_of(durations(samples)):
        key = (str(step.trial), str(step.phase), step.step)
        total = {
            metric: values.loc[key] if key in values.index else pd.Series(dtype=float)
            for metric, values in totals.items()
        }
        wall = float(step.wall)
        operations = total["operations"]
        loads = key[:2] in of_load and INSERT in operations.index
        found: dict[str, float] = {
            "errors": float(total["errors"].sum()),
            "duration": wall,
        }
        part = "whole"
        if loads:
            found["documents_per_s"] = float(total["documents"].sum()) / wall
            found["operations_per_s"] = float(operations.loc[INSERT]) / wall
            prepare = float(total["prepare_time_sum"].sum())
            service = float(total["service_time_sum"].sum())
            if prepare + service > 0:
                found["parse_share"] = prepare / (prepare + service)
            if key in insert_rates:
                found["insert_documents_per_s"] = insert_rates[key]
        else:
            part, rates = _steady(groups[key], total, wall)
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


def _steady(
    seconds: pd.DataFrame, total: dict[str, pd.Series], wall: float
) -> tuple[str, dict[str, float]]:
    """Rates of the steady part, else of all that followed the warm-up."""
    window = seconds[seconds["steady"]]
    if len(window):
        return "steady", {
            f"{metric}_per_s": float(window[metric].sum()) / len(window)
            for metric in ("operations", "documents")
        }
    warm = seconds[seconds["warmup"]]
    left = wall - float(warm["length"].sum())
    if left <= 0:
        # All of it was warm-up: the whole is all there is.
        warm, left = warm.iloc[:0], wall
    return "whole", {
        f"{metric}_per_s": (float(total[metric].sum()) - float(warm[metric].sum())) / left
        for metric in ("operations", "documents")
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


def over_repeats(
    table: pd.DataFrame,
    results: Results,
    keys: Sequence[str],
    by_second: pd.DataFrame | None = None,
    *,
    counted: bool = False,
) -> pd.DataFrame:
    """Means over repeats with intervals: one row per factors' levels and `keys`.

    `table` has one row per trial and `keys`, with value and unit. `by_second` (of `series`) gives
    single repeats an interval from their steady seconds; `counted` is for values without chance.
    """
    factors = list(results.factors)
    joined = table.merge(results.trials[["trial", *factors]], on="trial", how="inner")
    groups = [*factors, *keys]
    rows = []
    shared = {} if counted else _shared_spread(joined, groups, keys)
    for levels, group in grouped(joined, groups):
        found = shared.get(tuple(levels))
        if found is None:
            seconds: Sequence[float] = ()
            if by_second is not None and len(group) == 1:
                seconds = _steady_rates(records(group)[0], by_second)
            found = estimate(group["value"].to_list(), seconds, counted=counted)
        rows.append(
            {
                **dict(zip(groups, levels, strict=True)),
                "unit": group["unit"].iloc[0],
                **columns(found),
                "error": found.error,
                "freedom": found.freedom,
            }
        )
    names = ["unit", "n", "mean", "low", "high", "resampled", "error", "freedom"]
    return pd.DataFrame(rows, columns=[*groups, *names])


def _shared_spread(
    joined: pd.DataFrame, groups: Sequence[str], keys: Sequence[str]
) -> dict[tuple[object, ...], Estimate]:
    """Estimates of settings with few repeats, from the spread of all settings with equal `keys`."""
    found: dict[tuple[object, ...], Estimate] = {}
    for _, alike in grouped(joined, keys):
        settings = [(tuple(levels), g["value"].to_list()) for levels, g in grouped(alike, groups)]
        estimates = pooled([values for _, values in settings])
        found |= {
            levels: e for (levels, _), e in zip(settings, estimates, strict=True) if e is not None
        }
    return found


def _steady_rates(row: Mapping[str, Any], by_second: pd.DataFrame) -> Sequence[float]:
    if row["measure"] not in ("documents_per_s", "operations_per_s"):
        return ()
    mine = by_second[
        (by_second["trial"] == row["trial"])
        & (by_second["phase"] == row["phase"])
        & (by_second["step"] == row["step"])
        & by_second["steady"].astype(bool)
    ]
    rates: list[float] = mine[row["measure"]].to_list()
    return rates


def few_repeats(results: Results) -> list[StudyWarning]:
    """A warning where the repeats are too few for a useful interval."""
    if results.trials.empty:
        return []
    counts = results.trials.groupby(list(results.factors), dropna=False).size()
    low = int(counts.min())
    if low == 1:
        return [
            StudyWarning(
                "one_repeat",
                "",
                "some figures rest on a single repeat; what differs from run to run is unknown, "
                "so nothing is said about differences where no interval can be had",
                "set `repeats: 3` or more",
            )
        ]
    if low < OWN_SPREAD:
        return [
            StudyWarning(
                "few_repeats",
                "",
                f"{low} repeats say little of one setting's own spread, so intervals take that of "
                "all settings of a phase together",
                f"set `repeats: {OWN_SPREAD}` for intervals of each setting's own",
            )
        ]
    return []
