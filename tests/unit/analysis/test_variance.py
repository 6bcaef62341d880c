"""Analysis of variance and Tukey's pairs: cases worked out by hand, other implementations, and what
must not matter."""

import itertools
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
import statsmodels.formula.api as smf
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats
from statsmodels.stats.anova import anova_lm
from statsmodels.stats.diagnostic import het_breuschpagan

from storewise.analysis.stats.anova import ALIASED, Specification, analysis_of_variance
from storewise.analysis.stats.anova_groups import (
    group_warnings,
    groups,
    json_rows,
    one_group,
    text_lines,
)
from storewise.analysis.stats.residual_checks import equal_variance, normality
from storewise.analysis.stats.tukey import tukey
from storewise.errors import AnalysisError


def analysed(table, response, factors, **options):
    options["numeric"] = tuple(options.get("numeric", ()))
    return analysis_of_variance(table, Specification(response, tuple(factors), **options))


def by_term(result):
    return {row.term: row for row in result.table.itertuples(index=False)}


def cells(values):
    rows = [{"a": a, "b": b, "y": y} for (a, b), each in values.items() for y in each]
    return pd.DataFrame(rows)


# Means of the cells 5, 7, 9 and 4, 9, 11; each value is 1 off its mean. Grand mean 7.5, means of a
# 7 and 8, of b 4.5, 8 and 10.
#   SS_a  = 6 (0.5^2 + 0.5^2)            = 3
#   SS_b  = 4 (3^2 + 0.5^2 + 2.5^2)      = 62
#   SS_ab = 2 * 2 (1^2 + 0.5^2 + 0.5^2)  = 6
#   SS_r  = 12 * 1^2                     = 12, df 6, mean square 2
#   SS_t  = 83
BALANCED = pd.DataFrame(
    itertools.product(["a1", "a2"], ["b1", "b2", "b3"], "01"), columns=["a", "b", "repeat"]
)
BALANCED["y"] = [4.0, 6, 6, 8, 8, 10, 3, 5, 8, 10, 10, 12]

# Means of the cells 2, 5, 4 and 8 of 2, 1, 1 and 1 values; sum 21 of 5, sum of squares 115.
#   SS_t = 115 - 21^2/5 = 26.8; SS_r = 1 + 1 = 2, df 1
#   a alone: 9^2/3 + 12^2/2 - 88.2 = 10.8; b alone: 8^2/3 + 13^2/2 - 88.2 = 17.6333
#   interaction: contrast 2 - 5 - 4 + 8 = 1, its 1/n sum to 3.5: SS = 1/3.5 = 2/7
#   a and b together: 26.8 - 2 - 2/7 = 24.5143
#   type 3, of unweighted means: a (3.5 - 6)^2/(3.5/4) = 50/7; b (3 - 6.5)^2/(3.5/4) = 14
UNBALANCED = cells({("a1", "b1"): [1, 3], ("a1", "b2"): [5], ("a2", "b1"): [4], ("a2", "b2"): [8]})


def test_a_two_way_table_by_hand():
    result = analysed(BALANCED, "y", ["a", "b"])
    rows = by_term(result)
    expected = {
        "a": (1, 3, 1.5, 3 / 15, (3 - 2) / 85),
        "b": (2, 62, 15.5, 62 / 74, (62 - 4) / 85),
        "a:b": (2, 6, 1.5, 6 / 18, (6 - 4) / 85),
    }
    assert list(rows) == [*expected, "Residual"]
    for term, (df, sum_sq, f, *sizes) in expected.items():
        row = rows[term]
        assert (row.df, row.sum_sq, row.f) == pytest.approx((df, sum_sq, f))
        assert [row.eta_sq_partial, row.omega_sq] == pytest.approx(sizes)
        assert row.p == pytest.approx(stats.f.sf(f, df, 6))
    assert tuple(rows["Residual"])[:3] == ("Residual", 6, pytest.approx(12.0))
    assert np.isnan(tuple(rows["Residual"])[3:]).all()
    assert (result.n, result.freedom, result.inflation) == (12, 6, 1.0)
    # Where F is below 1 omega squared is below 0.
    noise = BALANCED.assign(c=[1, 2, 2, 1, 1, 2, 2, 1, 1, 2, 2, 1])
    row = by_term(analysed(noise, "y", ["c"]))["c"]
    assert row.f < 1 and row.omega_sq < 0


