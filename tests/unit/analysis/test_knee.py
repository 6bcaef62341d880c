"""The knee of latency over throughput by hand, and the tables of steps made for it."""

import math
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from support.results.made import GROUP, SCALED

from storewise.analysis.judge import knee
from storewise.analysis.model.columns import ALL

pytestmark = GROUP


@pytest.fixture(scope="module")
def tables(made):
    return made.measured(**SCALED)


def test_the_knee_by_hand():
    # Power: 100 / 1 = 100, 190 / 1.05 = 181, 300 / 1.3 = 231, 320 / 2.5 = 128, 322 / 5 = 64.
    throughput, latency = [100.0, 190, 300, 320, 322], [1.0, 1.05, 1.3, 2.5, 5.0]
    result = knee.find(throughput, latency)
    assert (result.power, result.saturation) == (2, 4)
    # Scaled: x 0, 0.405, 0.901, 0.991, 1; t 0, 0.0125, 0.075, 0.375, 1; differences 0, 0.393,
    # 0.826, 0.616, 0.
    assert result.kneedle == 2 and result.share == ()
    # Beyond its greatest throughput a curve turns back; Kneedle looks at what is before.
    result = knee.find([100.0, 180, 200, 150], [1.0, 1.2, 2.0, 4.0])
    assert (result.power, result.saturation, result.kneedle) == (1, 2, 1)
    falls = knee.find([100.0, 90, 80], [1.0, 2.0, 3.0])
    assert (falls.power, falls.saturation, falls.kneedle) == (0, 0, 0)


def test_power_of_a_single_server_queue_is_greatest_at_half_load():
    # M/M/1 with service rate 1: T = 1 / (1 - x), so power x (1 - x) is greatest at 1/2 (Kleinrock).
    load = np.arange(0.1, 1, 0.1)
    assert load[knee.find(load.tolist(), (1 / (1 - load)).tolist()).power] == pytest.approx(0.5)


def test_how_sure_a_knee_is():
    throughput, latency = [100.0, 190, 300, 320], [1.0, 1.05, 1.3, 2.5]
    exact = knee.find(throughput, latency, errors=[(0.0, 0.0)] * 4)
    assert exact.share == (0, 0, 1, 0) and knee.ends(exact.share) == (2, 2)
    # Power 181 and 231 are 0.24 apart on logarithms; each errs by sqrt(2) * 0.1 (open) or 0.2
    # (closed), their difference by 0.2 or 0.28: the second has more power in 0.12 and 0.19.
    open_loop = knee.find(throughput, latency, errors=[(0.1, 0.1)] * 4)
    closed = knee.find(throughput, latency, errors=[(0.1, 0.1)] * 4, closed=True)
    assert open_loop.share[1] == pytest.approx(0.115, abs=0.03)
    assert closed.share[1] == pytest.approx(0.195, abs=0.035)
    assert knee.ends(open_loop.share) == (1, 2)
    assert sum(closed.share) == pytest.approx(1)
    assert knee.find(throughput, latency, errors=[(0.1, math.nan)] * 4).share == ()
    assert [knee.ends(s) for s in ([0.02, 0.03, 0.9, 0.05], [0.03, 0.97])] == [(1, 3), (0, 1)]


@pytest.mark.parametrize(
    ("throughput", "latency", "why"),
    [
        ([1.0, 2], [1.0, 2], "3 steps"),
        ([1.0, 2, 3], [1.0, 2], "both"),
        ([1.0, 0, 3], [1.0] * 3, "positive"),
    ],
)
def test_what_has_no_knee(throughput, latency, why):
    with pytest.raises(ValueError, match=why):
        knee.find(throughput, latency)


def _steps(tables, loads, values, *, n=3):
    """Rows of `steps`: (clients, rate) and (throughput, mean response time) of each step."""
    place = dict.fromkeys(tables.results.factors, 1) | {"engine": "sqlite", "phase": "read"}
    place |= {"operation": ALL, "planned": math.nan, "other": "", "n": n}
    known = {"resampled": "repeats", "error": 0.02, "freedom": 2.0}
    place |= known if n > 1 else {"resampled": "none", "error": math.nan, "freedom": math.nan}
    rows = []
    for step, ((clients, rate), (x, t)) in enumerate(zip(loads, values, strict=True)):
        at = {**place, "step": step, "clients": clients, "rate": rate}
        measures = {"response_mean": t, "response_p99": 5 * t, "service_mean": 0.8 * t}
        rows.append({**at, "measure": "operations_per_s", "mean": x, "unit": "operations/s"})
        for measure, value in {**measures, "service_p99": t}.items():
            rows.append({**at, "measure": measure, "mean": value, "unit": "s"})
    table = pd.DataFrame(rows).astype({"clients": float, "rate": float})
    return table.assign(low=0.9 * table["mean"], high=1.1 * table["mean"])


VALUES = [(100.0, 0.010), (190.0, 0.0105), (300.0, 0.013), (320.0, 0.025), (322.0, 0.05)]


def test_the_knee_of_a_closed_loop(tables):
    loads = [(float(n), None) for n in (1, 2, 4, 8, 16)]
    result = knee.knees(replace(tables, steps=_steps(tables, loads, VALUES))).table
    assert list(result.columns) == [*tables.results.factors, *knee.KNEE_COLUMNS]
    (row,) = result.to_dict("records")
    assert (row["loop"], row["load"], row["steps"]) == ("closed", "clients", 5)
    assert (row["knee"], row["knee_low"], row["knee_high"], row["kneedle"]) == (4, 4, 4, 4)
    assert (row["throughput"], row["latency"]) == (300, 0.013)
    assert (row["latency_p99"], row["power"]) == pytest.approx((0.065, 300 / 0.013))
    assert (row["saturation"], row["saturation_load"]) == (322, 16)
    assert row["flags"] == "saturation not reached" and row["reason"] == ""


def test_one_repeat_has_a_knee_without_an_interval_and_too_few_steps_have_none(tables):
    def of(loads, **options):
        steps = _steps(tables, loads, VALUES[: len(loads)], **options)
        return steps, knee.knees(replace(tables, steps=steps)).table.to_dict("records")

    _, (row,) = of([(4.0, rate) for rate in (100.0, 200, 300)], n=1)
    assert (row["loop"], row["load"], row["knee"]) == ("open", "rate", 300)
    assert math.isnan(row["knee_low"]) and row["resampled"] == "none"
    assert row["flags"] == "highest step, saturation not reached"
    steps, (row,) = of([(1.0, None), (2.0, None)])
    assert row["reason"].startswith("2 steps") and math.isnan(row["knee"])
    # Searches are no curves.
    searched = pd.DataFrame({"phase": ["read"]})
    assert knee.knees(replace(tables, steps=steps, searches=searched)).table.empty
    steps, _ = of([(n, None) for n in (1.0, 2.0, 4.0)])
    without = replace(tables, steps=steps[steps["measure"] != "response_mean"])
    assert "no response times" in knee.knees(without).table["reason"].item()
