"""Throughput, intervals, scaling and latency against figures worked out by hand."""

import math

import numpy as np
import pandas as pd
import pytest
from scipy import stats
from support.results import synthetic
from support.results.tables import samples_of

from storewise.analysis.measure import throughput
from storewise.analysis.measure.latency import counted_tag
from storewise.analysis.measure.scaling import scaling
from storewise.analysis.stats.intervals import MIN_SECONDS, estimate, pooled, ratio
from storewise.metrics.hdr import merge_all, percentiles


def measures(samples):
    table = throughput.throughput(samples)
    return dict(zip(table["measure"], table["value"], strict=True))


def test_load_rate_is_documents_over_the_wall_time_of_the_slowest_worker():
    rows = []
    for worker, wall in ((0, 1.5), (1, 1.75)):
        inserted, of = [(3, 3000), (1, 500)], {"worker": worker}
        rows += synthetic.counts("write", "insert", inserted, service=0.5, prepare=0.75, **of)
        rows += synthetic.counts("write", "finish", [(1, 0)], service=0.25, **of)
        rows += synthetic.times("write", wall, **of)
    result = measures(samples_of(rows))
    assert result["documents_per_s"] == pytest.approx(7000 / 1.75)
    assert result["operations_per_s"] == pytest.approx(8 / 1.75)
    # Each worker: 3500 documents in 0.5 s of inserting and 0.25 s of finishing.
    assert result["insert_documents_per_s"] == pytest.approx(2 * 3500 / 0.75)
    assert result["parse_share"] == pytest.approx(0.75 / 1.5)


def test_insert_rate_divides_the_time_of_threads_among_them():
    rows = synthetic.counts("write", "insert", [(4, 4000)], service=2.0, prepare=1.0)
    # Four threads were 2 s in calls together, so each for half a second.
    clients = {("t", "write"): (4, 1)}
    result = measures(samples_of([*rows, *synthetic.times("write", 1.0)], clients=clients))
    assert result["insert_documents_per_s"] == pytest.approx(8000)


def read(seconds, wall, *, warmup=0, worker=0):
    rows = synthetic.counts("read", "get", [(n, n) for n in seconds], warmup=warmup, worker=worker)
    return [*rows, *synthetic.times("read", wall, worker=worker)]


def rate_of(samples):
    table = throughput.throughput(samples)
    (row,) = table[table["measure"] == "operations_per_s"].to_dict("records")
    return row["value"], [w.code for w in throughput.short_phases(table)]


def test_steady_part_leaves_out_warm_up_first_and_partial_last_second():
    samples = samples_of(read([10, 50, 100, 110, 120, 90, 7], 6.25, warmup=2))
    by_second = throughput.series(samples)
    assert by_second["steady"].to_list() == [False, False, True, True, True, True, False]
    assert by_second["length"].iloc[-1] == pytest.approx(0.25)
    assert by_second["operations_per_s"].iloc[-1] == pytest.approx(28)
    assert rate_of(samples) == (pytest.approx((100 + 110 + 120 + 90) / 4), [])


def test_steady_part_ends_when_the_first_worker_has_ended():
    rows = [*read([100] * 8, 8.0), *read([50] * 5 + [20], 5.5, worker=1)]
    assert rate_of(samples_of(rows))[0] == pytest.approx(150)


def test_short_phase_counts_all_after_the_warm_up_and_is_warned_of():
    samples = samples_of(read([10, 60, 30], 2.5, warmup=1))
    assert rate_of(samples) == (pytest.approx(90 / 1.5), ["short_phase"])


@pytest.mark.parametrize("warmup", [0, 4, 20])
def test_one_operation_that_outlasts_its_phase_is_a_figure(warmup):
    samples = samples_of(read([0] * 9 + [1], 9.6, warmup=warmup))
    after = 9.6 - warmup if warmup < 9.6 else 9.6
    assert rate_of(samples) == (pytest.approx(1 / after), [])
    # Of a few slow ones the last ends in the second that is cut off.
    samples = samples_of(read([0, 0, 0, 1] * 3 + [1], 12.5))
    assert rate_of(samples) == (pytest.approx(4 / 12.5), [])


