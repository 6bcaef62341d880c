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
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import pandas as pd
from scipy.stats import binom

from storewise.analysis.common.frames import key_of as key_of
from storewise.analysis.common.frames import records
from storewise.analysis.measure.repeats import over_repeats
from storewise.analysis.model.results import Results
from storewise.analysis.stats.intervals import LEVEL
from storewise.metrics.hdr import Counted, percentiles

INTERVAL = ("low", "high", "resampled", "error", "freedom")
NOTHING: Mapping[str, Any] = dict.fromkeys(INTERVAL, math.nan) | {"resampled": "none"}
#: Nanoseconds in a second.
NS = 1e9


def ranks(percentile: float, count: int, level: float = LEVEL) -> tuple[int, int] | None:
    """The ranks (1 is the smallest of `count` values) between which a percentile of what they were
    drawn from lies with probability `level` or more; None where they are too few for that.

    For the median of 100 values these are the 40th and the 61st.
    """
    share = percentile / 100
    if count < 1 or not 0 < share < 1:
        return None
    tail = (1 - level) / 2
    low, high = binom.ppf([tail, 1 - tail], count, share).astype(int)
    return (int(low), int(high) + 1) if low >= 1 and high < count else None


def of_operations(histogram: Any, percentile: float, unit: float) -> dict[str, Any]:
    """INTERVAL of a percentile from the operations of one run; values of the histogram are divided
    by `unit`."""
    count = int(histogram.get_total_count())
    places = ranks(percentile, count)
    if places is None:
        return dict(NOTHING)
    shares = [100 * rank / count for rank in places]
    values = percentiles(histogram, shares)
    low, high = (values[p] / unit for p in shares)
    # Of a normal error with such an interval: 1.96 of them on either side.
    error = math.log(high / low) / 2 / 1.959964 if low > 0 else math.nan
    return {"low": low, "high": high, "resampled": "operations", "error": error, "freedom": count}


def figures(histogram: Counted, wanted: Mapping[str, float | None]) -> dict[str, float]:
    """Percentiles of a histogram, and its mean where None is wanted, in s by name; none of an empty
    one."""
    if not histogram.get_total_count():
        return {}
    values = percentiles(histogram, [p for p in wanted.values() if p is not None])
    return {
        name: (histogram.get_mean_value() if p is None else values[p]) / NS
        for name, p in wanted.items()
    }


def over_trials(
    histograms: Iterable[tuple[tuple[Any, ...], str, Counted]],
    names: Sequence[str],
    wanted: Mapping[str, float | None],
    results: Results,
) -> Iterator[dict[str, Any]]:
    """A row per key and figure of the sums of all trials' histograms, with its interval.

    `histograms` are (key, trial, histogram), several of a trial may have one key, whose `names`
    begin with the study's factors. Columns: `names`, figure, n, value (in s), INTERVAL, count.
    """
    by_key: dict[tuple[Any, ...], dict[str, Counted]] = {}
    for key, trial, histogram in histograms:
        by_key.setdefault(key, {}).setdefault(trial, Counted()).add(histogram)
    keys = [*names[len(results.factors) :], "figure"]
    each = pd.DataFrame(
        [
            (*key[len(results.factors) :], figure, trial, value, "s")
            for key, trials in by_key.items()
            for trial, histogram in trials.items()
            for figure, value in figures(histogram, wanted).items()
        ],
        columns=[*keys, "trial", "value", "unit"],
    )
    repeated = records(over_repeats(each[each["figure"] != "max"], results, keys))
    relative = {
        key_of(row, [*names, "figure"]): row for row in repeated if row["n"] > 1 and row["mean"] > 0
    }
    for key, trials in by_key.items():
        total = Counted()
        for histogram in trials.values():
            total.add(histogram)
        for figure, value in figures(total, wanted).items():
            row = {"figure": figure, "n": len(trials), "value": value, **NOTHING}
            percentile, spread = wanted[figure], relative.get((*key, figure))
            if len(trials) == 1 and percentile is not None:
                row |= of_operations(total, percentile, NS)
            elif spread is not None:
                row |= {name: spread[name] for name in INTERVAL}
                row |= {end: value * (spread[end] / spread["mean"]) for end in ("low", "high")}
            count = int(total.get_total_count())
            yield {**dict(zip(names, key, strict=True)), **row, "count": count}
