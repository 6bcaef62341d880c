"""The decision: cases by hand, its special cases, and how often it is right."""

import itertools
import math
import runpy

import numpy as np
import pandas as pd
import pytest
import statsmodels.formula.api as smf
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats
from support.paths import ROOT

from storewise.analysis.decision import Conditions, Criterion, decide
from storewise.analysis.decision.decide import judge
from storewise.analysis.decision.model import Fit, balanced, fit, student, tukey
from storewise.analysis.decision.standing import gather

READ = {"read": Criterion()}
BOTH = {"load": Criterion(), "read": Criterion()}
#: Three rounds that differ by about one per cent.
NOISE = (1.0, 1.01, 0.99)


def rows(store, figures, noise=NOISE, clients="", **place):
    """Measures of one setting: figures are by criterion, a round for each factor of `noise`."""
    place = {"deployment": "", **place, "store": store, "clients": str(clients)}
    return [
        {"criterion": name, "round": at, "value": value * factor, **place}
        for name, value in figures.items()
        for at, factor in enumerate(noise)
    ]


def measures(*settings):
    return pd.DataFrame(list(itertools.chain(*settings)))


def reads(**figures):
    return measures(*(rows(store, {"read": value}) for store, value in figures.items()))


def by_formula(scores, k, rounds):
    """`fit` of the first k settings, by a formula of statsmodels."""
    s, r = np.nonzero(~np.isnan(scores))
    table = pd.DataFrame({"z": scores[s, r], "s": s, "r": r})
    model = smf.ols("z ~ C(s) + C(r, Sum) - 1", table).fit()
    full = np.linalg.matrix_rank(model.model.exog) == model.model.exog.shape[1]
    if not (rounds and full and model.df_resid >= 4):
        model = smf.ols("z ~ C(s) - 1", table).fit()
    n, df, left = np.bincount(s), model.df_resid, 1 - model.get_influence().hat_matrix_diag
    squares, own_df = np.bincount(s, model.resid**2), np.bincount(s, left)
    own = np.where(n > 1, squares / own_df.clip(1e-9), 0)
    variance = np.maximum(own, model.mse_resid)[s]
    others = (squares.sum() - squares) / (df - own_df).clip(1e-9)
    larger = (n > 1) & (own > stats.f.isf(0.5 / k**2, own_df, df - own_df) * others)
    weights = np.linalg.pinv(model.model.exog)[:k]
    mean = model.params.to_numpy()[:k]
    errors = [np.sqrt(of**2 @ variance) for of in (weights[:, None] - weights, weights)]
    return Fit(mean, mean[:, None] - mean, *errors, np.where(larger, np.minimum(n - 1, df), df)[:k])


@pytest.mark.parametrize("seed", range(40))
def test_estimates_are_those_of_least_squares(seed):
    """Of any table with gaps; some stores spread more, some rows are of no store."""
    rng = np.random.default_rng(seed)
    rows, rounds, k = rng.integers(2, 6), rng.integers(2, 6), rng.integers(1, 4)
    scores = rng.normal(size=(rows, rounds)) * 10.0 ** rng.integers(-1, 2, size=(rows, 1))
    gaps = rng.random(scores.shape) < rng.choice([0.2, 0.9])
    scores[gaps & (np.arange(rounds) > 0)] = np.nan
    scores[0, :2] = 0.0, 1.0  # something is repeated
    k, with_rounds = min(k, rows), bool(rng.random() < 0.8)
    found, expected = fit(scores, k, rounds=with_rounds), by_formula(scores, k, with_rounds)
    for name in Fit.__slots__:
        assert getattr(found, name) == pytest.approx(getattr(expected, name), rel=1e-5, abs=1e-8)


