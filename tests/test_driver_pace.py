"""Open loops: intended starts, waiting, response times, and what is left when time is over."""

import itertools
import threading
import time

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from storewise.driver.loop import open_loop
from storewise.driver.pace import Paced, arrivals
from storewise.errors import EngineError
from storewise.metrics.hdr import bucket_indexes
from storewise.metrics.recorder import NS, Recorder
from storewise.workloads.base import Operation

MS = 1_000_000
LIMIT = int(bucket_indexes(np.array([50 * MS]))[0])


def first(kind, rate, client=0, clients=1, seed=5, step=0, count=2000):
    return list(itertools.islice(arrivals(kind, rate, client, clients, seed, step), count))


@pytest.mark.parametrize("clients", [1, 3])
def test_constant_arrivals_of_all_clients_are_evenly_spread(clients):
    rate = 700.0
    found = sorted(
        at for client in range(clients) for at in first("constant", rate, client, clients)
    )
    gaps = np.diff(found)
    assert found[0] == 0
    assert abs(gaps - NS / rate).max() <= 1
    assert found[1000] == pytest.approx(1000 * NS / rate, abs=1)


@pytest.mark.parametrize("clients", [1, 4])
def test_poisson_gaps_are_exponential(clients):
    """Chi-square of the gaps of all clients together, in 20 classes that are equally likely."""
    rate = 500.0
    horizon = 20 * NS
    found = []
    for client in range(clients):
        own = arrivals("poisson", rate, client, clients, 7, 0)
        found += itertools.takewhile(lambda at: at < horizon, own)
    gaps = np.diff(np.sort(found)) / NS
    edges = -np.log(1 - np.arange(1, 20) / 20) / rate
    counts = np.bincount(np.searchsorted(edges, gaps), minlength=20)
    assert stats.chisquare(counts).pvalue > 0.001
    # The number within the time is Poisson: mean and variance are 10,000.
    assert abs(len(found) - 10_000) < 4 * 100


def test_poisson_streams_belong_to_seed_step_and_client():
    same = first("poisson", 100, seed=5, count=20)
    assert same == first("poisson", 100, seed=5, count=20)
    for other in ({"seed": 6}, {"step": 1}, {"client": 1, "clients": 2}):
        assert same != first("poisson", 100, **{"seed": 5, "count": 20, **other})


def test_a_stall_is_in_the_response_times_of_all_that_waited():
    """One operation of 200 ms at 200 operations/s: forty are due meanwhile. Their service times
    are short; a closed loop, or times from the actual start, would not show that they waited."""
    calls = itertools.count()

    def call():
        if next(calls) == 20:
            time.sleep(0.2)
        return 1

    operations = itertools.repeat(Operation("get", call), 100)
    recorder = Recorder(time.perf_counter_ns())
    paced = open_loop(operations, recorder, iter(arrivals("constant", 200, 0, 1, 1, 0)))
    recorded = recorder.result()
    waited = served = 0
    for h in recorded.histograms:
        slow = int(h.counts[h.indexes > LIMIT].sum())
        if h.time == "response_time":
            waited += slow
        else:
            served += slow
    assert served == 1
    # Those due in the first 150 ms of the stall waited for more than 50 ms: thirty at least.
    assert 29 <= waited <= 100
    assert sum(c.operations for c in recorded.counters.values()) == 100
    assert paced.intended == 100
    assert paced.unserved == 0
    assert paced.span == pytest.approx(99 * 5 * MS, abs=2)


def test_what_is_due_and_has_not_begun_is_unserved():
    def call():
        time.sleep(0.01)
        return 1

    recorder = Recorder(time.perf_counter_ns())
    deadline = recorder.zero + 300 * MS
    paced = open_loop(
        itertools.repeat(Operation("get", call)),
        recorder,
        arrivals("constant", 1000, 0, 1, 1, 0),
        deadline=deadline,
    )
    done = sum(c.operations for c in recorder.result().counters.values())
    assert paced.intended == 300
    assert 0 < done <= 30
    assert paced.unserved == 300 - done
    assert paced.missed > 0.8


def test_a_share_ends_what_is_due():
    operations = itertools.repeat(Operation("get", lambda: time.sleep(0.02) or 1), 40)
    recorder = Recorder(time.perf_counter_ns())
    paced = open_loop(
        operations,
        recorder,
        arrivals("constant", 1000, 0, 1, 1, 0),
        share=40,
        deadline=recorder.zero + 200 * MS,
    )
    done = sum(c.operations for c in recorder.result().counters.values())
    assert paced.intended == 40
    assert paced.unserved == 40 - done > 0


def test_a_step_lasts_as_long_as_it_was_told():
    recorder = Recorder(time.perf_counter_ns())
    deadline = recorder.zero + 250 * MS
    paced = open_loop(
        itertools.repeat(Operation("get", lambda: 1)),
        recorder,
        arrivals("constant", 10, 0, 1, 1, 0),
        deadline=deadline,
    )
    assert time.perf_counter_ns() >= deadline
    assert (paced.intended, paced.unserved, paced.missed) == (3, 0, 0.0)
    recorded = recorder.result()
    # Waiting is nobody's preparation.
    assert sum(c.prepare_ns for c in recorded.counters.values()) < 150 * MS


def test_waiting_takes_next_to_no_processor_time():
    recorder = Recorder(time.perf_counter_ns())
    used = time.thread_time_ns()
    open_loop(
        itertools.repeat(Operation("get", lambda: 1), 100),
        recorder,
        arrivals("constant", 200, 0, 1, 1, 0),
    )
    assert time.thread_time_ns() - used < 250 * MS  # of 500 ms


def test_failed_operations_are_recorded_and_a_stop_is_seen():
    def fail():
        raise EngineError("no")

    recorder = Recorder(time.perf_counter_ns())
    open_loop(
        itertools.repeat(Operation("get", fail), 5), recorder, arrivals("poisson", 1e4, 0, 1, 1, 0)
    )
    recorded = recorder.result()
    assert sum(c.errors for c in recorded.counters.values()) == 5
    assert recorded.first_error == "get: no"
    with pytest.raises(EngineError):
        open_loop(
            itertools.repeat(Operation("get", fail), 5),
            Recorder(time.perf_counter_ns()),
            arrivals("constant", 1e4, 0, 1, 1, 0),
            fatal=True,
        )
    stop = threading.Event()
    threading.Timer(0.1, stop.set).start()
    paced = open_loop(
        itertools.repeat(Operation("get", lambda: 1), 5),
        Recorder(time.perf_counter_ns()),
        arrivals("constant", 0.01, 0, 1, 1, 0),  # the second operation is due in 100 s
        stopped=stop.is_set,
    )
    assert paced.intended == 1


@settings(deadline=None)
@given(
    st.lists(
        st.tuples(
            st.integers(0, 1000), st.integers(0, 1000), st.integers(0, NS), st.integers(0, NS)
        ),
        max_size=8,
    )
)
def test_the_pace_of_several_clients_is_one(parts):
    whole = Paced()
    for intended, unserved, span, late in parts:
        whole.merge(Paced(max(intended, unserved), unserved, span, late))
    assert whole.intended >= whole.unserved
    assert 0 <= whole.missed <= 1
    if not any(unserved or late for _, unserved, _, late in parts):
        assert whole.missed == 0
