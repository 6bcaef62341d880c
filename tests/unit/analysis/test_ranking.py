"""Rank groups, scores and what would turn them: cases by hand, and what must hold of any."""

import math
from dataclasses import replace

import numpy as np
import pytest
from scipy import stats

from storewise.analysis.stats.intervals import Estimate
from storewise.analysis.verdict.criteria_servers import bound
from storewise.analysis.verdict.scores import (
    Counted,
    Turn,
    product,
    repeats_needed,
    scores,
    turn,
    usable,
)
from storewise.analysis.verdict.standings import differing, ranks


def figure(mean, error=0.01, freedom=20.0, n=5):
    half = float(stats.t.ppf(0.975, freedom)) * error
    return Estimate(
        n, mean, mean * math.exp(-half), mean * math.exp(half), "repeats", error, freedom
    )


def single(mean):
    return Estimate(1, mean, math.nan, math.nan, "none")


OPERATIONS = Estimate(1, 1.0, 0.9, 1.1, "operations", 0.05, 1000.0)


def exact(mean):
    return Estimate(1, mean, mean, mean, "counted", 0.0, 1.0, mean > 0)


@pytest.mark.parametrize(
    ("figures", "more", "expected"),
    [
        ([figure(100), figure(300), figure(200)], True, [3, 1, 2]),
        ([figure(100), figure(300), figure(200)], False, [1, 3, 2]),
        # 100 and 97 overlap, 97 and 94 too, but 94 differs from the best: a group of its own.
        ([figure(100), figure(97), figure(94)], True, [1, 1, 2]),
        # Single runs differ from nothing, counted sizes do.
        ([single(100), single(1)], True, [1, 1]),
        ([single(100), figure(1)], True, [1, 1]),
        ([exact(100), exact(101)], False, [1, 2]),
        ([exact(100), exact(100)], False, [1, 1]),
        # Operations of one run are no repeats.
        ([OPERATIONS, replace(OPERATIONS, mean=9.0, low=8.9, high=9.1)], False, [1, 1]),
        # Nothing to set up is before what takes time; one start of servers has no interval.
        ([exact(0), exact(0), figure(30)], False, [1, 1, 2]),
        ([exact(0), single(30)], False, [1, 1]),
        ([], True, []),
        ([single(1)], True, [1]),
    ],
)
def test_ranks_by_hand(figures, more, expected):
    assert ranks(figures, more=more) == expected


def test_intervals_that_overlap_make_no_winner_even_where_the_ratio_would():
    # The ratio's interval is 1.046 +- 4.2 %, that of each mean +- 2.9 %: they overlap.
    one, other = figure(104.6, 0.014), figure(100, 0.014)
    assert one.overlaps(other)
    assert differing([one, other], ratios_only=True) == {(0, 1)}
    assert ranks([one, other], more=True) == [1, 1]


def test_many_pairs_need_more_than_one_pair():
    # p of the first two is 0.003: enough alone, not among 45 pairs (0.05 / 45 = 0.0011).
    near = [figure(100, 0.01), figure(95.4, 0.01)]
    assert ranks(near, more=True) == [1, 2]
    crowd = [figure(95.4, 0.01) for _ in range(9)]
    assert ranks([figure(100, 0.01), *crowd], more=True) == [1] * 10


@pytest.mark.parametrize("seed", range(10))
def test_of_any_figures(seed):
    rng = np.random.default_rng(seed)
    result = [
        single(m) if rng.random() < 0.1 else figure(m, e, float(rng.integers(2, 30)))
        for m, e in zip(rng.lognormal(3, 0.5, 7), rng.uniform(0.005, 0.3, 7), strict=True)
    ]
    mine = ranks(result, more=True)
    # Ranks are 1, 2, ... without a gap; whatever the order of the input.
    assert sorted(set(mine)) == list(range(1, max(mine) + 1))
    order = list(rng.permutation(7))
    assert ranks([result[i] for i in order], more=True) == [mine[i] for i in order]
    different = differing(result)
    first = max(range(7), key=lambda i: result[i].mean)
    for i in range(7):
        # Nothing clearly worse than the best is in its group, nothing that overlaps is behind it.
        assert (mine[i] == 1) == ((min(i, first), max(i, first)) not in different)
        assert mine[i] == 1 or not result[i].overlaps(result[first])


