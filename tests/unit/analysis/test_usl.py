"""The Universal Scalability Law: exact cases, published scaling, properties, a study's table."""

import csv
import math
from dataclasses import replace

import numpy as np
import pytest
from support.paths import ROOT
from support.results.made import GROUP, SCALED, only

from storewise.analysis.judge.usl import usl
from storewise.analysis.stats.usl import fit, law, not_fitted

pytestmark = GROUP

PUBLISHED = ROOT / "config" / "references" / "niec2014.csv"


def test_exact_data_give_their_parameters_back():
    # 100 * 4 / (1 + 0.1 * 3 + 0.01 * 4 * 3) = 400 / 1.42
    assert law(4, 100, 0.1, 0.01) == pytest.approx(400 / 1.42)
    levels = [1, 2, 4, 8, 16, 32]
    result = fit(levels, [float(law(n, 250, 0.04, 0.0016)) for n in levels])
    known = [result[name] for name in ("lambda", "sigma", "kappa")]
    assert known == pytest.approx([250, 0.04, 0.0016], rel=1e-6)
    # sqrt(0.96 / 0.0016) = sqrt(600)
    assert result["peak"] == pytest.approx(math.sqrt(600), rel=1e-6)
    assert result["peak_rate"] == pytest.approx(float(law(math.sqrt(600), 250, 0.04, 0.0016)))
    assert result["r2"] == pytest.approx(1) and result["flags"] == ""
    # Without errors there is nothing to resample.
    assert result["peak_low"] == pytest.approx(result["peak_high"], rel=1e-6)


@pytest.mark.parametrize(
    ("sigma", "kappa", "peak", "rate", "flags"),
    [
        pytest.param(0.0, 0.0, math.inf, math.inf, "no peak", id="linear"),
        pytest.param(0.25, 0.0, math.inf, 40, "no peak", id="contention alone, lambda / sigma"),
        pytest.param(0.5, 0.8, 1, 10, "", id="best at one"),
        pytest.param(0.1, 0.009, 10, None, "extrapolated", id="a peak beyond the levels"),
    ],
)
def test_where_a_law_has_its_peak(sigma, kappa, peak, rate, flags):
    levels = [1, 2, 3, 4, 5]
    result = fit(levels, [float(law(n, 10, sigma, kappa)) for n in levels])
    fitted = (result["sigma"], result["kappa"])
    assert fitted == pytest.approx((sigma, kappa), rel=1e-5, abs=1e-9)
    assert result["peak"] == pytest.approx(peak, rel=1e-5)
    assert result["peak_rate"] == pytest.approx(rate or result["peak_rate"], rel=1e-6)
    assert result["flags"] == flags


@pytest.mark.parametrize(
    ("levels", "rates", "why"),
    [
        ([1, 2, 3, 3, 4], [1, 2, 2, 3, 3], "4 levels"),
        ([0.5, 1, 2, 4, 5], [1, 2, 3, 4, 5], "below 1"),
        ([1, 2, 3, 4, 5], [1, 2, 0, 4, 5], "not positive"),
        ([1, 2, 3, 4, 5], [1, 2, math.nan, 4, 5], "not positive"),
    ],
)
def test_what_cannot_be_fitted_says_why(levels, rates, why):
    assert why in not_fitted(levels, rates)
    with pytest.raises(ValueError, match=why):
        fit(levels, rates)


def test_intervals_cover_what_they_claim():
    levels = [1, 2, 4, 8, 16, 32]
    true = np.log([float(law(n, 100, 0.05, 0.002)) for n in levels])
    rng = np.random.default_rng(5)
    hits = {"known": 0, "residuals": 0}
    for _ in range(20):
        rates = np.exp(true + rng.normal(0, 0.05, 6)).tolist()
        for name, errors in (("known", [0.05] * 6), ("residuals", None)):
            result = fit(levels, rates, errors)
            hits[name] += result["sigma_low"] <= 0.05 <= result["sigma_high"]
    assert min(hits.values()) >= 17


def _published(engine):
    with PUBLISHED.open(encoding="utf-8") as file:
        rows = [r for r in csv.DictReader(file) if r["write_ops_s"] and r["engine"] == engine]
    rows = [r for r in rows if r["experiment"] == "nodes" and r["shard_key"] != "hashed _id"]
    return [float(r["db_nodes"]) for r in rows], [float(r["write_ops_s"]) for r in rows]


def test_published_node_scaling():
    levels, rates = _published("mongodb")
    assert levels == [1, 2, 3, 4, 13]
    result = fit(levels, rates)
    # As docs/studies.md has them.
    assert result["lambda"] == pytest.approx(4221, abs=1)
    assert result["kappa"] == pytest.approx(0.0032, abs=0.0001)
    assert result["peak"] == pytest.approx(15.1, abs=0.1)
    assert result["peak_rate"] == pytest.approx(11_666, abs=5)
    thousandths = [result[name] for name in ("sigma", "sigma_low", "sigma_high", "r2")]
    assert thousandths == pytest.approx([0.268, 0.006, 0.544, 0.988], abs=0.001)
    assert result["flags"] == "extrapolated" and result["basis"] == "residuals"
    assert result["kappa_low"] == 0 and math.isinf(result["peak_high"])
    assert "3 levels" in not_fitted(*_published("riak"))


def test_a_study_has_a_law_per_curve(made):
    tables = only(made.measured(**SCALED), engine="sqlite")
    table = usl(tables).table
    assert list(table["factor"]) == ["workers", "workers"]
    read = table[table["phase"] == "read"].iloc[0]
    assert (read["measure"], read["levels"], read["highest"]) == ("operations_per_s", 5, 8.0)
    assert read["reason"] == "" and read["basis"] == "repeats"
    # Synthetic stores read workers ** 0.8 times as fast as one.
    assert read["lambda"] == pytest.approx(9000, rel=0.1) and read["sigma"] > 0.01
    fewer = replace(tables, summary=tables.summary[tables.summary["workers"] < 8])
    short = usl(fewer).table
    assert len(short) == 2 and short["reason"].str.startswith("4 levels").all()
