"""Means over repeats and their intervals, by hand and in simulations."""

import itertools
import math

import numpy as np
import pandas as pd
import pytest
from scipy import stats
from support.results.tables import results_of

from storewise.analysis.measure.summary import few_repeats, summarise

KEYS = ["phase", "step", "operation", "measure"]
NAMES = ["engine", "operation", "measure", "trial", "value", "count"]


def summary_of(*rows):
    """Means of rows of NAMES."""
    table = pd.DataFrame(rows, columns=NAMES)
    results = results_of(table[["trial", "engine"]].drop_duplicates())
    table = table.drop(columns="engine").assign(phase="read", step=0, unit="1/s")
    return summarise(table, results, KEYS).set_index(NAMES[:3])


def setting(engine, values, operation="all", measure="operations_per_s", count=2.0):
    return [(engine, operation, measure, f"{engine}{i}", v, count) for i, v in enumerate(values)]


def by_scipy(settings):
    """(mean, error, freedom) of settings that spread alike: (their values) each."""
    logs = [np.log(values) for values in settings]
    own_df = [len(one) - 1 for one in logs]
    own = [np.var(one, ddof=1) if len(one) > 1 else 0.0 for one in logs]
    squares, df = np.dot(own, own_df), sum(own_df)
    k = np.count_nonzero(own_df)
    for one, v, n in zip(logs, own, own_df, strict=True):
        mean, error, freedom = stats.gmean(np.exp(one)), np.nan, np.nan
        if n:
            others = (squares - v * n) / (df - n) if df > n else np.nan
            own_limit = stats.f.isf(0.5 / k**2, n, df - n) * others
            error = math.sqrt(max(v, squares / df) / len(one))
            freedom = n if v > own_limit else df
        yield mean, error, freedom


@pytest.mark.parametrize("seed", range(30))
def test_errors_are_pooled_over_settings_that_spread_alike(seed):
    """Not those of another operation, nor of what stores nothing; a single run has none."""
    rng = np.random.default_rng(seed)
    pools = [["null"], ["files"], list("abcde"[: rng.integers(1, 6)])]
    drawn = {
        (engine, name): np.exp(rng.normal(5, rng.choice([0.02, 0.1, 1]), rng.integers(1, 5)))
        for name in ("get", "put")
        for engine in itertools.chain(*pools)
    }
    table = summary_of(*itertools.chain(*(setting(e, v, name) for (e, name), v in drawn.items())))
    for pool, name in itertools.product(pools, ("get", "put")):
        settings = [drawn[engine, name] for engine in pool]
        for engine, values, expected in zip(pool, settings, by_scipy(settings), strict=True):
            row = table.loc[engine, name, "operations_per_s"]
            found = (row["mean"], row["error"], row["freedom"])
            assert found == pytest.approx(expected, nan_ok=True)
            half = stats.t.ppf(0.975, row["freedom"]) * row["error"]
            ends = (math.log(row["high"] / row["mean"]), math.log(row["mean"] / row["low"]))
            assert ends == pytest.approx((half, half), nan_ok=True)
            assert (row["n"], row["count"], row["unit"]) == (len(values), 2 * len(values), "1/s")


@pytest.mark.parametrize(
    ("values", "measure", "mean"),
    [
        ([0.0, 4.0], "operations_per_s", 2.0),
        ([8.0, 2.0], "store_bytes", 4.0),
        ([3.0, math.inf], "pays_from", math.inf),
    ],
)
def test_zeros_counts_and_what_never_comes_have_no_interval(values, measure, mean):
    beside = setting("duckdb", [1.0, 3.0], measure=measure)
    (row,) = summary_of(*setting("sqlite", values, measure=measure), *beside).loc[["sqlite"]].iloc
    assert row["mean"] == pytest.approx(mean)
    assert not row["low"] > 0 and not row["high"] < math.inf


def test_missing_counts_are_none():
    rows = setting("sqlite", [1.0], count=1.0), setting("sqlite", [2.0, 4.0], "put", count=None)
    table = summary_of(*itertools.chain(*rows))
    assert table["count"].fillna(-1).to_list() == [1, -1]
    assert set(summary_of().reset_index()) == {*table.reset_index()}


@pytest.mark.parametrize(
    ("rounds", "words"),
    [((3, 3), []), ((2, 3), ["some settings have 2 of the 3 rounds"]), ((), [])],
)
def test_too_few_rounds_are_told_once(rounds, words):
    rows = [(engine, n) for engine, of in zip("ab", rounds, strict=False) for n in range(of)]
    trials = pd.DataFrame(rows, columns=["engine", "repeat"])
    told = [one.message for one in few_repeats(results_of(trials.assign(trial=trials.index)))]
    assert [text.partition(" that")[0] for text in told] == words
