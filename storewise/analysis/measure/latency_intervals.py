"""Intervals of latency percentiles.

A percentile of all repeats together is read from their added histograms. How sure it is, the
percentiles of the single repeats tell: their spread on logarithms gives the standard error (with
few repeats the pooled one of all settings, `repeats.over_repeats`), and the interval is laid
about the percentile of all. So the repeats are what varies, as in all other intervals over repeats;
the operations of one run are no independent observations of what a store does.

Of a single repeat only its operations are left: the interval of order statistics, whose ranks are
the quantiles of the binomial distribution (David & Nagaraja, "Order Statistics", 2003, section
7.1; Le Boudec, "Performance Evaluation of Computer and Communication Systems", 2010, section 2.2).
It takes operations as independent, which neighbours in time are not, knows nothing of other runs,
and is labelled "operations". A maximum has no interval at all: no sample bounds it from above.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd
from scipy.special import bdtrik

from storewise.analysis.common.frames import missing, records
from storewise.analysis.measure.repeats import over_repeats
from storewise.analysis.model.results import Results
from storewise.analysis.stats.intervals import LEVEL
from storewise.metrics.hdr import percentiles

INTERVAL = ("low", "high", "resampled", "error", "freedom")
NOTHING: Mapping[str, Any] = {
    "low": math.nan,
    "high": math.nan,
    "resampled": "none",
    "error": math.nan,
    "freedom": math.nan,
}


def ranks(percentile: float, count: int, level: float = LEVEL) -> tuple[int, int] | None:
    """The ranks (1 is the smallest of `count` values) between which a percentile of what they were
    drawn from lies with probability `level` or more; None where they are too few for that.

    For the median of 100 values these are the 40th and the 61st.
    """
    share = percentile / 100
    if count < 1 or not 0 < share < 1:
        return None
    tail = (1 - level) / 2
    # bdtrik is the inverse of the distribution function as a continuous one.
    low = _quantile(tail, count, share)
    high = _quantile(1 - tail, count, share) + 1
    return (low, high) if low >= 1 and high <= count else None


def _quantile(p: float, count: int, share: float) -> int:
    """The smallest number of successes that at most so many have with probability `p`."""
    found = float(bdtrik(p, count, share))
    # nan: not even no success is as unlikely as that.
    return 0 if math.isnan(found) else max(0, math.ceil(found - 1e-9))


def of_operations(histogram: Any, percentile: float, unit: float) -> dict[str, Any]:
    """INTERVAL of a percentile from the operations of one run; values of the histogram are divided
    by `unit`."""
    count = int(histogram.get_total_count())
    found = ranks(percentile, count)
    if found is None:
        return dict(NOTHING)
    wanted = [100 * rank / count for rank in found]
    values = percentiles(histogram, wanted)
    low, high = (values[p] / unit for p in wanted)
    error = math.nan
    if low > 0:
        # Of a normal error with such an interval: 1.96 of them on either side.
        error = math.log(high / low) / 2 / 1.959964
    return {"low": low, "high": high, "resampled": "operations", "error": error, "freedom": count}


def of_repeats(
    per_trial: pd.DataFrame, results: Results, keys: Sequence[str]
) -> dict[tuple[Any, ...], dict[str, Any]]:
    """INTERVAL relative to the mean over repeats, by factors' levels and `keys`, of those with two
    repeats or more.

    `per_trial` has trial, `keys`, value and unit. Missing levels are None in the keys returned.
    """
    if per_trial.empty:
        return {}
    found = {}
    names = [*results.factors, *keys]
    for row in records(over_repeats(per_trial, results, keys)):
        if row["n"] < 2 or not row["mean"] > 0:
            continue
        found[key_of(row, names)] = {
            **{name: row[name] for name in INTERVAL},
            "low": row["low"] / row["mean"],
            "high": row["high"] / row["mean"],
        }
    return found


def key_of(row: Mapping[str, Any], names: Sequence[str]) -> tuple[Any, ...]:
    """The cells of a row as a key, missing ones as None: one nan does not equal another."""
    return tuple(None if missing(row[name]) else row[name] for name in names)


def about(value: float, relative: Mapping[str, Any] | None) -> dict[str, Any]:
    """INTERVAL of `of_repeats` laid about a value."""
    if relative is None:
        return dict(NOTHING)
    return {**relative, "low": value * relative["low"], "high": value * relative["high"]}
