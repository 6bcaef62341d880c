"""Means over repeats and their intervals, by hand and in simulations."""

import math

import numpy as np
import pandas as pd
import pytest
from scipy import stats
from support.results.tables import results_of

from storewise.analysis.measure.summary import as_estimate, summarise


def summary_of(settings, measure="operations_per_s"):
    """Means of values by engine."""
    rows = [
        (f"{engine}{number}", engine, value)
        for engine, values in settings.items()
        for number, value in enumerate(values)
    ]
    table = pd.DataFrame(rows, columns=["trial", "engine", "value"])
    keys = {"phase": "read", "step": 0, "operation": "all", "measure": measure, "unit": "1/s"}
    measures = table[["trial", "value"]].assign(**keys, count=2.0)
    results = results_of(table[["trial", "engine"]])
    names = ["phase", "step", "operation", "measure"]
    return summarise(measures, results, names).set_index("engine")


def test_an_interval_by_hand():
    table = summary_of({"sqlite": [100.0, 200.0], "duckdb": [10.0, 14.0]})
    row = table.loc["sqlite"]
    assert row["mean"] == pytest.approx(math.sqrt(100 * 200))
    # The variance of two values is half the square of their distance; the larger one is its own,
    # though with so few repeats not shown to be larger.
    own, other = math.log(2) ** 2 / 2, math.log(1.4) ** 2 / 2
    assert (row["error"], row["freedom"]) == (pytest.approx(math.sqrt(own / 2)), 2)
    assert table.loc["duckdb", "error"] == pytest.approx(math.sqrt((own + other) / 2 / 2))
    half = stats.t.ppf(0.975, 2) * row["error"]
    assert math.log(row["high"] / row["mean"]) == pytest.approx(half)
    assert row["low"] * row["high"] == pytest.approx(row["mean"] ** 2)
    assert (row["n"], row["count"], row["unit"]) == (2, 4, "1/s")


def test_a_noisy_setting_has_its_own_degrees_of_freedom():
    steady = {f"s{n}": [100.0, 101.0, 102.0] for n in range(5)}
    table = summary_of({**steady, "noisy": [100.0, 140.0, 70.0]})
    assert table.loc["noisy", "freedom"] == 2
    assert set(table.drop("noisy")["freedom"]) == {12}
    assert table.loc["noisy", "error"] > 2 * table.loc["s0", "error"]


def test_what_stores_nothing_is_pooled_apart_and_a_single_run_has_no_interval():
    table = summary_of({"null": [1.0, 9.0], "files": [5.0, 5.0], "a": [1.0, 1.1], "b": [7.0]})
    assert table["freedom"].drop("b").to_dict() == {"null": 1, "files": 1, "a": 1}
    assert table.loc["b", "mean"] == pytest.approx(7)
    assert math.isnan(table.loc["b", "error"]) and math.isnan(table.loc["b", "low"])


@pytest.mark.parametrize(
    ("values", "measure", "mean"),
    [
        ([0.0, 4.0], "operations_per_s", 2.0),
        ([8.0, 2.0], "store_bytes", 4.0),
        ([3.0, math.inf], "pays_from", math.inf),
    ],
)
def test_zeros_counts_and_what_never_comes_have_no_interval(values, measure, mean):
    row = summary_of({"sqlite": values}, measure).loc["sqlite"]
    assert row["mean"] == pytest.approx(mean)
    assert not row["low"] > 0 and not row["high"] < math.inf


def test_intervals_cover_what_they_claim():
    rng = np.random.default_rng(3)
    hits = []
    for _ in range(60):
        draws = 100.0 * np.exp(rng.normal(0, 0.1, size=(8, 3)))
        table = summary_of({f"s{n}": list(row) for n, row in enumerate(draws)})
        hits += list((table["low"] <= 100) & (table["high"] >= 100))
    assert 0.92 < np.mean(hits) < 0.98


def test_a_row_is_the_estimate_that_it_came_from():
    row = summary_of({"sqlite": [1.0, 2.0]}).loc["sqlite"]
    assert as_estimate(row).times(3).high == pytest.approx(3 * row["high"])


def test_unlike_operations_are_not_pooled_and_missing_counts_are_none():
    results = results_of(pd.DataFrame({"trial": ["a", "b"], "engine": "sqlite"}))
    values = {("get", "a"): (1.0, 3.0), ("get", "b"): (2.0, None), ("put", "a"): (1.0, None)}
    values["put", "b"] = (9.0, None)
    rows = [(trial, name, *pair) for (name, trial), pair in values.items()]
    table = pd.DataFrame(rows, columns=["trial", "operation", "value", "count"])
    table = table.assign(phase="read", step=0, measure="operations_per_s", unit="1/s")
    keys = ["phase", "step", "operation", "measure"]
    result = summarise(table, results, keys).set_index("operation")
    assert result["freedom"].to_list() == [1, 1]
    assert result["error"].to_list() == pytest.approx([math.log(2) / 2, math.log(9) / 2])
    assert result["count"].fillna(-1).to_list() == [3, -1]
    nothing = summarise(table.iloc[:0], results, keys)
    assert list(nothing) == list(summarise(table, results, keys))
