"""Throughput and latency against figures worked out by hand."""

import math

import pytest
from support.results import synthetic
from support.results.tables import samples_of

from storewise.analysis.measure import throughput
from storewise.analysis.measure.latency import counted_tag
from storewise.analysis.stats.intervals import too_wide
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


def test_intervals_that_say_too_little():
    ends = [(1, 10), (1, 10.1), (0, 1), (-1, 1), (1, 1), (None, 1), (math.nan, 1)]
    assert [too_wide(*pair) for pair in ends] == [False, True, True, True, False, False, False]


def test_latencies_are_of_merged_logs_without_warm_up(tmp_path):
    synthetic.log(tmp_path / "read.0.hlog", "get", [1000] * 90)
    synthetic.log(tmp_path / "read.1.hlog", "get", [9000] * 10)
    synthetic.log(tmp_path / "read.2.hlog", "get", [10**9] * 500, warmup=True)
    merged = merge_all(sorted(tmp_path.glob("*.hlog")), counted_tag)
    assert set(merged) == {"get.service_time", "get.response_time"}
    values = percentiles(merged["get.service_time"], [50, 90, 95])
    assert values == pytest.approx({50: 1000, 90: 1000, 95: 9000}, rel=1e-3)
