"""What clients recorded becomes rows and intervals; counts that processes share, and progress."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from storewise.driver.arrivals import Pace
from storewise.driver.rate_search import summary_of
from storewise.driver.results import ProcessResult, StepResult, step_intervals, step_samples
from storewise.driver.worker_job import Step
from storewise.metrics.hdr import COUNTERS, add_up, bucket_indexes, percentiles
from storewise.metrics.recorder import NS, Recorder
from storewise.study.sweep import Clients
from storewise.workloads.contract import PhaseParams, SearchParams

ZERO = 5 * NS
MS = NS // 1000


def recorded(*operations):
    """What a recorder keeps of operations: name, owner, when due, begun and ended (s), failed."""
    recorder = Recorder(ZERO)
    recorder.wake = 1 << 62
    for name, owner, due, begun, ended, failed in operations:
        times = (ZERO + round(at * NS) for at in (due, begun, ended))
        recorder.record(recorder.code(name, owner), *times, 3, 60, error=failed)
    return recorder.result(ZERO + round(operations[-1][4] * NS) if operations else ZERO)


def step(clients, **params):
    return Step(2, PhaseParams(**params), clients)


@pytest.fixture
def measured():
    """An open loop of 2.5 s, its first second warm-up; three processes, of which one has no
    client. The node `n1` answered one get, and failed in another."""
    first = recorded(
        ("get", "n1", 0.1, 0.1, 0.3, False),
        ("get", None, 1.0, 1.2, 1.5, False),
        ("put", "n2", 1.6, 1.6, 2.1, False),
    )
    second = recorded(("get", "n1", 1.1, 1.1, 1.2, True), ("get", "n2", 1.2, 1.2, 1.4, False))
    processes = [
        ProcessResult(first, ZERO + 25 * NS // 10, 900, pace=Pace(5, 1, NS, 0)),
        ProcessResult(second, ZERO + 14 * NS // 10, None, pace=Pace(4, 2, 2 * NS, NS // 2)),
        ProcessResult(recorded(), ZERO, None, pace=None),
    ]
    params = {"seconds": 2.5, "warmup": 1.0, "rate": 40.0}
    return StepResult(step(Clients(1, 2), **params), ZERO, 1000.0, processes)


def test_rows_of_a_step(measured):
    rows = step_samples(measured, "run", 0, 1, loads=False)
    assert {(r.phase, r.step, r.worker) for r in rows} == {("run", 2, 0)}
    whole = {r.metric: r.value for r in rows if r.process is None and r.node is None}
    figures = {"target_rate": 40.0, "intended_operations": 9, "unserved_operations": 3}
    assert whole == {"started_at": 1000.0, "duration": 2.5, **figures}

    def of(process, second, operation):
        place = (process, second, operation)
        return {r.metric: r.value for r in rows if (r.process, r.second, r.operation) == place}

    times = {"service_time_sum": pytest.approx(0.2), "prepare_time_sum": pytest.approx(0.1)}
    counts = {"operations": 1, "documents": 3, "bytes": 60, "errors": 0}
    assert of(0, 0, "get") == {**counts, **times}
    # What ends in a second counts in it; totals are over all seconds and owners.
    assert of(0, 1, "get")["operations"] == of(0, 2, "put")["operations"] == 1
    assert of(0, None, "get")["operations"] == 2
    assert of(0, None, "get")["service_time_sum"] == pytest.approx(0.5)
    assert (of(1, None, "get")["operations"], of(1, None, "get")["errors"]) == (1, 1)
    assert of(0, None, None) == {"duration": 2.5, "store_bytes": 900.0}
    assert of(1, None, None) == {"duration": pytest.approx(1.4)}
    assert of(2, None, None) == {}, "without clients it has no run time"
    assert {r.second for r in rows if r.warmup} == {0}
    owned = {(r.operation, r.node, r.metric): r.value for r in rows if r.node}
    done = {("get", "n1"), ("get", "n2"), ("put", "n2")}
    operations = {(*of, "owner_operations"): 1 for of in done}
    errors = {(*of, "owner_errors"): of == ("get", "n1") for of in done}
    assert owned == operations | errors


def test_a_load_says_what_was_acknowledged_and_a_worker_its_share_of_the_rate(measured):
    rows = step_samples(measured, "load", 0, 2, loads=True)
    values = {r.metric: r.value for r in rows if r.process is None and r.node is None}
    # Of two clients over two workers one is here; the other is in the second worker.
    assert values["target_rate"] == 20.0
    assert values["acknowledged"] == 3 * 4
    nothing = [ProcessResult(recorded(), ZERO + NS, None)]
    idle = StepResult(step(Clients(1, 1)), ZERO, 1000.0, nothing)
    (started,) = step_samples(idle, "c", 1, 2, loads=False)
    assert started.metric == "started_at", "a worker without clients has no run time"
    assert StepResult(measured.step, ZERO, 1000.0, nothing).pace == Pace()
    assert idle.pace is None
    assert measured.pace == Pace(9, 3, 2 * NS, NS // 2), "that of all clients"
    part = StepResult(step(Clients(1), seconds=9, warmup=1.5), ZERO, 0.0, measured.processes)
    for one, warm in ((measured, [True, False, False]), (part, [True, True, False])):
        assert [one.is_warmup(n) for n in (0, 1, 2)] == warm


def test_intervals_of_a_step(measured):
    found = list(step_intervals(measured, 990.0))
    assert [one.start for one in found] == sorted(one.start for one in found)
    assert {one.start: one.length for one in found} == {10.0: 1.0, 11.0: 1.0, 12.0: 0.5}
    counts = {
        (one.start - 10, str(one.tag)): one.histogram.get_total_count()
        for one in found
        if one.tag.time == "service_time"
    }
    get, put = "get.service_time;step=2", "put.service_time;step=2"
    assert counts == {
        **{(0, f"{get};warmup"): 1, (0, f"{get};owner=n1;warmup"): 1},
        **{(1, get): 2, (1, f"{get};owner=n2"): 1},
        **{(1, f"{get};failed"): 1, (1, f"{get};owner=n1;failed"): 1},
        **{(2, put): 1, (2, f"{put};owner=n2"): 1},
    }
    (response,) = (one for one in found if str(one.tag) == "get.response_time;step=2")
    slowest = percentiles(response.histogram, [100])[100]
    assert slowest == pytest.approx(0.5 * NS, rel=0.001)
    # An operation may be recorded in a second that has hardly begun when the step ends.
    early = [ProcessResult(done.recorded, ZERO + 2 * NS, None) for done in measured.processes]
    found = step_intervals(StepResult(measured.step, ZERO, 1000.0, early), 1000.0)
    assert {one.start: one.length for one in found} == {0.0: 1.0, 1.0: 1.0, 2.0: 0.001}


@given(st.lists(st.dictionaries(st.integers(0, COUNTERS - 1), st.integers(1, 9)), max_size=5))
def test_sparse_histograms_add_up(parts):
    expected = {}
    for part in parts:
        for index, count in part.items():
            expected[index] = expected.get(index, 0) + count
    arrays = [(np.array(list(p), int), np.array(list(p.values()), int)) for p in parts]
    indexes, counts = add_up(arrays)
    assert dict(zip(indexes.tolist(), counts.tolist(), strict=True)) == expected
    assert indexes.tolist() == sorted(expected)


@pytest.mark.parametrize(("time", "values"), [("response", {500, 200}), ("service", {300, 200})])
def test_a_summary_is_of_successes_after_the_warmup(measured, time, values):
    search = SearchParams(limit_ms=1, low=1, high=2, time=time)
    summary = summary_of(measured, search)
    assert (summary.intended, summary.succeeded, summary.failed) == (9, 4, 1)
    assert sum(summary.counts) == 3, "the first second is warm-up, and one has failed"
    of_values = bucket_indexes(np.array([v * MS for v in (*values, 500)])).tolist()
    assert set(summary.indexes) == set(of_values)