# Scores -------------------------------------------------------------------------------------------


def counted(name, weight, more=True, **figures):
    return Counted(name, weight, more, figures)


def test_score_is_the_weighted_geometric_mean_of_ratios():
    # A is 4 times as fast in reading and needs twice the space: (4^3 * 1/2)^(1/4) = 2.378. Units
    # are nothing.
    for read, disk in ((1, 1), (0.001, 1e8)):
        criteria = [
            counted("read", 3, a=exact(400 * read), b=exact(100 * read)),
            counted("disk", 1, False, a=exact(20 * disk), b=exact(10 * disk)),
        ]
        first, second = scores(criteria)
        assert (first.choice, first.rank, second.rank) == ("a", 1, 2)
        assert second.relative.mean == pytest.approx(1 / 32**0.25)


def test_errors_of_one_choice_add_up_and_those_of_two_in_squares():
    criteria = [
        counted("load", 1, a=figure(200, 0.1, 10), b=figure(100, 0.1, 10)),
        counted("read", 1, a=figure(200, 0.3, 10), b=figure(100, 0.3, 10)),
    ]
    mine = product("a", criteria)
    assert (mine.error, mine.freedom) == pytest.approx((0.5 * 0.1 + 0.5 * 0.3, 10))
    relative = scores(criteria)[1].relative
    assert relative.mean == pytest.approx(0.5)
    half = stats.t.ppf(0.975, 20) * math.hypot(0.2, 0.2)
    assert math.log(relative.high / relative.mean) == pytest.approx(half)
    # An exact criterion takes no certainty away, a small error of few repeats hardly any.
    disk = counted("disk", 1, False, a=exact(10), b=exact(10))
    mine = product("a", [criteria[0], disk])
    assert (mine.n, mine.resampled) == (5, "repeats")
    assert (mine.error, mine.freedom) == pytest.approx((0.05, 10))
    few = counted("disk", 1, a=figure(200, 0.001, 1))
    assert product("a", [counted("load", 1, a=figure(200, 0.2, 20)), few]).freedom > 19
    # Of unknown figures there is no winner, and the best is held against itself.
    singles = counted("load", 1, a=single(1000), b=single(1))
    result = scores([singles, counted("disk", 1, False, a=exact(1), b=exact(1000))])
    assert [s.rank for s in result] == [1, 1] and not result[1].relative.known()
    (only,) = scores([counted("load", 1, a=figure(10))])
    assert (only.rank, only.relative.mean, only.relative.low) == (1, 1.0, 1.0)


def test_figures_below_the_least_count_as_it():
    setup = Counted("setup", 1, False, {"a": exact(0), "b": figure(30), "c": figure(120)}, 60.0)
    result = {s.choice: s.relative.mean for s in scores([setup])}
    assert result == pytest.approx({"a": 1.0, "b": 1.0, "c": 0.5})
    with pytest.raises(ValueError, match="no ratio"):
        scores([counted("loss", 1, False, a=exact(0), b=exact(2))])


def test_a_choice_that_lacks_a_criterion_is_held_against_the_best_on_the_others():
    load = counted("load", 1, a=figure(100), b=figure(200), c=figure(300))
    criteria = [load, counted("read", 1, a=figure(900), b=figure(100))]
    assert usable(criteria) == criteria
    result = {s.choice: s for s in scores(criteria)}
    assert [result[c].rank for c in "abc"] == [1, 2, 0]
    assert result["c"].lacks == ("read",)
    assert result["c"].relative.mean == pytest.approx(3)
    # Only common criteria count where hardly anybody has all.
    few = [counted("read", 1, a=figure(900)), counted("scan", 0, a=figure(1))]
    assert usable([load, *few]) == [load]
    assert usable([few[0], counted("scan", 1, b=figure(9))]) == []
    assert scores([]) == []


