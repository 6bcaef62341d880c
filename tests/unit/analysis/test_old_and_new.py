"""Old beside new: in the same rounds, beside controls, and of different days."""

import math

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from storewise.analysis.decision import compare
from storewise.analysis.stats.intervals import holm_adjusted


def side(name, logs, criterion="read", control=()):
    """Measures of one side: logs has a list of rounds for each setting."""
    return pd.DataFrame(
        {"side": name, "store": store, "criterion": criterion, "round": at, "value": math.exp(z)}
        | {"control": store in control}
        for store, rounds in logs.items()
        for at, z in enumerate(rounds)
    )


def both(old, new, **settings):
    return pd.concat([side("old", old, **settings), side("new", new, **settings)])


def test_in_the_same_rounds_the_differences_give_the_error():
    # The machine doubles its speed in the last round, for both; the differences are 1, 2, 3.
    table = both({"a": [0, 0, math.log(2)]}, {"a": [1, 2, 3 + math.log(2)]})
    row = compare(table, same_rounds=True).loc[0]
    assert row["ratio"] == pytest.approx(math.exp(2))
    half = stats.t.isf(0.025, 2) / math.sqrt(3)
    assert (row["low"], row["high"]) == pytest.approx((math.exp(2 - half), math.exp(2 + half)))
    assert (row["error"], row["freedom"]) == (pytest.approx(1 / math.sqrt(3)), 2)
    assert row["p"] == pytest.approx(2 * stats.t.sf(2 * math.sqrt(3), 2))
    assert (row["basis"], row["told"]) == ("same rounds", "not told apart")


def test_settings_share_their_error_and_the_chance_of_a_false_answer():
    steady = {store: [0.0, 0.01, -0.01] for store in "abcd"}
    new = {**steady, "a": [0.5, 0.52, 0.51]}
    loads = both(steady, steady, criterion="load")
    every = compare(pd.concat([both(steady, new), loads]), same_rounds=True)
    assert every.groupby("criterion")["told"].unique().map(list)["load"] == ["not told apart"]
    table = compare(both(steady, new), same_rounds=True).set_index("store")
    assert every["p_adjusted"].min() == pytest.approx(2 * table["p_adjusted"].min())
    assert table["told"].to_dict() == {"a": "different"} | dict.fromkeys("bcd", "not told apart")
    assert table.loc["a", "p_adjusted"] == pytest.approx(4 * table.loc["a", "p"])


def test_another_day_is_measured_by_settings_that_are_unchanged():
    # Controls changed by 0.1, 0.2, 0.3: the day made all faster by 0.2, give or take 0.1.
    old = {store: [at, at] for at, store in enumerate("abcxy")}
    changes = zip("abcxy", (0.1, 0.2, 0.3, 0.25, 2.2), strict=True)
    new = {store: [old[store][0] + change] * 2 for store, change in changes}
    table = compare(both(old, new, control="abc"), same_rounds=False).set_index("store")
    assert list(table.index) == ["x", "y"]
    assert table["ratio"].tolist() == pytest.approx([math.exp(0.05), math.exp(2)])
    error = 0.1 * math.sqrt(1 + 1 / 3)
    assert table["p"].tolist() == pytest.approx(
        [2 * stats.t.sf(0.05 / error, 2), 2 * stats.t.sf(2 / error, 2)]
    )
    assert table["told"].tolist() == ["not told apart", "different"]
    # What scatters from round to round by more than the controls do, does so from day to day.
    new["y"] = [5.2, 7.2]
    wide = compare(both(old, new, control="abc"), same_rounds=False).set_index("store")
    assert wide.loc["y", "told"] == "not told apart"


@pytest.mark.parametrize("control", ["", "ab"])
def test_different_days_tell_a_ratio_and_no_more(control):
    old, new = ({store: [z, z + 0.01] for store in "abx"} for z in (0.0, 3.0))
    table = compare(both(old, new, control=control), same_rounds=False)
    assert set(table["store"]) == {"a", "b", "x"} - set(control)
    assert table["ratio"].tolist() == pytest.approx([math.exp(3)] * len(table))
    assert table[["low", "high", "p", "p_adjusted"]].isna().all(axis=None)
    assert set(table["told"]) == {"cannot be told"}
    assert set(table["basis"]) == {"different days"}


def test_counts_differ_from_a_fifth_on():
    old, new = (
        {s: [math.log(n)] for s, n in zip("abc", counts, strict=True)}
        for counts in ((100, 100, 120), (119, 120, 100))
    )
    table = compare(both(old, new, criterion="files"), same_rounds=False, counted=["files"])
    assert table["told"].tolist() == ["not told apart", "different", "different"]
    assert table["ratio"].tolist() == pytest.approx([1.19, 1.2, 1 / 1.2])
    assert set(table["basis"]) == {"counted"}


def test_what_only_one_side_has_and_what_has_no_ratio_is_left_out():
    table = both({"a": [0.0, 0.0], "b": [0.0]}, {"a": [1.0, 1.1], "c": [0.0]})
    zero = side("old", {"d": [0.0]}).assign(value=0.0)
    table = pd.concat([table, zero, side("new", {"d": [0.0]})])
    assert compare(table, same_rounds=True)["store"].tolist() == ["a"]
    nothing = compare(table[table["store"] == "b"], same_rounds=True)
    assert nothing.empty
    assert list(nothing) == list(compare(table, same_rounds=True))
    # One round of each is no repeat.
    single = compare(both({"a": [0.0]}, {"a": [9.0]}), same_rounds=True)
    assert single["told"].tolist() == ["cannot be told"]


def test_holms_correction_by_hand():
    # From the smallest: 0.01 * 4, 0.02 * 3, 0.03 * 2, 0.5; what has no p counts for nothing.
    result = holm_adjusted([0.03, math.nan, 0.01, 0.5, 0.02]).tolist()
    assert result == pytest.approx([0.06, math.nan, 0.04, 0.5, 0.06], nan_ok=True)
    assert len(holm_adjusted([])) == 0 and holm_adjusted([0.9, 0.8]).tolist() == [1, 1]


def test_days_that_differ_are_seldom_called_different():
    rng, false = np.random.default_rng(10), 0
    for _ in range(100):
        old = dict(zip("abcdxyz", 0.05 * rng.standard_normal((7, 3)), strict=True))
        day = 0.2 + 0.1 * rng.standard_normal((7, 1)) + 0.05 * rng.standard_normal((7, 3))
        new = dict(zip("abcdxyz", day, strict=True))
        told = compare(both(old, new, control="abcd"), same_rounds=False)["told"]
        false += (told == "different").any()
    assert false <= 10