def test_critical_values_are_those_of_tables():
    assert student(4, 1) == pytest.approx(2.776, abs=1e-3)
    assert student(4, 5) == pytest.approx(float(stats.t.isf(0.005, 4)))
    # Tukey's range of two means is Student's t, at one half of the level.
    assert tukey(10, 4, 2) == pytest.approx(float(stats.t.isf(0.0125 / 4, 10)), rel=1e-4)
    # The page's sliders have them of the stores that there are: 3 * 2 - 2 degrees of freedom.
    assert balanced(3, 3, [1])["t"] == [[student(4, 1), student(2, 1)]]
    # A store's variance has 4 / 3 of the 4 degrees of freedom, the others' 8 / 3.
    assert balanced(3, 3, [1])["limit"] == pytest.approx(stats.f.isf(0.5 / 9, 4 / 3, 8 / 3), 1e-5)
    # Two stores with four rounds each have 3 degrees of freedom with rounds: too few.
    assert (balanced(2, 4, [1])["freedom"], balanced(2, 5, [1])["freedom"]) == (6, 4)
    assert balanced(2, 5, [1])["rounds"] and not balanced(2, 4, [1])["rounds"]
    nothing = {"freedom": 0, "rounds": False, "limit": 0, "t": [], "tukey": []}
    assert balanced(1, 5, [1]) == balanced(2, 1, [1]) == nothing
    assert balanced(2, 2, [6]) == {
        **{"freedom": 2, "rounds": False, "limit": pytest.approx(math.tan(7 * math.pi / 16) ** 2)},
        **{"t": [[student(2, 6), student(1, 6)]], "tukey": [[tukey(2, 6, 2), tukey(1, 6, 2)]]},
    }


def test_one_store_is_taken_with_its_interval():
    decision = decide(reads(a=200, b=100), READ)
    chance = "The chance that no other store is over 1.2 times as good: at least 99.9 %."
    assert (decision.sentence, decision.sure, decision.why) == ("Take a.", "good", [])
    assert decision.reasons == [chance]
    table = decision.table
    assert table["named"].to_dict() == {"a": True, "b": False}
    assert table["n"].tolist() == [3, 3]
    half = student(4, 1) * math.sqrt(2 * np.var(np.log(NOISE), ddof=1) / 3)
    row = table.loc["b", ["score", "low", "high"]].tolist()
    assert row == pytest.approx([0.5, 0.5 * math.exp(-half), 0.5 * math.exp(half)])
    assert math.isnan(table.loc["a", "low"])
    assert decision.rounds.index.names == ["store", "round"] and table.index.name == "store"
    alone = decide(reads(a=200), READ)
    assert math.isnan(alone.chance)


@pytest.mark.parametrize(
    ("figures", "sentence", "sure"),
    [
        ({"a": 119, "b": 100}, "No store is clearly better: a or b.", "fair"),
        ({"a": 110, "b": 100}, "No store is clearly better: a or b.", "good"),
        ({"a": 121, "b": 100}, "Take a.", "good"),
        ({"a": 300, "b": 290, "c": 100}, "No store is clearly better: a or b.", "good"),
        ({"a": 100}, "Only a can be judged.", "low"),
        ({"a": 5, "b": 5, "c": 5}, "No store is clearly better: a or b or c.", "good"),
    ],
)
def test_a_fifth_better_is_better(figures, sentence, sure):
    decision = decide(reads(**figures), READ)
    assert (decision.sentence, decision.sure) == (sentence, sure)


def test_alone_by_students_value_left_out_by_tukeys():
    # Gaps of about 3.2 standard errors on 4 degrees of freedom: above Student's 2.8, below Tukey's.
    noise = 0.1 * np.array([[-1.0, 0, 1], [1, -2, 1], [-1, 0, 1]]) / [[1], [3**0.5], [1]]
    behind = 3.2 * 0.1 * math.sqrt(2 / 3)
    alone = judge(noise - [[0], [behind], [behind]])
    level = judge(noise - [[0], [0], [behind]])
    assert student(4, 1) < 3.2 < tukey(4, 1, 3)
    assert alone.fit.gap[0, 1] / alone.fit.error[0, 1] == pytest.approx(3.2, rel=0.2)
    assert (alone.named.tolist(), level.named.tolist()) == ([True, False, False], [True] * 3)