@pytest.mark.parametrize(
    ("typ", "factors", "sums"),
    [
        (1, ["a", "b"], {"a": 10.8, "b": 24.8 - 2 / 7 - 10.8, "a:b": 2 / 7}),
        (1, ["b", "a"], {"b": 17.63333333, "a": 24.8 - 2 / 7 - 17.63333333, "b:a": 2 / 7}),
        (2, ["a", "b"], {"a": 24.8 - 2 / 7 - 17.63333333, "b": 24.8 - 2 / 7 - 10.8, "a:b": 2 / 7}),
        (3, ["a", "b"], {"a": 50 / 7, "b": 14.0, "a:b": 2 / 7}),
    ],
)
def test_types_differ_where_cells_have_different_numbers_of_rows(typ, factors, sums):
    rows = by_term(analysed(UNBALANCED, "y", factors, typ=typ))
    assert list(rows) == [*sums, "Residual"]
    assert {t: rows[t].sum_sq for t in sums} == pytest.approx(sums)
    assert (rows["Residual"].df, rows["Residual"].sum_sq) == (1, pytest.approx(2.0))


# One factor of three levels with a number: statsmodels itself, told the same by a formula.
@pytest.mark.parametrize("typ", [2, 3])
@pytest.mark.parametrize("robust", [False, True])
def test_numbers_and_robust_tests_are_statsmodels(typ, robust):
    rng = np.random.default_rng(4)
    table = pd.DataFrame({"g": list("abc") * 9, "x": rng.uniform(3, 9, 27)})
    table["y"] = rng.normal(size=27) * table["x"] + table["x"]
    ours = by_term(analysed(table, "y", ["g", "x"], numeric=["x"], typ=typ, robust=robust))
    # A factor is tested at the mean of the number.
    centred = table.assign(x=table["x"] - table["x"].mean())
    model = smf.ols("y ~ C(g, Sum) * x", centred).fit()
    sums = anova_lm(model, typ=typ)
    tests = anova_lm(model, typ=typ, robust="hc3" if robust else None)
    for term, theirs in {"g": "C(g, Sum)", "x": "x", "g:x": "C(g, Sum):x"}.items():
        assert ours[term].f == pytest.approx(tests["F"].loc[theirs])
        assert ours[term].p == pytest.approx(tests["PR(>F)"].loc[theirs])
        assert ours[term].sum_sq == pytest.approx(sums["sum_sq"].loc[theirs])


def test_names_may_be_anything():
    names = {"a": "class", "b": 'a "b".c (C) ~ 1:2', "y": "Q('y') + 1"}
    odd = analysed(BALANCED.rename(columns=names), names["y"], [names["a"], names["b"]])
    assert list(by_term(odd)) == ["class", names["b"], f"class:{names['b']}", "Residual"]


