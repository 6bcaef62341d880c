"""Ratios of choices and of levels: Holm by hand, families, and what is never called different."""

import itertools
import math
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from scipy import stats
from support.results.made import GROUP, SCALED, only

from storewise.analysis.judge.differences import COLUMNS, differences, holm, p_of
from storewise.analysis.stats.intervals import Estimate, estimate, pooled, ratio

pytestmark = GROUP


@pytest.fixture(scope="module")
def tables(made):
    return only(made.measured(**SCALED), workers=[1, 2])


def _of_p(p, freedom=10.0, error=0.1):
    """A ratio above 1 with this p."""
    mean = math.exp(float(stats.t.isf(p / 2, freedom)) * error)
    return Estimate(3, mean, 0.0, 0.0, "repeats", error, freedom)


def test_p_by_hand():
    assert p_of(_of_p(0.03)) == pytest.approx(0.03)
    same = Estimate(3, 1.0, 1.0, 1.0, "counted", 0.0, 1.0)
    assert p_of(same) == 1 and p_of(replace(same, mean=2.0)) == 0
    for basis in ("none", "operations", "seconds"):
        assert math.isnan(p_of(Estimate(1, 2.0, 1.9, 2.1, basis, 0.01, 100.0)))


@pytest.mark.parametrize("spreads", [[0.1] * 5, [0.02, 0.02, 0.02, 0.2, 0.2]])
def test_equal_choices_are_hardly_ever_called_different(spreads):
    rng = np.random.default_rng(2)
    wrong = 0
    for _ in range(150):
        values = [list(np.exp(rng.normal(0, spread, 3))) for spread in spreads]
        means = [a or estimate(b) for a, b in zip(pooled(values), values, strict=True)]
        family = holm([ratio(a, b) for a, b in itertools.combinations(means, 2)])
        wrong += any(one["differs"] for one in family)
    # 5 % of families at most, and what chance may add to 7.5 of 150.
    assert wrong <= 13


def test_holm_by_hand():
    # 4 * 0.01 = 0.04; 3 * 0.02 = 0.06, where the procedure stops: 0.03 would pass 0.05 alone.
    result = holm([_of_p(p) for p in (0.03, 0.01, 0.5, 0.02)])
    assert [one["p_adj"] for one in result] == pytest.approx([0.06, 0.04, 0.5, 0.06])
    assert [one["differs"] for one in result] == [False, True, False, False]
    for one in result:
        assert one["differs"] == (one["low_adj"] > 1)
    # The rejected pair is judged at 0.05 / 4, all others at 0.05 / 3.
    for place, tests in ((1, 4), (2, 3)):
        half = float(stats.t.isf(0.05 / tests / 2, 10)) * 0.1
        ends = result[place]["high_adj"] / result[place]["low_adj"]
        assert math.log(ends) == pytest.approx(2 * half)
    assert holm([]) == []
    assert all(one["differs"] and one["low_adj"] > 1 for one in holm([_of_p(0.001)] * 2))


def test_pairs_of_a_study(tables):
    table = differences(tables).table
    assert list(table.columns) == [*tables.results.factors, *COLUMNS]
    assert not set(table["a"]) & {"null", "Null"}
    times = {"get_service_time_p50", "bytes_per_document", "documents_per_s"}
    assert times <= set(table["measure"])
    rates = table[(table["phase"] == "read") & (table["measure"] == "operations_per_s")]
    pairs = rates[rates["factor"] == "choice"]
    # SQLite and PostgreSQL on one node and on two, at one worker and at two.
    assert len(pairs) == 4 and (pairs["pairs"] == 4).all()
    assert pairs["engine"].isna().all() and set(pairs["workers"]) == {1, 2}
    one = pairs[(pairs["a_where"] == "1 node") & (pairs["workers"] == 1)]
    assert one["ratio"].item() == pytest.approx(4000 / 9000, rel=0.15) and one["differs"].item()
    # Greater levels first, so that the ratio is the speed-up.
    levels = rates[rates["factor"] == "workers"]
    assert set(levels["a"]) == {"2"} and set(levels["b"]) == {"1"}
    assert levels["ratio"].to_list() == pytest.approx([2**0.8] * 3, rel=0.15)
    # A ratio is called different if and only if its interval does not contain 1.
    assert table["differs"].any() and not table["differs"].all()
    tested = table[table["p"].notna()]
    assert (((tested["low_adj"] > 1) | (tested["high_adj"] < 1)) == tested["differs"]).all()
    # What is called different differs without the correction, too.
    sure = tested[tested["differs"]]
    assert ((sure["low"] > 1) | (sure["high"] < 1)).all()
    assert (tested["p_adj"] >= tested["p"] - 1e-12).all()


SUMMARIES = ("summary", "latency_summary", "storage_summary")


def test_without_an_interval_nothing_differs(tables):
    for basis, ends in (("none", {"low": math.nan, "high": math.nan}), ("operations", {})):
        bare = {name: getattr(tables, name).assign(resampled=basis, **ends) for name in SUMMARIES}
        table = differences(replace(tables, **bare)).table
        assert len(table) and not table["differs"].any()
        assert table["p"].isna().all() and (table["pairs"] == 0).all()
        assert table["ratio"].notna().all()


def test_nodes_are_compared_with_equal_ones_only(tables):
    tables = only(tables, workers=1)

    def with_mongodb(table):
        lone = table[(table["engine"] == "postgres") & (table["nodes"] == 1)]
        return pd.concat([table, lone.assign(engine="mongodb")], ignore_index=True)

    known = {name: with_mongodb(getattr(tables, name)) for name in SUMMARIES}
    results = replace(tables.results, trials=with_mongodb(tables.results.trials))
    table = differences(replace(tables, results=results, **known)).table
    read = table[(table["phase"] == "read") & (table["measure"] == "operations_per_s")]
    choices = read[read["factor"] == "choice"]
    shown = {(r.a, r.a_where, r.b, r.b_where) for r in choices.itertuples()}
    assert shown == {
        ("MongoDB", "", "PostgreSQL", ""),
        ("MongoDB", "", "SQLite", ""),
        ("PostgreSQL", "1 node", "SQLite", ""),
        ("PostgreSQL", "2 nodes", "SQLite", ""),
    }
    assert choices.loc[choices["b"] == "PostgreSQL", "nodes"].item() == 1
    (nodes,) = read[read["factor"] == "nodes"].to_dict("records")
    assert (nodes["engine"], nodes["a"], nodes["b"]) == ("postgres", "2", "1")