def test_weights_turn_the_winner_by_hand():
    read = counted("read", 1, a=figure(800), b=figure(100))
    disk = counted("disk", 1, False, a=figure(40), b=figure(10))
    # ln 8 * 1 = ln 4 * w: w = 1.5, a share of 1.5 / 2.5; as well by reading less: w * ln 8 = ln 4,
    # w = 2/3, a share of 2/5, which is as far.
    result = turn("a", [read, disk])
    assert abs(result.share - 0.5) == pytest.approx(0.1)
    assert (result.choice, result.now) == ("b", 0.5)
    # One without weight can turn it: ln 2 = ln 8 * w, w = 1/3, a share of 1/4.
    read = counted("read", 1, a=figure(200), b=figure(100))
    disk = counted("disk", 0, False, a=figure(80), b=figure(10))
    assert turn("a", [read, disk]) == Turn("b", "disk", pytest.approx(0.25), 0.0)
    # None turns a winner of everything.
    assert turn("a", [read, counted("disk", 1, False, a=figure(10), b=figure(80))]) is None


def with_share(criteria, name, share):
    """With this share of all weight for one, and the others' as they are to each other."""
    rest = sum(c.weight for c in criteria if c.name != name)
    return [
        replace(c, weight=share if c.name == name else c.weight / rest * (1 - share))
        for c in criteria
    ]


@pytest.mark.parametrize("seed", range(10))
def test_at_the_turn_both_are_level_and_nobody_is_before_them(seed):
    rng = np.random.default_rng(seed)
    criteria = []
    for name in "xyz":
        weight, more = float(rng.uniform(0.2, 2)), bool(rng.random() < 0.5)
        figures = {c: figure(float(rng.lognormal(3, 1))) for c in "abcd"}
        criteria.append(Counted(name, weight, more, figures))

    def means(share):
        weighed = with_share(criteria, result.criterion, share)
        return {c: product(c, weighed).mean for c in "abcd"}

    winner = scores(criteria)[0].choice
    best = max("abcd", key=lambda c: product(c, criteria).mean)
    assert winner == best or scores(criteria)[1].rank == 1
    result = turn(best, criteria)
    if result is None:
        return
    level = means(result.share)
    assert level[result.choice] == pytest.approx(level[best])
    assert max(level.values()) == pytest.approx(level[best])
    # On the same way `choice` stays first until `then` is.
    end = 1.0 if result.share > result.now else 0.0
    until = result.until if result.then else end
    shares = [
        (result.share + part * (until - result.share), result.choice) for part in (0.01, 0.99)
    ]
    if result.then:
        shares.append((until + 0.01 * (end - until), result.then))
    for share, first in shares:
        at = means(share)
        assert max(at, key=at.get) == first


def test_who_comes_after_the_turn_is_told_by_hand():
    criteria = [
        counted("read", 1, a=figure(800), b=figure(400), c=figure(100)),
        counted("disk", 0, False, a=figure(80), b=figure(20), c=figure(5)),
    ]
    # a and b: ln 2 = w ln 4, w = 1/2; b and c: ln 4 = w ln 4, w = 1.
    result = turn("a", criteria)
    assert (result.choice, result.then) == ("b", "c")
    assert (result.share, result.until) == (pytest.approx(1 / 3), pytest.approx(1 / 2))


def test_repeats_that_would_tell_two_apart():
    ratio = Estimate(3, 0.8, 0.8 / 1.5, 0.8 * 1.5, "repeats", 0.1, 4.0)
    # Half the interval is ln 1.5 = 0.405, the distance ln 1.25 = 0.223: 3 * (1.817)^2 = 9.9.
    assert repeats_needed(ratio) == 10
    assert repeats_needed(single(0.8)) is None
    assert repeats_needed(replace(ratio, mean=1.0)) is None


def test_share_of_crashes_after_none_with_a_loss():
    # 1 - 0.05^(1/n) exactly, about 3/n for many ("rule of three").
    assert (bound(1), bound(2)) == pytest.approx((0.95, 1 - math.sqrt(0.05)))
    assert bound(100) == pytest.approx(3 / 100, rel=0.02)
