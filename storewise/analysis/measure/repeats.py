"""Means over the repeats of equal settings, with intervals
(``storewise.analysis.stats.intervals``)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from storewise.analysis.common.frames import grouped_rows, records
from storewise.analysis.common.warnings import StudyWarning
from storewise.analysis.measure.throughput import STEP, StepKey
from storewise.analysis.model.results import Results
from storewise.analysis.stats.intervals import OWN_SPREAD, Estimate, columns, estimate, pooled


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
    values, units = joined["value"].to_numpy(dtype=float), joined["unit"].to_list()
    steady = _steady_rows(by_second) if by_second is not None else {}
    for levels, places in grouped_rows(joined, groups):
        found = shared.get(levels)
        if found is None:
            seconds: Sequence[float] = ()
            if steady and len(places) == 1:
                seconds = _steady_rates(records(joined.iloc[places])[0], by_second, steady)
            found = estimate(values[places].tolist(), seconds, counted=counted)
        rows.append(
            {
                **dict(zip(groups, levels, strict=True)),
                "unit": units[places[0]],
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
    engine = "engine" in joined
    # An engine that stores nothing is steadier than any store.
    apart = joined.assign(_null=joined["engine"].astype(str) == "null") if engine else joined
    for _, alike in grouped_rows(apart, [*keys, *(["_null"] if engine else [])]):
        mine = apart.iloc[alike]
        value = mine["value"].to_numpy(dtype=float)
        settings = [(levels, value[own].tolist()) for levels, own in grouped_rows(mine, groups)]
        estimates = pooled([values for _, values in settings])
        found |= {
            levels: e for (levels, _), e in zip(settings, estimates, strict=True) if e is not None
        }
    return found


def _steady_rows(by_second: pd.DataFrame) -> dict[StepKey, NDArray[np.int64]]:
    """Places of the steady seconds of each step."""
    steady = np.flatnonzero(by_second["steady"].to_numpy(dtype=bool))
    return {
        (str(key[0]), str(key[1]), int(key[2])): steady[places]
        for key, places in grouped_rows(by_second.iloc[steady], STEP)
    }


def _steady_rates(
    row: Mapping[str, Any],
    by_second: pd.DataFrame | None,
    steady: Mapping[StepKey, NDArray[np.int64]],
) -> Sequence[float]:
    measure = row["measure"]
    if by_second is None or measure not in ("documents_per_s", "operations_per_s"):
        return ()
    places = steady.get((str(row["trial"]), str(row["phase"]), int(row["step"])))
    if places is None:
        return ()
    rates: list[float] = by_second[measure].to_numpy(dtype=float)[places].tolist()
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