def test_weights_and_directions_make_the_score():
    # (4³ / 2)^(1/4): four times as fast at three quarters, twice the seconds at one.
    criteria = {"read": Criterion(3), "setup": Criterion(1, more=False), "unused": Criterion(0)}
    table = measures(
        rows("a", {"read": 400, "setup": 20, "unused": 1}), rows("b", {"read": 100, "setup": 10})
    )
    decision = decide(table, criteria)
    assert decision.table.loc["b", "score"] == pytest.approx((4**3 / 2) ** -0.25)
    scores = decision.rounds @ [0.75, 0.25]
    assert scores["a"].mean() - scores["b"].mean() == pytest.approx(math.log(32) / 4)
    # Below the least value nothing is better than another.
    criteria["setup"] = Criterion(1, more=False, least=60)
    assert decide(table, criteria).table.loc["b", "score"] == pytest.approx(4**-0.75)


def test_stores_are_judged_at_the_largest_volume_that_all_have():
    # At a tenth of the files a is faster than b anywhere; at all of them it is half as fast.
    table = measures(
        *(rows("a", {"read": v}, volume=at) for at, v in ((0.1, 900), (1.0, 100))),
        *(rows("b", {"read": v}, volume=at) for at, v in ((0.1, 500), (1.0, 200))),
    )
    decision = decide(table, READ)
    assert decision.sentence == "Take b."
    assert "Stores are judged at volume 1." in decision.reasons
    one = decide(table[table["volume"] == 1], READ)
    assert not any("volume" in text for text in one.reasons)
    # Where b has only the tenth, the tenth it is; and c, which has another, is not judged.
    small = table[(table["store"] == "a") | (table["volume"] == 0.1)]
    more = pd.concat([small, measures(rows("c", {"read": 9000}, volume=0.5))])
    decision = decide(more, READ)
    assert decision.sentence == "Take a."
    assert decision.aside == {"c": "it has no volume 0.1"}
    # A store without a volume has all data.
    whole = pd.concat([table[table["store"] == "a"], measures(rows("b", {"read": 150}))])
    assert decide(whole, READ).sentence == "Take b."


def test_a_store_has_one_deployment_for_all_criteria():
    # a loads well in one deployment and reads well in the other; b does both in one.
    table = measures(
        rows("a", {"load": 999}, deployment="0 nodes"),
        rows("a", {"load": 300, "read": 20}, deployment="1 nodes"),
        rows("a", {"load": 20, "read": 280}, deployment="3 nodes"),
        rows("b", {"load": 150, "read": 150}, deployment="1 nodes"),
    )
    decision = decide(table, BOTH)
    assert decision.sentence == "Take b."
    assert decision.table.loc["a", "deployment"] == "1 nodes"
    assert decision.table.loc["a", "score"] == pytest.approx(math.sqrt(300 * 20) / 150)


def test_the_number_of_clients_may_differ_by_criterion():
    table = measures(
        rows("a", {"load": 100, "read": 10}, clients=1),
        rows("a", {"load": 10, "read": 100}, clients=8),
        rows("b", {"load": 50, "read": 50}, clients=1),
    )
    decision = decide(table, BOTH)
    assert decision.sentence == "Take a."
    assert decision.clients.loc["a"].to_dict() == {"load": "1", "read": "8"}
    # Of two deployments the one that it stands with is named.
    other = measures(rows("a", {"load": 9, "read": 9}, clients=1, deployment="nodes 2"))
    named = decide(pd.concat([table.assign(deployment="nodes 1"), other]), BOTH)
    assert (named.sentence, named.named) == ("Take a (nodes 1).", ["a"])
    # Rows of other deployments are left out, those of what is not judged stay.
    placed = pd.DataFrame(
        {"store": [*"aabc"], "deployment": ["nodes 1", "nodes 2", "nodes 1", "x"]}
    )
    assert named.deployed(placed).index.tolist() == [0, 2, 3]
    assert decide(table[:0], BOTH).deployed(placed) is placed
    # The best of six settings needs a clearer lead; seven settings in three rounds have 6 * 2
    # degrees of freedom, whichever two are compared.
    many = [rows("a", {"read": 100 - i}, clients=2**i) for i in range(6)]
    six = gather(measures(*many, rows("b", {"read": 60}, clients=1)), READ, {})
    assert [one.tries for one in six.stores.values()] == [6, 1]
    found = judge(np.arange(21.0).reshape(7, 3)[::-1], 2, [6, 1])
    assert (found.best, found.t.tolist()) == (0, [student(12, 6)] * 2)


