"""The answer in few words, its bars, its uses, and warnings by what to do about them."""

import math
from dataclasses import replace

import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.results.made import GROUP, SCALED, only

from storewise.analysis.common.warnings import REMEDIES, StudyWarning, grouped_warnings
from storewise.analysis.decision import Criterion as Rule
from storewise.analysis.decision import decide
from storewise.analysis.stats.intervals import Estimate
from storewise.analysis.verdict.answer import change, times_better
from storewise.analysis.verdict.criterion import Criterion, Standing
from storewise.analysis.verdict.decision import verdict
from storewise.figures.verdict_chart import LOG_RATIO, lengths, verdict_chart

pytestmark = GROUP


def figure(mean, spread=0.05):
    return Estimate(3, mean, mean / (1 + 3 * spread), mean * (1 + 3 * spread))


def criterion(figures, *, more=True):
    standings = [Standing(name, "", "", one, 1, math.inf) for name, one in figures.items()]
    place = ("read", "reading", "1/s", more, pd.DataFrame())
    return Criterion(*place, standings=standings)


def test_bars_by_hand():
    figures = {"a": figure(100), "b": figure(50)}
    made, log = lengths(criterion(figures))
    assert not log
    # The whisker of the best is whole, so its bar leaves room.
    assert made["a"][2] == 1.0 > made["a"][0]
    assert made["b"][0] == pytest.approx(made["a"][0] / 2)
    assert made["b"][1] < made["b"][0] < made["b"][2]
    less, _ = lengths(criterion(figures, more=False))
    assert less["a"][0] == pytest.approx(less["b"][0] / 2)
    # Far figures are on a logarithmic scale; what has no interval is drawn to the end.
    far = {name: Estimate(1, value) for name, value in (("a", 1e4), ("b", 1e2), ("c", 1e3))}
    made, log = lengths(criterion(far))
    assert log and made["a"][0] == 1.0
    assert made["c"][0] == pytest.approx((1.0 + made["b"][0]) / 2)


@given(st.dictionaries(st.sampled_from("abcdef"), st.floats(1e-9, 1e12), min_size=1), st.booleans())
def test_lengths_are_shares_in_the_order_of_the_figures(means, more):
    made, log = lengths(criterion({k: figure(v) for k, v in means.items()}, more=more))
    of = [made[name][0] for name in sorted(means, key=means.get, reverse=more)]
    assert of == sorted(of, reverse=True)
    assert all(0 < low <= length <= high <= 1.0 for length, low, high in made.values())
    assert log or max(means.values()) / min(means.values()) < LOG_RATIO


def test_every_warning_is_in_one_group_and_the_worst_comes_first():
    codes = ["short_phase", "busy_host", "few_repeats", "short_phase", "never seen before"]
    groups = grouped_warnings([StudyWarning(code, "t", "text", "") for code in codes])
    shown = [[warning.code for warning in group.warnings] for group in groups]
    assert shown == [["busy_host"], ["short_phase"] * 2, ["few_repeats"], ["never seen before"]]
    every = [code for remedy in REMEDIES for code in remedy.codes]
    assert len(every) == len(set(every))


@pytest.mark.parametrize(("operations", "told"), [(2, False), (10, True)])
def test_a_ratio_from_a_few_operations_is_no_headline(made, operations, told):
    tables = made.tables(**SCALED)
    counts = tables.summary["count"].astype(float)
    slow = tables.summary["engine"] == "postgres"
    few = tables.summary.assign(count=counts.where(~slow, operations))
    criteria = verdict(replace(tables, summary=few)).criteria
    reads = next(one for one in criteria if one.name == "read")
    standing = next(one for one in reads.standings if one.engine == "postgres")
    assert standing.finished == operations
    assert math.isnan(times_better(reads, reads.stores[0], standing)) != told


def test_any_number_of_stores_has_an_answer_and_a_chart(made):
    tables = made.tables(**SCALED)
    chart = verdict_chart(tables, verdict(tables))
    assert {row.name for row in chart.rows} == {"SQLite", "PostgreSQL"}
    alone = verdict(only(tables, engine="sqlite")).answer
    assert alone.sentence == "Only SQLite can be judged."
    none = verdict(only(tables, engine=[])).answer
    assert (none.sentence, none.sure) == ("No store can be judged.", "low")


def test_stores_without_a_round_in_common_have_no_sliders(made):
    tables = made.tables(**SCALED)
    assert verdict(tables).sliders["criteria"]
    parts = [
        one._replace(conditions={**one.conditions, "run": one.trial.split("-")[0]})
        for one in tables.results.parts
    ]
    apart = replace(tables, results=replace(tables.results, parts=parts))
    assert verdict(apart).sliders["criteria"] == []


def test_the_weight_that_would_change_the_answer_by_hand():
    """a reads four times as fast, b loads twice as fast: level at w ln 2 = (1 - w) ln 4."""
    figures = [("a", "read", 400), ("b", "read", 100), ("a", "load", 100), ("b", "load", 200)]
    place = {"deployment": "", "clients": ""}
    rows = [
        {"store": store, "criterion": name, "round": at, "value": value * noise, **place}
        for store, name, value in figures
        for at, noise in enumerate((1.0, 1.01, 0.99))
    ]
    judged = decide(pd.DataFrame(rows), {"read": Rule(), "load": Rule()})
    used = [replace(criterion({}), name=name, title=name, weight=0.5) for name in ("read", "load")]
    level = {"read weighs less than 33 %", "load weighs more than 67 %"}
    assert change(judged, used).removeprefix("b instead, if ") in level
    assert change(replace(judged, table=judged.table.assign(named=True)), used) == ""