def test_seconds_without_a_finished_operation_count_as_nothing():
    rows = [row for row in read([10] * 8, 8.0) if row.second != 3]
    by_second = throughput.series(samples_of(rows))
    assert by_second["operations"].to_list() == [10, 10, 10, 0, 10, 10, 10, 10]


def test_totals_come_from_seconds_where_there_are_none_and_never_count_twice():
    rows = synthetic.counts("read", "get", [(10, 10), (20, 20)])
    sums = [r._replace(process=None) for r in rows]  # the worker's sum beside its process
    for told in ([*rows, *sums], [r for r in rows if r.second is not None]):
        samples = samples_of([*told, *synthetic.times("read", 2.0)])
        for table in ("totals", "per_second"):
            counted = samples.table(f"FROM {table} WHERE metric = 'operations'")
            assert counted["value"].sum() == 30


def test_interval_over_repeats_by_hand():
    values = [100.0, 200.0]
    result = estimate(values)
    assert result.n == 2
    assert result.mean == pytest.approx(math.sqrt(100 * 200))
    # On logarithms: the bootstrap error of two values is half their distance over sqrt(2), the
    # correction sqrt(2) makes it the usual standard error of the mean.
    error = abs(math.log(2)) / 2
    half = stats.t.ppf(0.975, 1) * error
    assert math.log(result.high / result.mean) == pytest.approx(half, rel=0.05)
    assert result.resampled == "repeats"
    assert estimate(values) == result  # seeded


def test_intervals_of_repeats_cover_what_they_claim():
    rng = np.random.default_rng(3)
    for n in (2, 3, 6):
        each = [estimate(list(np.exp(rng.normal(5, 0.1, n)))) for _ in range(200)]
        assert np.mean([e.low <= math.exp(5) <= e.high for e in each]) > 0.90
    # So does a shared spread.
    rows = [pooled(100.0 * np.exp(rng.normal(0, 0.1, size=(8, 2)))) for _ in range(300)]
    hits = [e.low <= 100.0 <= e.high for row in rows for e in row if e is not None]
    assert 0.93 < np.mean(hits) < 0.97


def test_equal_values_have_a_point_and_one_value_has_no_interval():
    same = estimate([3.0, 3.0])
    assert (same.low, same.high) == (pytest.approx(3.0), pytest.approx(3.0))
    single = estimate([3.0])
    assert (single.resampled, single.known()) == ("none", False)
    zero = estimate([0.0, 0.0])
    assert (zero.mean, zero.log) == (0.0, False)
    with pytest.raises(ValueError, match="no value"):
        estimate([])


def test_single_repeat_takes_its_interval_from_its_seconds():
    # 110, 110, 90, 90 ...: neighbours' products are 1, -1, ..., 1 (sum 1) over 12, so r is
    # (12 / 12 + 1) / 8 = 0.25 and 12 seconds are worth 12 * 0.75 / 1.25 = 7.2.
    seconds = [110.0, 110, 90, 90] * 3
    result = estimate([100.0], seconds)
    error = 0.1 * math.sqrt(12 / 11) / math.sqrt(7.2)
    assert result.error == pytest.approx(error) and result.freedom == pytest.approx(6.2)
    assert math.log(result.high / 100) == pytest.approx(stats.t.ppf(0.975, 6.2) * error)
    assert result.resampled == "seconds"
    assert estimate([100.0], seconds[: MIN_SECONDS - 1]).resampled == "none"


@pytest.mark.parametrize(("r", "least"), [(0.0, 0.92), (0.7, 0.85)])
def test_intervals_of_few_seconds_cover_what_they_claim(r, least):
    rng = np.random.default_rng(5)
    hits = 0
    for _ in range(300):
        noise = [float(rng.normal())]
        for _ in range(19):
            noise.append(r * noise[-1] + math.sqrt(1 - r * r) * float(rng.normal()))
        result = estimate([100.0], [100 + 5 * one for one in noise])
        # About the true rate, not about that of these seconds.
        mean = 100 + 5 * float(np.mean(noise))
        hits += result.low / 100 <= 100 / mean <= result.high / 100
    assert hits / 300 > least


