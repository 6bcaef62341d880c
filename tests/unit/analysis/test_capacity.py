"""How many nodes and hours the corpus needs, against cases that were counted by hand."""

import math
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.results.made import GROUP, SCALED, with_study

from storewise.analysis.judge.capacity import (
    HOUR,
    LINEAR,
    MEASURED,
    MOST,
    TARGET_HOURS,
    USL,
    Model,
    capacity,
    model_of,
)
from storewise.analysis.stats.intervals import Estimate


def sure(mean, spread=0.01):
    return Estimate(5, mean, mean * (1 - spread), mean * (1 + spread), spread / 2, 4.0)


def unsure(mean):
    return Estimate(1, mean)


pytestmark = GROUP


@pytest.fixture(scope="module")
def tables(made):
    """SQLite with four numbers of workers, PostgreSQL on one and on two nodes."""
    # 100 bytes of text per document: 3 * 10^10 documents in 10^6 files.
    return with_study(made.tables(**SCALED), corpus={"files": 10**6, "bytes": 3 * 10**12})


def one(table, **levels):
    for name, level in levels.items():
        table = table[table[name] == level]
    (row,) = table.to_dict("records")
    return dict(row)


def test_a_linear_model_by_hand():
    result = model_of([2.0], [sure(100)])
    assert (result.kind, result.rate(7)) == (LINEAR, 350)
    assert (result.needed(1000), result.needed(1001)) == (20, 21)
    assert math.isnan(result.needed(50.0 * (MOST + 1)))
    # It starts at the largest count. Without intervals the means alone must have risen.
    result = model_of([1.0, 4.0], [sure(100), sure(200)])
    assert (result.kind, result.rate(8)) == (LINEAR, 400)
    assert model_of([1.0, 4.0], [unsure(100), unsure(101)]).kind == LINEAR
    assert model_of([1.0, 4.0], [unsure(100), unsure(99)]).kind == MEASURED
    # Where more nodes are not faster no other number is given than the best of those measured.
    result = model_of([1.0, 3.0], [sure(100, 0.2), sure(104, 0.2)])
    assert (result.kind, result.largest, result.base.mean) == (MEASURED, 3, 104)
    assert result.needed(104) == 3
    assert math.isnan(result.needed(105)) and math.isnan(result.rate(6))
    slower = model_of([1.0, 2.0, 3.0], [sure(100), sure(120), sure(90)])
    assert (slower.largest, slower.needed(110)) == (2, 2)


def test_the_law_by_hand_and_nothing_beyond_its_peak():
    # lambda 100, sigma 0.1, kappa 0.01: the peak is at sqrt(0.9 / 0.01) = 9.49.
    result = model_of([1.0, 8.0], [sure(100), sure(350)], (100.0, 0.1, 0.01))
    assert (result.kind, result.most) == (USL, 9)
    assert result.rate(4) == pytest.approx(400 / 1.42)
    assert result.rate(5) == pytest.approx(500 / 1.6)
    assert (result.needed(300), result.needed(900 / 2.52)) == (5, 9)
    assert math.isnan(result.needed(358)) and math.isnan(result.rate(10))
    # Without a peak it has a rate that it never reaches: lambda / sigma.
    result = model_of([1.0], [sure(100)], (100.0, 0.5, 0.0))
    assert (result.most, result.needed(190)) == (MOST, 19)
    assert math.isnan(result.needed(200))
    # It falls from the start.
    result = model_of([1.0], [sure(100)], (100.0, 0.0, 4.0))
    assert (result.most, result.needed(100)) == (1, 1)
    assert math.isnan(result.needed(101))


@given(st.floats(0, 0.9), st.floats(0, 0.1), st.floats(1, 1e5))
def test_the_needed_number_is_the_smallest(sigma, kappa, wanted):
    result = model_of([1.0], [sure(100)], (100.0, sigma, kappa))
    count = result.needed(wanted)
    if math.isnan(count):
        assert not result.rate(result.most) >= wanted
    else:
        assert result.rate(count) >= wanted
        assert count == 1 or result.rate(count - 1) < wanted


def test_hours_and_bytes_of_the_corpus(tables):
    table = capacity(tables).table
    assert "null" not in set(table["engine"])
    mine = one(table, engine="postgres", workers=1)
    place = {"engine": "postgres", "workers": 1, "nodes": 2, "phase": "write"}
    rate = one(tables.summary, **place, measure="documents_per_s")
    assert mine["documents"] == pytest.approx(3e10)
    assert (mine["over"], mine["count"]) == ("nodes", 2)
    hours = [mine[name] for name in ("hours", "hours_low", "hours_high")]
    rates = [rate[name] for name in ("mean", "high", "low")]
    assert hours == pytest.approx([3e10 / one / HOUR for one in rates])
    assert (mine["bytes"], mine["bytes_per_count"]) == pytest.approx((720e10, 360e10))
    # Two levels are too few for the law: as much per node as at two.
    assert mine["model"] == LINEAR
    each = rate["mean"] / 2
    needed = math.ceil(3e10 / (TARGET_HOURS * HOUR) / each)
    assert mine["needed"] == needed
    assert mine["needed_low"] <= needed <= mine["needed_high"]
    assert mine["needed_hours"] == pytest.approx(3e10 / (each * needed) / HOUR)
    assert mine["needed_hours"] <= TARGET_HOURS
    assert mine["needed_bytes_per_count"] == pytest.approx(720e10 / needed)
    assert mine["extrapolated"] == (needed > 8)
    # An embedded store grows by workers and the law.
    usl = one(tables.judged["usl"], engine="sqlite", phase="write", factor="workers")
    mine = one(table, engine="sqlite")
    assert (mine["over"], mine["model"], mine["count"]) == ("workers", USL, 8)
    model = Model(USL, sure(1), 8, law=(usl["lambda"], usl["sigma"], usl["kappa"]))
    rate = model.rate(mine["needed"]) if mine["needed"] > 0 else math.nan
    assert mine["needed_hours"] == pytest.approx(3e10 / rate / HOUR, nan_ok=True)


@pytest.mark.parametrize(("factor", "known"), [(99.0, True), (101.0, False)])
def test_an_interval_too_wide_is_said_to_be_not_known(tables, factor, known):
    each, half = tables.summary["mean"], math.sqrt(factor)
    summary = tables.summary.assign(low=each / half, high=each * half)
    made = replace(tables, summary=summary, judged={})
    mine = one(capacity(made).table, engine="postgres", workers=1)
    ends = [mine[name] for name in ("hours_low", "hours_high", "needed_low", "needed_high")]
    assert mine["hours"] > 0 and mine["needed"] > 0
    assert ("is not known" in mine["limits"]) is not known
    if known:
        assert mine["hours_high"] / mine["hours_low"] == pytest.approx(factor)
        assert mine["needed_high"] > mine["needed"] > mine["needed_low"]
    else:
        assert all(map(math.isnan, ends))