@given(st.integers(0, 2**32 - 1), st.integers(2, 4), st.integers(2, 3), st.floats(-1e6, 1e6))
@settings(max_examples=max(5, settings.default.max_examples // 4))
def test_types_agree_where_all_is_balanced_and_sums_add_up(seed, levels, repeats, origin):
    rng = np.random.default_rng(seed)
    each = itertools.product(range(levels), "xy", range(repeats))
    table = pd.DataFrame(each, columns=["a", "b", "repeat"])
    table["y"] = origin + rng.normal(size=len(table))
    # Nor does the order of rows, or do names of levels, matter.
    other = table.assign(a=-table["a"]).sample(frac=1, random_state=seed % 2**31)
    results = [analysed(table, "y", ["a", "b"], typ=typ) for typ in (1, 2, 3)]
    first, *more = [
        result.table["sum_sq"].to_list() for result in (*results, analysed(other, "y", ["a", "b"]))
    ]
    for sums in more:
        assert sums == pytest.approx(first, rel=1e-5, abs=1e-9)
    assert sum(first) == pytest.approx(float(((table["y"] - table["y"].mean()) ** 2).sum()))


def test_repeats_count_each_row_and_say_by_how_much_f_grows():
    once = analysed(BALANCED, "y", ["a", "b"])
    thrice = analysed(BALANCED, "y", ["a", "b"], repeats=3)
    assert thrice.table["df"].iloc[-1] == 3 * 12 - 6
    assert thrice.inflation == 5.0
    assert thrice.table["f"][:-1].to_list() == pytest.approx((5 * once.table["f"][:-1]).to_list())
    # What is copied is no evidence about residuals.
    assert thrice.normality == once.normality
    assert thrice.equal_variance == once.equal_variance
    spec = Specification("y", ("a", "b"), repeats=3)
    text = group_warnings([one_group(BALANCED, {}, spec)])
    assert any("within repeats is unknown" in t and "5 times" in t for t in text)


#: docs/studies.md: F of the engine, of threads as a number, and of both together.
PUBLISHED = {
    ("A", 1_000): (272.2, 3.88, 1.14),
    ("A", 10_000): (14.3, 4.80, 2.10),
    ("A", 100_000): (6.16, 5.13, 2.46),
    ("A", 1_000_000): (5.50, 5.23, 2.53),
    ("B", 1_000): (221.3, 3.24, 1.42),
    ("B", 10_000): (14.2, 4.31, 1.88),
    ("B", 100_000): (7.16, 5.12, 2.38),
    ("B", 1_000_000): (6.48, 5.38, 2.41),
}


def test_the_published_runtimes():
    table = pd.read_csv("config/references/andor2019.csv")
    spec = Specification("runtime_ms", ("engine", "client_threads"), ("client_threads",), repeats=3)
    result = groups(table, ["workload", "operations"], spec).groups
    found = {tuple(g.by.values()): g.variance.table["f"][:-1].to_list() for g in result}
    assert set(found) == set(PUBLISHED)
    for place, expected in PUBLISHED.items():
        assert found[place] == pytest.approx(expected, rel=0.005)
    assert {g.variance.table["df"].iloc[-1] for g in result} == {56}


def test_without_repeats_the_interaction_is_left_out_and_named():
    single = BALANCED.iloc[::2].assign(y=[1.0, 4.0, 6.0, 2.0, 7.0, 7.5])
    result = analysed(single, "y", ["a", "b"], repeats=3)
    assert list(by_term(result)) == ["a", "b", "Residual"]
    ((term, reason),) = result.left_out.items()
    assert term == "a:b"
    assert "6 rows leave no residual degrees of freedom" in reason
    with pytest.raises(AnalysisError, match="interaction a:b: 6 rows leave no residual"):
        analysed(single, "y", ["a", "b"], strict=True)
    assert analysed(single, "y", ["a", "b"], order=1, strict=True).left_out == {}
    more = BALANCED.assign(c=list("xyyx") * 3)
    pairs = analysed(more, "y", ["a", "b", "c"], order=2, strict=True)
    assert list(by_term(pairs)) == ["a", "b", "c", "a:b", "a:c", "b:c", "Residual"]


def test_an_empty_cell_leaves_its_interaction_out():
    table = BALANCED[~((BALANCED["a"] == "a2") & (BALANCED["b"] == "b3"))].assign(
        c=[1, 2, 2, 1, 2, 1, 1, 2, 1, 2]
    )
    result = analysed(table, "y", ["a", "b", "c"])
    assert result.left_out == {
        "a:b": ALIASED,
        "a:b:c": "a part of it is left out",
    }
    # It is the model without them, to the digit.
    model = smf.ols("y ~ (C(a, Sum) + C(b, Sum)) * C(c, Sum)", table).fit()
    assert by_term(result)["Residual"].sum_sq == pytest.approx(model.ssr)
    assert by_term(result)["Residual"].df == model.df_resid
    # Levels of several types can be sorted.
    mixed = table.assign(b=table["b"].map({"b1": 1, "b2": 2.5, "b3": "all"}))
    assert analysed(mixed, "y", ["a", "b"]).left_out == {"a:b": ALIASED}


ROWS = {"a": ["p", "p", "q", "q"], "b": ["p", "p", "q", "q"], "y": [1.0, 2.0, 3.0, 5.0]}


@pytest.mark.parametrize(
    ("change", "options", "message"),
    [
        ({"y": [1.0, 1.0, 1.0, 1.0]}, {}, "nothing varies"),
        ({"y": [1.0, 1.0, 2.0, 2.0]}, {}, "fits every y exactly"),
        ({"y": [1.0, np.nan, 2.0, 2.0]}, {}, "no finite numbers"),
        ({"y": [1.0, 0.0, 2.0, 2.0]}, {"log": True}, "no logarithm"),
        ({}, {"robust": True, "repeats": 3}, "and without repeats"),
        ({"a": range(5000), "b": 0, "y": range(5000)}, {}, r"5000 rows leave .* \(--numeric\)"),
        ({"a": ["p"] * 4}, {}, r"factor a has only one level \(p\)"),
        ({"a": ["p", None, "q", "q"]}, {}, "1 rows have no level"),
        ({"a": ["p", "q", "r", "s"]}, {}, "factor a: 4 rows leave no residual"),
        ({"a": ["p", "q"], "b": 0, "y": [1.0, 2]}, {}, "factor a: 2 rows leave no residual"),
        ({"a": ["p"], "b": 0, "y": [1.0]}, {}, "y has one value in 1 rows"),
        ({}, {"factors": ["a", "b"]}, "factor b: its levels go together"),
        ({}, {"typ": 1, "robust": True}, "type 2 or 3"),
        (
            {"a": ["p", "p", "p", "q"], "y": [1.0, 2.0, 4.0, 5.0]},
            {"robust": True},
            "the only row of a cell",
        ),
    ],
)
def test_what_cannot_be_analysed(change, options, message):
    table = pd.DataFrame({**ROWS, **change})
    with pytest.raises(AnalysisError, match=message):
        analysed(table, "y", **{"factors": ["a"], **options})


def test_residuals_are_tested():
    rng = np.random.default_rng(2)
    normal, skewed = rng.normal(size=200), rng.lognormal(sigma=1.0, size=200)
    assert normality(normal, 190) == pytest.approx(stats.shapiro(normal).pvalue)
    assert normality(skewed, 190) < 1e-6
    many = rng.normal(size=5001)
    assert normality(many[:5000], 4990) == pytest.approx(stats.shapiro(many[:5000]).pvalue)
    assert normality(many, 4990) == pytest.approx(stats.normaltest(many).pvalue)
    assert np.isnan(normality(normal[:3], 2)) and not np.isnan(normality(normal[:4], 3))
    cell = np.repeat([0, 1], 100)
    spread = normal * (1 + 8 * cell)
    levene = stats.levene(spread[:100], spread[100:], center="median").pvalue
    pagan = het_breuschpagan(spread, np.column_stack([np.ones(200), cell]))[1]
    # Two rows in a cell, or a number among the factors, take another test.
    pairs = np.repeat(np.arange(100), 2)
    for of_cell, p in ((cell, levene), (pairs, pagan), (None, pagan)):
        assert equal_variance(spread, of_cell, cell * 1.0) == pytest.approx(p, rel=1e-6)
    assert np.isnan(equal_variance(normal[:4], None, normal[:4]))
    assert not np.isnan(equal_variance(normal[:5], None, skewed[:5]))


def test_tukey_of_one_factor_is_scipys():
    rng = np.random.default_rng(1)
    samples = {"x": rng.normal(0, 1, 5), "y": rng.normal(1, 1, 7), "z": rng.normal(2.5, 1, 4)}
    table = pd.DataFrame([{"g": g, "v": v} for g, values in samples.items() for v in values])
    pairs = list(tukey(analysed(table, "v", ["g"]), "g").itertuples())
    theirs = stats.tukey_hsd(*samples.values())
    interval = theirs.confidence_interval(0.95)
    assert [(p.a, p.b) for p in pairs] == [("x", "y"), ("x", "z"), ("y", "z")]
    for pair in pairs:
        i, j = "xyz".index(pair.a), "xyz".index(pair.b)
        assert pair.difference == pytest.approx(theirs.statistic[i, j])
        assert pair.p_adj == pytest.approx(theirs.pvalue[i, j], rel=1e-6, abs=1e-9)
        assert (pair.low, pair.high) == pytest.approx((interval.low[i, j], interval.high[i, j]))


def test_tukey_of_two_factors_by_hand():
    """Means of b 4.5, 8 and 10 of 4 values each, mean square 2 with df 6: the honestly significant
    difference is q(0.95; 3, 6) sqrt(2 / 4) = 4.339 * 0.7071 = 3.068."""
    model = analysed(BALANCED, "y", ["a", "b"])
    pairs = {(p.a, p.b): p for p in tukey(model, "b").itertuples()}
    assert {k: p.difference for k, p in pairs.items()} == pytest.approx(
        {("b1", "b2"): -3.5, ("b1", "b3"): -5.5, ("b2", "b3"): -2.0}
    )
    for pair in pairs.values():
        assert pair.high - pair.difference == pytest.approx(3.068, abs=0.001)
    assert [p.p_adj < 0.05 for p in pairs.values()] == [True, True, False]
    q = 2.0 / np.sqrt(2 / 4)
    assert pairs["b2", "b3"].p_adj == pytest.approx(stats.studentized_range.sf(q, 3, 6))
    # Unweighted means of a over the levels of b: (2 + 5)/2 and (4 + 8)/2.
    (pair,) = tukey(analysed(UNBALANCED, "y", ["a", "b"]), "a").itertuples()
    assert pair.difference == pytest.approx(-2.5)
    # Two levels: it is the t test of the contrast, F = 50/7 / 2 with 1 and 1 degrees of freedom.
    assert pair.p_adj == pytest.approx(stats.f.sf(25 / 7, 1, 1), rel=1e-6)


def test_tukey_beside_a_number_compares_at_its_mean():
    rng = np.random.default_rng(7)
    table = pd.DataFrame({"g": list("ab") * 12, "x": rng.uniform(4, 6, 24)})
    table["y"] = np.where(table["g"] == "a", 2, 1) * table["x"] + rng.normal(size=24) * 0.01
    for typ in (2, 3):
        model = analysed(table, "y", ["g", "x"], numeric=["x"], typ=typ)
        (pair,) = tukey(model, "g").itertuples()
        assert pair.difference == pytest.approx(table["x"].mean(), abs=0.02)
    for name, why in (("x", "x is a number"), ("z", "z is no factor")):
        with pytest.raises(AnalysisError, match=why):
            tukey(model, name)


def test_tables_and_warnings_of_groups():
    rng = np.random.default_rng(3)
    table = pd.DataFrame(itertools.product("pqr", "uv", range(20)), columns=["g", "a", "repeat"])
    table["y"] = np.exp(2 + rng.normal(size=120) * np.where(table["a"] == "u", 0.2, 0.5))
    table = pd.concat([table, pd.DataFrame({"g": ["s"], "a": ["u"], "y": [1.0]})])
    spec = Specification("y", ("a",), tukey="a")
    found = groups(table, ["g"], spec)
    assert found.not_possible == [("g=s", "y has one value in 1 rows; nothing varies")]
    lines = text_lines(found.groups)
    how = "type 2 sums of squares; factors of levels coded sum-to-zero"
    assert lines[0] == f"g=p: y, 40 rows ({how})"
    assert lines[1].split() == ["term", "df", "sum_sq", "f", "p", "eta_sq_partial", "omega_sq"]
    assert lines[2].split()[:2] == ["a", "1"]
    # Of the residual there is neither F nor p.
    assert lines[3].split()[:2] == ["Residual", "38"] and len(lines[3].split()) == 3
    assert lines[7].split()[:2] == ["u", "v"] and text_lines(found.groups[:1])[0] == lines[0]
    (whole,) = groups(table, [], replace(spec, repeats=2, log=True)).groups
    assert text_lines([whole])[0].startswith("log(y), 121 rows, each counted 2 times (type 2")
    assert group_warnings([whole])[0].startswith("each row counts 2 times")
    normal, spread = group_warnings(found.groups)
    assert normal.startswith("residuals are not normal in all groups (least p ")
    assert normal.endswith("remedy: --log-response or look at the extreme rows")
    assert "unequal variances" in spread and "--log-response or --robust" in spread
    # Logarithms are taken already; robust tests need no equal variance. A group has no "in ...".
    (of_logs,) = group_warnings(groups(table, ["g"], replace(spec, log=True)).groups)
    assert "unequal" in of_logs and of_logs.endswith("remedy: --robust (without --repeats)")
    assert group_warnings(groups(table, ["g"], replace(spec, log=True, robust=True)).groups) == []
    pairs = json_rows(groups(table, ["g"], replace(spec, log=True)).groups, pairs=True)
    assert [pair["ratio"] for pair in pairs] == pytest.approx(
        [np.exp(pair["difference"]) for pair in pairs]
    )
    assert {pair["ratio"] for pair in json_rows(found.groups, pairs=True)} == {None}
    assert [pair["by"] for pair in pairs] == [{"g": name} for name in "pqr"]
    single = table.drop_duplicates("g")
    with pytest.raises(AnalysisError, match="g=p: y has one value in 1 rows; nothing varies"):
        groups(single, ["g"], spec)


def test_what_is_doubtful_beside_an_interaction():
    """Pairs beside a significant interaction."""
    (alone,) = groups(BALANCED, [], Specification("y", ("b",), tukey="b")).groups
    assert not any("part of an interaction" in text for text in group_warnings([alone]))
    crossed = BALANCED.assign(y=BALANCED["y"] + 9.0 * (BALANCED["a"] + BALANCED["b"] == "a1b1"))
    (both,) = groups(crossed, [], Specification("y", ("a", "b"), tukey="b")).groups
    assert any("b is part of an interaction" in text for text in group_warnings([both]))
