"""The figures of `storewise compare`: ratios, tests and limits by hand."""

import math

import numpy as np
import pytest
from scipy import stats

from storewise.analysis.stats.intervals import estimate, holm_adjusted, p_value, pooled
from storewise.compare.compare import independent
from storewise.compare.gate import parse_limit
from storewise.errors import ResultError


def test_the_ratio_of_two_studies_is_welchs_test_of_logarithms():
    a, b = [10.0, 11.0, 10.5, 9.8, 10.1, 10.4], [8.0, 9.5, 7.9, 8.8, 9.9]
    result = independent(estimate(b), estimate(a))
    expected = stats.ttest_ind(np.log(b), np.log(a), equal_var=False)
    interval = expected.confidence_interval()
    assert result.mean == pytest.approx(stats.gmean(b) / stats.gmean(a))
    assert (result.low, result.high) == pytest.approx(tuple(np.exp(interval)), rel=1e-6)
    assert p_value(result) == pytest.approx(expected.pvalue, rel=1e-6)
    # A one-sided p is that of a shifted test.
    shifted = np.log([0.9 * value for value in a])
    expected = stats.ttest_ind(np.log(b), shifted, equal_var=False, alternative="less")
    assert p_value(result, 0.9, "less") == pytest.approx(expected.pvalue, rel=1e-6)


def test_spreads_that_were_pooled_apart_keep_their_own_degrees_of_freedom():
    a, other, _ = pooled([[10.0, 11.0], [20.0, 21.0], [5.0, 5.5]])
    b = pooled([[8.0, 8.2], [16.0, 16.5], [4.0, 4.2]])[0]
    result = independent(b, a)
    error = math.hypot(a.error, b.error)
    # Welch and Satterthwaite, with the three degrees of freedom of each pool.
    freedom = error**4 / (a.error**4 / 3 + b.error**4 / 3)
    assert (result.error, result.freedom) == pytest.approx((error, freedom))
    assert 3 < result.freedom < 6
    assert independent(other, a, shared=True).freedom == 3


def test_pairs_without_p_count_for_nothing():
    # Holm's correction by hand: sorted, the four p-values are multiplied by 4, 3, 2 and 1.
    result = holm_adjusted([0.03, math.nan, 0.01, 0.5, 0.02]).tolist()
    assert result == pytest.approx([0.06, math.nan, 0.04, 0.5, 0.06], nan_ok=True)
    assert len(holm_adjusted([])) == 0 and math.isnan(holm_adjusted([None])[0])


def test_limits():
    for text, share in (("10%", 0.1), (" 2.5 % ", 0.025), ("0%", 0.0)):
        assert parse_limit(text) == pytest.approx(share)
    for text in ("10", "-5%", "100%", "a%", "", "1e1%", "nan%"):
        with pytest.raises(ResultError, match="expected a percentage"):
            parse_limit(text)
