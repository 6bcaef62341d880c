"""Means over the repeats of equal settings, with intervals
(``storewise.analysis.stats.intervals``)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pandas as pd

from storewise.analysis.common.engines import CEILING
from storewise.analysis.common.frames import grouped_rows
from storewise.analysis.common.warnings import StudyWarning
from storewise.analysis.measure.reduction import STEP
from storewise.analysis.model.results import Results
from storewise.analysis.stats.intervals import OWN_SPREAD, Estimate, estimate, pooled

#: Columns of a mean and its interval.
ESTIMATE = ["n", "mean", "low", "high", "resampled"]


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
    steady = _steady_rates(by_second) if by_second is not None else {}
    for levels, places in grouped_rows(joined, groups):
        mean = shared.get(levels)
        if mean is None:
            seconds: Sequence[float] = ()
            if steady and len(places) == 1:
                row = joined.iloc[places[0]]
                seconds = steady.get((row["trial"], row["phase"], row["step"], row["measure"]), ())
            mean = estimate(values[places].tolist(), seconds, counted=counted)
        rows.append(
            {
                **dict(zip(groups, levels, strict=True)),
                "unit": units[places[0]],
                **mean.columns(),
            }
        )
    return pd.DataFrame(rows, columns=[*groups, "unit", *ESTIMATE, "error", "freedom"])


def _shared_spread(
    joined: pd.DataFrame, groups: Sequence[str], keys: Sequence[str]
) -> dict[tuple[object, ...], Estimate]:
    """Estimates of settings with few repeats, from the spread of all settings with equal `keys`."""
    estimates: dict[tuple[object, ...], Estimate] = {}
    # An engine that stores nothing is steadier than any store.
    engine = joined["engine"].astype(str) if "engine" in joined else pd.Series("", joined.index)
    apart = joined.assign(_null=engine == CEILING)
    for _, alike in grouped_rows(apart, [*keys, "_null"]):
        rows = apart.iloc[alike]
        value = rows["value"].to_numpy(dtype=float)
        settings = {key: value[places].tolist() for key, places in grouped_rows(rows, groups)}
        of_settings = zip(settings, pooled(list(settings.values())), strict=True)
        estimates |= {levels: one for levels, one in of_settings if one is not None}
    return estimates


def _steady_rates(by_second: pd.DataFrame) -> dict[tuple[object, ...], list[float]]:
    """The rates of the steady seconds of each step, by trial, phase, step and measure."""
    steady = by_second[by_second["steady"].astype(bool)]
    rates: dict[tuple[object, ...], list[float]] = {}
    for step, places in grouped_rows(steady, STEP):
        for measure in ("documents_per_s", "operations_per_s"):
            rates[*step, measure] = steady[measure].to_numpy(dtype=float)[places].tolist()
    return rates


def few_repeats(results: Results) -> Iterator[StudyWarning]:
    """A warning where the repeats are too few for a useful interval."""
    if results.trials.empty:
        return
    counts = results.trials.groupby(list(results.factors), dropna=False).size()
    low = int(counts.min())
    if low == 1:
        yield StudyWarning(
            "one_repeat",
            "",
            "some figures rest on a single repeat; what differs from run to run is unknown, so "
            "nothing is said about differences where no interval can be had",
            "set `repeats: 3` or more",
        )
    elif low < OWN_SPREAD:
        yield StudyWarning(
            "few_repeats",
            "",
            f"{low} repeats say little of one setting's own spread, so intervals take that of all "
            "settings of a phase together",
            f"set `repeats: {OWN_SPREAD}` for intervals of each setting's own",
        )
