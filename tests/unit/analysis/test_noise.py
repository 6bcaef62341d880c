"""Noise within a trial and between trials: hand-computed cases, and the flags of a study."""

import math

import numpy as np
import pandas as pd
import pytest
from support.results.made import GROUP, SCALED, only

from storewise.analysis.judge.noise import COLUMNS, canary_ratios, flags, noise, of_series
from storewise.analysis.stats.intervals import autocorrelation, effective

pytestmark = GROUP


def test_a_series_by_hand():
    # A straight line: 100, 101, ... 109; mean 104.5, standard deviation sqrt(82.5 / 9).
    result = of_series([100.0 + i for i in range(10)], 400.0)
    assert result.seconds == 10 and result.mean == 104.5
    assert result.cv == pytest.approx(math.sqrt(82.5 / 9) / 104.5)
    assert result.cv_counting == pytest.approx(1 / 20)
    assert result.drift_per_min == pytest.approx(60 / 104.5)
    assert result.drift_change == pytest.approx(10 / 104.5)
    assert (result.drift_low, result.drift_high) == pytest.approx((result.drift_per_min,) * 2)
    assert result.drift_p < 0.001
    # Nothing is left beside the line, so nothing is correlated.
    assert result.autocorrelation == 0 and result.effective_seconds == 10


def test_effective_seconds_by_hand():
    assert effective(30, 0.5) == 10  # 30 * 0.5 / 1.5
    assert effective(30, 0.0) == effective(30, -0.4) == 30
    assert effective(30, 1.0) == 2
    # 1, -1, 1, -1, ...: the plain estimate is -(n - 1) / n, cut at -1 once corrected.
    assert autocorrelation(np.array([1.0, -1.0] * 5), 2) == -1
    # 1, 1, -1, -1, 1, 1, -1, -1: neighbours' products sum to 1: 1 / 8, then (8 / 8 + 2) / 4.
    assert autocorrelation(np.array([1.0, 1, -1, -1, 1, 1, -1, -1]), 2) == pytest.approx(0.75)


def test_few_equal_and_stalled_seconds():
    assert math.isnan(of_series([]).mean) and of_series([]).seconds == 0
    three = of_series([1.0, 2.0, 3.0])
    assert three.cv == pytest.approx(0.5) and math.isnan(three.drift_per_min)
    assert math.isnan(of_series([0.0] * 20).cv)
    equal = of_series([5.0] * 20)
    drift = (equal.drift_per_min, equal.drift_p)
    assert (equal.cv, *drift, equal.effective_seconds) == (0.0, 0.0, 1.0, 20.0)
    # One stalled second is no drift.
    stalled = of_series([100.0, 101, 99, 100, 102, 100, 99, 101, 100, 100, 101, 0])
    assert abs(stalled.drift_per_min) < 0.12 and stalled.drift_p > 0.05
    assert stalled.cv > 0.25


def test_correlated_seconds_rarely_look_like_drift():
    rng = np.random.default_rng(4)
    hits = 0
    for _ in range(150):
        values = [0.0]
        for error in rng.normal(0, 1, 60):
            values.append(0.6 * values[-1] + float(error))
        hits += of_series([100 + v for v in values[1:]]).drift_p < 0.05
    # A test that takes seconds as independent finds drift in about a third of these.
    assert hits / 150 < 0.15


QUIET = {"cv": 0.1, "cv_counting": 0.05, "drift_change": 0.3, "effective_seconds": 20.0}
QUIET |= {"autocorrelation": 0.1, "seconds": 24, "repeats": 3, "of_repeats": 1.05, "canary": 0.9}


@pytest.mark.parametrize(
    ("change", "drifts", "found"),
    [
        ({}, False, []),
        ({"cv": 0.3}, False, ["spread"]),
        ({"cv": 0.3, "cv_counting": 0.25}, False, []),  # sqrt(0.09 - 0.0625) = 0.17
        ({}, True, ["drift"]),
        ({"drift_change": -0.05}, True, []),
        # (2 * sqrt(24) + 2) / 20 = 0.59
        ({"effective_seconds": 6.0, "autocorrelation": 0.6}, False, ["autocorrelation"]),
        ({"effective_seconds": 6.0, "autocorrelation": 0.58}, False, []),
        ({"effective_seconds": 2.0, "autocorrelation": 1.0, "seconds": 8}, False, []),
        ({"of_repeats": 0.85}, False, ["repeats"]),
        ({"repeats": 1, "of_repeats": math.nan}, False, []),
        ({"canary": 0.8}, False, ["canary"]),
        ({"canary": 1.3, "cv": 0.5}, True, ["spread", "drift", "canary"]),
        (dict.fromkeys(("cv", "drift_change", "canary"), math.nan), False, []),
    ],
)
def test_flags_by_hand(change, drifts, found):
    assert flags({**QUIET, **change}, drifts=drifts) == found


def test_canaries_by_hand():
    rows = [(t, "canary_cpu", v) for t, v in (("a", 100.0), ("b", 50.0), ("c", 110.0))]
    rows += [(t, "canary_disk_read", v) for t, v in (("a", 30.0), ("b", 10.0), ("c", 10.0))]
    table = pd.DataFrame(rows, columns=["trial", "metric", "value"])
    table = table.assign(taken_by="clients", host="h", unit="1/s")
    assert canary_ratios(table) == {
        "a": (3.0, "canary_disk_read"),
        "b": (0.5, "canary_cpu"),
        "c": (pytest.approx(1.1), "canary_cpu"),
    }
    # Two trials have no usual value.
    assert canary_ratios(table[table["trial"] != "c"]) == {}


def test_a_quiet_study_has_no_flags(made):
    result = noise(only(made.measured(**SCALED), engine=["sqlite", "postgres"]))
    assert list(result.table.columns) == list(COLUMNS)
    read = result.table[result.table["phase"] == "read"]
    assert len(read) == 5 * 3 * 2
    assert set(read["seconds"]) == {7} and set(read["repeats"]) == {2}
    assert read["cv"].between(0.005, 0.1).all()
    assert set(result.table["flags"]) == {""} and not result.warnings