def test_counts_are_as_they_are_and_a_fifth_decides():
    files = {"files": Criterion(more=False, counted=True)}
    once = measures(rows("a", {"files": 100}, [1]), rows("b", {"files": 119}, [1]))
    assert decide(once, files).sentence == "No store is clearly better: a or b."
    once.loc[1, "value"] = 120
    decision = decide(once, files)
    assert (decision.sentence, decision.sure) == ("Take a.", "good")
    assert decision.table[["low", "high"]].isna().all(axis=None)
    # Any difference is sure.
    found = judge(np.log([[150], [130], [100]]), counts=True)
    assert (found.named.tolist(), found.chance.tolist()) == ([True, True, False], [1, 1, 0])


def test_losses_in_crashes_are_a_condition():
    both, one = (
        decide(reads(a=200, b=100), READ, Conditions(crashes=crashes))
        for crashes in ({"a": (5, 5), "b": (0, 5)}, {"a": (0, 0), "b": (0, 1)})
    )
    assert both.sentence == (
        "Take a. Crashes that lost documents: a in 5 of 5, b in 0 of 5 (Fisher's exact test: "
        "p = 0.0079)."
    )
    assert one.sentence.endswith("lost documents: b in 0 of 1.")


def test_what_is_measured_but_never_recommended():
    table = reads(a=900, b=200, c=100)
    conditions = Conditions(failed={"a": (1, 15), "b": (0, 15)})
    failed = decide(table, READ, conditions)
    assert failed.sentence == "Take b."
    assert failed.aside == {"a": "1 of 15 trials failed by its own fault"}
    # The files and the null engine are no stores, and no part of the error.
    noisy = [rows(name, {"read": 900}, (1, 9, 30)) for name in ("files", "null")]
    beside = decide(pd.concat([table, measures(*noisy)]), READ, conditions)
    pd.testing.assert_frame_equal(failed.table, beside.table)


@pytest.mark.parametrize(
    ("short", "other_work", "sure"),
    [(False, False, "good"), (True, False, "fair"), (True, True, "low")],
)
def test_what_repeats_do_not_show_caps_how_sure_it_is(short, other_work, sure):
    conditions = Conditions(other_work=other_work)
    decision = decide(reads(a=200, b=100), {"read": Criterion(short=short)}, conditions)
    assert decision.sure == sure
    assert ("phases shorter than 5 s: read" in decision.why) == short
    assert ("other work on the hosts" in decision.why) == other_work


def test_a_store_that_lacks_a_criterion_is_named():
    table = measures(
        *(rows(store, {"load": v, "read": v}) for store, v in (("a", 100), ("b", 50))),
        rows("c", {"load": 900}),
    )
    decision = decide(table, BOTH)
    assert (decision.sentence, decision.aside) == ("Take a.", {"c": "it lacks read"})
    assert "c is not judged: it lacks read." in decision.reasons
    # Of two stores one of which lacks it, both are judged by what both have.
    two = decide(table[table["store"] != "b"], BOTH)
    assert two.sentence == "Take c."
    assert two.reasons[-1] == "No store is judged by read: only a has it."
    nobody = decide(reads(a=200, b=100), BOTH)
    assert nobody.sentence == "Take a."
    assert nobody.reasons[-1] == "No store is judged by load: only none has it."
    apart = decide(measures(rows("a", {"read": 1}), rows("b", {"load": 1})), BOTH)
    assert apart.aside == {"a": "it lacks load", "b": "it lacks read"}


def test_single_rounds_are_not_judged():
    single = measures(rows("a", {"read": 9}, [1]))
    one = decide(pd.concat([single, measures(rows("b", {"read": 1}, [1]))]), READ)
    assert (one.sentence, one.sure) == ("No store is clearly better: a or b.", "low")
    assert (one.why, one.reasons) == (["single runs"], [])
    assert one.table["chance"].isna().all()
    # One of several deployments may be the best by luck: it is not taken.
    several = [
        rows(s, {"read": v}, NOISE[:2], deployment="one") for s, v in (("b", 200), ("c", 100))
    ]
    luck = rows("b", {"read": 9000}, [1], deployment="two")
    beside = decide(pd.concat([measures(*several, luck), single.assign(deployment="one")]), READ)
    assert beside.table["deployment"].to_dict() == {"b": "one", "c": "one"}
    assert beside.aside == {"a": "it has a single round"}


