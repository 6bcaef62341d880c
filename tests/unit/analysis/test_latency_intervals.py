"""Intervals of latency percentiles: ranks by hand, coverage, repeats, and what has none."""

import math

import numpy as np
import pytest
from scipy import stats
from support.results.made import GROUP, SCALED

from storewise.analysis.measure.latency_intervals import of_operations, ranks
from storewise.metrics.hdr import bucket_indexes, histogram_of

pytestmark = GROUP


def _histogram(values):
    index, count = np.unique(bucket_indexes(values.astype(np.int64)), return_counts=True)
    return histogram_of(index, count)


def test_ranks_by_hand():
    # The textbook's: of 100 values the 40th and 61st enclose the median (96.5 %).
    assert ranks(50, 100) == (40, 61)
    # Of 5 values not even the extremes do: 1 - 2 / 2^5 = 94 %; of 6 they do: 97 %.
    assert ranks(50, 5) is None and ranks(50, 6) == (1, 6)
    # p99 of 299 values: none may lie above with 0.99^299 = 5 %; of 400 with 1.8 %.
    assert ranks(99, 299) is None
    assert ranks(99, 400) is not None
    assert ranks(100, 1000) is None and ranks(50, 0) is None


@pytest.mark.parametrize("percentile", [50.0, 90.0, 99.0, 99.9])
@pytest.mark.parametrize("count", [37, 3_000_000])
def test_ranks_are_those_of_the_binomial(percentile, count):
    result = ranks(percentile, count)
    low, high = stats.binom.ppf([0.025, 0.975], count, percentile / 100)
    if high + 1 > count or low < 1:
        assert result is None
    else:
        assert result == (int(low), int(high) + 1)


def test_a_histogram_by_hand():
    histogram = _histogram(np.arange(1, 101) * 1000)
    result = of_operations(histogram, 50, 1e9)
    assert result["resampled"] == "operations"
    # To the three digits of a histogram.
    assert result["low"] == pytest.approx(40e-6, rel=2e-3)
    assert result["high"] == pytest.approx(61e-6, rel=2e-3)
    assert result["error"] == pytest.approx(math.log(61 / 40) / 2 / 1.96, rel=0.02)
    assert of_operations(histogram, 99.9, 1e9)["resampled"] == "none"


def test_one_repeat_has_the_interval_of_its_operations(served):
    table = served.latency_summary
    read = table[(table["phase"] == "read") & (table["time"] == "service")]
    result = read[read["engine"] == "sqlite"].set_index("percentile")
    rows = result.loc[["p50", "p90", "p99"]]
    assert set(rows["resampled"]) == {"operations"}
    assert ((rows["low"] < rows["value"]) & (rows["value"] < rows["high"])).all()
    assert result.loc["max", "resampled"] == "none" and math.isnan(result.loc["max", "high"])


def test_repeats_have_the_interval_of_repeats(made):
    tables = made.measured(**SCALED)
    table = tables.latency_summary
    keys = (table["phase"] == "read") & (table["time"] == "service") & (table["engine"] == "null")
    row = table[keys & (table["percentile"] == "p99")].iloc[0]
    assert (row["resampled"], row["n"]) == ("pooled", 2)

    # By hand: residuals of five settings about their means, five degrees of freedom.
    each = tables.latency.merge(tables.trials[["trial", "workers", "engine"]], on="trial")
    each = each[(each["phase"] == "read") & (each["time"] == "service")]
    each = each[(each["percentile"] == "p99") & (each["engine"] == "null")]
    logs = [np.log(group) for _, group in each.groupby("workers")["value"]]
    squares = [2 * float(np.mean((one - one.mean()) ** 2)) for one in logs]
    error = math.sqrt(float(np.mean(squares)) / 2)
    half = float(stats.t.ppf(0.975, 5)) * error
    assert row["error"] == pytest.approx(error)
    assert math.log(row["high"] / row["value"]) == pytest.approx(half)
    assert math.log(row["value"] / row["low"]) == pytest.approx(half)
    assert table.loc[table["percentile"] == "max", "low"].isna().all()