def test_a_noisy_setting_keeps_its_own_spread():
    steady = [[100.0, 101.0, 102.0], [50.0, 50.5, 51.0], [80.0, 80.4, 81.0]]
    noisy, other = [100.0, 140.0, 70.0], [10.0, 14.0, 7.0]
    result = pooled([*steady, noisy])
    # It stays in what the others share, which is on the safe side.
    assert result[3] is None and [one.freedom for one in result[:3]] == [8, 8, 8]
    # Two that are like each other share: each has 2 degrees of freedom.
    result = pooled([*steady, *steady, noisy, other])
    assert (result[0].freedom, result[6].freedom, result[7].freedom) == (16, 4, 4)
    squares = [(math.log(v) - float(np.mean(np.log(noisy)))) ** 2 for v in noisy]
    assert result[6].error == pytest.approx(math.sqrt(sum(squares) / 2 / 3))
    # Spreads of two kinds are two estimates: degrees of freedom of Welch.
    both = math.hypot(result[6].error, result[0].error)
    welch = both**4 / (result[6].error ** 4 / 4 + result[0].error ** 4 / 16)
    of = ratio(result[6], result[0])
    quotient = result[6].mean / result[0].mean
    assert (of.mean, of.error, of.freedom) == pytest.approx((quotient, both, welch))
    assert math.log(of.high / of.mean) == pytest.approx(stats.t.ppf(0.975, welch) * both)
    assert ratio(result[6], result[7]).freedom == 4
    assert not ratio(result[6], estimate([1.0])).known()


def test_speedup_and_efficiency_by_hand():
    rows = pd.DataFrame({"workers": [2, 4, 8], "mean": [100.0, 150.0, 300.0]})
    rows = rows.assign(engine="sqlite", index="none", low=rows["mean"], high=rows["mean"])
    rows = rows.assign(phase="read", step=0, measure="documents_per_s", n=2)
    rows = rows.assign(resampled="repeats", error=0.0, freedom=1.0)
    table = scaling(rows, ["engine", "workers", "index"])
    shown = table.set_index(["quantity", "level"])["mean"]
    assert shown["speedup"].to_dict() == {2.0: 1.0, 4.0: 1.5, 8.0: 3.0}
    assert shown["efficiency"].to_dict() == {2.0: 1.0, 4.0: 0.75, 8.0: 0.75}
    assert scaling(rows[:1], ["engine", "workers", "index"]).empty


def test_latencies_are_of_merged_logs_without_warm_up(tmp_path):
    synthetic.log(tmp_path / "read.0.hlog", "get", [1000] * 90)
    synthetic.log(tmp_path / "read.1.hlog", "get", [9000] * 10)
    synthetic.log(tmp_path / "read.2.hlog", "get", [10**9] * 500, warmup=True)
    merged = merge_all(sorted(tmp_path.glob("*.hlog")), counted_tag)
    assert set(merged) == {"get.service_time", "get.response_time"}
    values = percentiles(merged["get.service_time"], [50, 90, 95])
    assert values == pytest.approx({50: 1000, 90: 1000, 95: 9000}, rel=1e-3)


def test_few_repeats_share_the_spread_of_all_settings():
    settings = [[100.0, 110.0], [1000.0, 900.0], [5.0], [2.0, 2.0], [1.0, 2.0, 3.0, 4.0, 5.0]]
    result = pooled(settings)
    assert result[2] is None, "a single repeat has no spread to give or take"
    assert result[4] is None, "enough repeats for a spread of its own"
    # By hand: residuals of two values are half their log ratio; n / (n - 1) is 2.
    squares = [(math.log(b / a) / 2) ** 2 * 2 for a, b in settings[:2] for _ in (0, 1)] + [0, 0]
    error = math.sqrt(sum(squares) / 6 / 2)
    first = result[0]
    assert first.error == pytest.approx(error)
    assert (first.freedom, first.resampled, first.n) == (3.0, "pooled", 2)
    assert first.mean == pytest.approx(math.sqrt(100 * 110))
    half = stats.t.ppf(0.975, 3) * error
    assert math.log(first.high / first.mean) == pytest.approx(half)
    assert pooled([[1.0, 2.0], [0.0, 1.0]]) == [None, None], "nobody to share with"