def test_stores_of_different_rounds_may_have_had_different_machines():
    late = [{**row, "round": row["round"] + 3} for row in rows("b", {"read": 50})]
    early = measures(rows("a", {"read": 100}), late)
    judged = decide(early, READ)
    assert (judged.sure, judged.why) == ("low", ["measured in different runs: a, b"])
    both = measures(rows("a", {"read": 100}), rows("b", {"read": 50}), late)
    assert (decide(both, READ).sure, decide(both, READ).why) == ("good", [])


def test_a_rate_of_0_and_what_was_not_measured():
    stopped = measures(rows("a", {"read": 900}, (1, 0, 1)), rows("b", {"read": 100}))
    assert decide(stopped, READ).aside == {"a": "it lacks read"}
    gap = measures(rows("a", {"read": 900}, (1, math.nan, 1.01)), rows("b", {"read": 100}))
    assert decide(gap, READ).table["n"].to_dict() == {"a": 2, "b": 3}
    nothing = decide(gap[:0], READ)
    assert (nothing.sentence, nothing.sure) == ("No store can be judged.", "low")


ROUNDS = st.lists(st.floats(-3, 3), min_size=3, max_size=3)
LOGS = st.lists(ROUNDS, min_size=2, max_size=6).map(np.array)


@given(LOGS, st.floats(-5, 5), st.randoms())
def test_neither_units_nor_the_order_of_rows_matter(logs, shift, random):
    table = measures(*(rows(f"s{i}", {"read": 1}, np.exp(z)) for i, z in enumerate(logs)))
    mixed = table.sample(frac=1, random_state=random.randrange(2**32))
    pd.testing.assert_frame_equal(decide(table, READ).table, decide(mixed, READ).table)
    one, other = judge(logs), judge(logs + shift)
    assert one.fit.gap == pytest.approx(other.fit.gap, abs=1e-9)
    assert one.fit.error == pytest.approx(other.fit.error, rel=1e-6, abs=1e-8)


@given(LOGS)
def test_the_best_is_named_and_no_store_that_is_near_it_is_left_out(logs):
    found = judge(logs)
    luck = judge(logs, tries=[9] * len(logs)).chance
    assert luck == pytest.approx(np.maximum(0, 9 * found.chance - 8), abs=1e-9)
    assert found.named[found.best]
    assert found.named[found.fit.gap[found.best] < math.log(1.2) - 1e-6].all()
    assert ((found.chance >= 0) & (found.chance <= 1)).all()
    assert found.fit.gap[found.best].min() > -1e-8
    # Clearer repeats of the same means leave out no fewer stores.
    clear = judge(logs.mean(axis=1, keepdims=True) + 1e-6 * logs)
    assert clear.named.sum() <= found.named.sum()


def test_characteristics_of_a_few_hundred_studies():
    """`benchmarks/decision.py` measures them to the tenth of a per cent."""
    bench = runpy.run_path(str(ROOT / "benchmarks" / "decision.py"))
    rng = np.random.default_rng(33)
    places = itertools.product(bench["MACHINES"], (2, 5))
    cells = [bench["Cell"](machine, 0.25, 3, stores) for machine, stores in places]
    left_out, alone = np.transpose([bench["shares"](rng, cell, 400) for cell in cells])
    assert left_out.mean() < 0.04 and left_out.max() < 0.08 and (alone <= left_out).all()
    steady = bench["Cell"]("steady", 0.1, 3, 3)
    better = bench["errors"](rng, steady, 300) + np.log([[1.5], [1], [1]])
    found = [judge(scores) for scores in better]
    assert np.mean([bench["alone"](one) and one.best == 0 for one in found]) > 0.93
    slight = bench["errors"](rng, bench["Cell"]("steady", 0.01, 5, 3), 100)
    assert not any(bench["alone"](judge(one)) for one in slight + np.log([[1.05], [1], [1]]))
