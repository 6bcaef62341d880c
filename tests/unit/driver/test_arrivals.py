"""Loops: intended starts, waiting, response times, and what is left when time is over."""

import itertools
import threading
from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats
from support.fake_time import FakeTime

from storewise.driver.arrivals import Pace, arrivals
from storewise.driver.loops import run_loop
from storewise.errors import EngineError
from storewise.metrics.hdr import bucket_indexes
from storewise.metrics.recorder import NS, Recorder
from storewise.workloads.contract import Operation

MS = 1_000_000
#: What reading the clock takes where a loop waits by it, ns.
READING = 10_000


def first(kind, rate, client=0, clients=1, seed=5, step=0, count=2000):
    return list(itertools.islice(arrivals(kind, rate, client, clients, seed, step), count))


@pytest.mark.parametrize("clients", [1, 3])
def test_constant_arrivals_of_all_clients_are_evenly_spread(clients):
    rate = 700.0
    result = sorted(at for n in range(clients) for at in first("constant", rate, n, clients))
    assert result[0] == 0
    assert abs(np.diff(result) - NS / rate).max() <= 1
    assert result[1000] == pytest.approx(1000 * NS / rate, abs=1)


@pytest.mark.parametrize("clients", [1, 4])
def test_poisson_gaps_are_exponential(clients):
    """Chi-square of the gaps of all clients together, in 20 classes that are equally likely."""
    rate = 500.0
    horizon = 20 * NS
    result = []
    for client in range(clients):
        times = arrivals("poisson", rate, client, clients, 7, 0)
        result += itertools.takewhile(lambda at: at < horizon, times)
    gaps = np.diff(np.sort(result)) / NS
    edges = -np.log(1 - np.arange(1, 20) / 20) / rate
    counts = np.bincount(np.searchsorted(edges, gaps), minlength=20)
    assert stats.chisquare(counts).pvalue > 0.001
    # The number within the time is Poisson: mean and variance are 10,000.
    assert abs(len(result) - 10_000) < 4 * 100


def test_poisson_streams_belong_to_seed_step_and_client():
    same = first("poisson", 100, count=20)
    assert same == first("poisson", 100, count=20)
    for other in ({"seed": 6}, {"step": 1}, {"client": 1, "clients": 2}):
        assert same != first("poisson", 100, **{"count": 20, **other})


class Client:
    """Operations that last as long as a test says, and when each of them began and ended (ns)."""

    def __init__(self, time, lasts=lambda number: 0.0):
        self.time, self.lasts = time, lasts
        self.begun, self.ended = [], []

    def __call__(self):
        self.begun.append(self.time.ns)
        self.time.spend(self.lasts(len(self.ended)))
        self.ended.append(self.time.ns)
        return 1

    def operations(self, count=None):
        operation = Operation("get", self)
        return itertools.repeat(operation) if count is None else itertools.repeat(operation, count)


def constant(rate):
    return arrivals("constant", rate, 0, 1, 1, 0)


def open_one(time, operations, intended, seconds=None, **options):
    """An open loop of one client, and what it recorded."""
    recorder = Recorder(time.ns, clock=time.clock_ns)
    if seconds is not None:
        options["deadline"] = recorder.zero + int(seconds * NS)
    options = {"clock": time.clock_ns, "sleep": time.sleep, **options}
    return run_loop(operations, recorder, intended, **options), recorder.result()


def counted(recorded, kind):
    """Operations by the bucket of their histogram."""
    result = Counter()
    for h in recorded.histograms:
        if h.time == kind:
            result.update(dict(zip(h.indexes.tolist(), h.counts.tolist(), strict=True)))
    return result


def buckets(values):
    return Counter(bucket_indexes(np.array(values)).tolist())


@pytest.fixture
def time():
    return FakeTime(tick=READING)


def done(recorded):
    return sum(c.operations for c in recorded.counters.values())


def test_a_closed_loop_reads_its_clock_twice_an_operation():
    time = FakeTime()
    client = Client(time, lambda number: 0.001 * (1 + number % 2))
    recorder = Recorder(time.ns, clock=time.clock_ns)
    looks = []
    run_loop(
        client.operations(),
        recorder,
        deadline=recorder.zero + 301 * MS,
        progress=lambda operations, documents: looks.append((time.ns - recorder.zero, operations)),
        clock=time.clock_ns,
    )
    # 1 ms and 2 ms in turn; the one that is under way at the deadline is ended.
    assert len(client.begun) == 201
    assert looks == [(250 * MS, 167), (301 * MS, 201)], "after each quarter of a second"
    assert time.readings == 2 * 201 + 2, "two an operation, and one whenever a slice is worked up"
    recorded = recorder.result()
    times = [MS, 2 * MS] * 100 + [MS]
    for kind in ("service_time", "response_time"):
        assert counted(recorded, kind) == buckets(times)
    (counter,) = recorded.counters.values()
    assert (counter.operations, counter.service_ns, counter.prepare_ns) == (201, sum(times), 0)


def test_a_closed_loop_sees_a_stop_within_a_quarter_of_a_second():
    time = FakeTime()
    client = Client(time, lambda number: 0.01)
    recorder = Recorder(time.ns, clock=time.clock_ns)
    run_loop(
        client.operations(), recorder, stopped=lambda: len(client.ended) > 30, clock=time.clock_ns
    )
    assert len(client.ended) == 50


def test_a_stall_is_in_the_response_times_of_all_that_waited():
    """One operation of 200 ms at 200 operations/s: forty are due meanwhile. Their service times
    are short; a closed loop, or times from the actual start, would not show that they waited."""
    time = FakeTime(tick=READING)
    client = Client(time, lambda number: 0.2 if number == 20 else 0.0)
    zero = time.ns
    pace, recorded = open_one(time, client.operations(100), constant(200))
    due = [zero + number * 5 * MS for number in range(100)]
    # The first waits for nothing. Each other one begins two readings after it is due, ...
    late = [begun - at - 2 * READING for begun, at in zip(client.begun, due, strict=True)]
    assert {number for number, by in enumerate(late) if by and number} == set(range(21, 61))
    # ... or, while there is something to make up for, as soon as the last one has ended.
    gaps = {client.begun[k] - client.ended[k - 1] for k in range(22, 61)}
    assert gaps == {4 * READING}
    # The clock is read once more when an operation has ended.
    times = {
        "response_time": [end + READING - at for end, at in zip(client.ended, due, strict=True)],
        "service_time": [
            end + READING - begun for end, begun in zip(client.ended, client.begun, strict=True)
        ],
    }
    for kind, values in times.items():
        assert counted(recorded, kind) == buckets(values)
    # Those due in the first 150 ms of the stall waited for 50 ms or more.
    assert sum(value >= 50 * MS for value in times["response_time"]) == 31
    assert sum(value >= 50 * MS for value in times["service_time"]) == 1
    assert done(recorded) == 100
    assert pace == Pace(100, 0, 99 * 5 * MS, 0)


def test_what_is_due_and_has_not_begun_is_unserved():
    time = FakeTime()
    client = Client(time, lambda number: 0.01)
    pace, recorded = open_one(time, client.operations(), constant(1000), seconds=0.3)
    assert done(recorded) == len(client.begun) == 30
    # The last one began after 290 ms, and was due after 29.
    assert pace == Pace(intended=300, unserved=270, span=29 * MS, late=260 * MS)
    assert pace.missed == 0.9
    # No more is due than the client's share.
    pace, recorded = open_one(time, client.operations(40), constant(1000), seconds=0.1, count=40)
    assert (done(recorded), pace.intended, pace.unserved) == (10, 40, 30)


def test_a_step_lasts_as_long_as_it_was_told(time):
    zero = time.ns
    pace, recorded = open_one(time, Client(time).operations(), constant(10), seconds=0.25)
    # `result` has read the clock once more.
    assert time.ns == zero + 250 * MS + READING
    assert (pace.intended, pace.unserved, pace.missed) == (3, 0, 0.0)
    # Waiting is nobody's preparation: it is three readings before the first one, then two.
    assert sum(c.prepare_ns for c in recorded.counters.values()) == (3 + 2 + 2) * READING


def test_waiting_is_sleeping(time):
    """All of a wait but the 40 µs in which a sleep may end late."""
    client = Client(time)
    open_one(time, client.operations(100), constant(200))
    assert len(time.sleeps) == 99
    waits = [begun - ended for begun, ended in zip(client.begun[1:], client.ended, strict=False)]
    awake = [wait - round(slept * NS) for wait, slept in zip(waits, time.sleeps, strict=True)]
    # Awake are the 40 µs and four readings: at the end, before the sleep, for the deadline, at the
    # start; and one more where a slice was worked up.
    assert Counter(awake) == {40_000 + 4 * READING: 98, 40_000 + 5 * READING: 1}


def test_failed_operations_are_recorded_and_a_stop_is_seen(time):
    def fail():
        raise EngineError("no")

    failing = [Operation("get", fail)] * 5
    _, recorded = open_one(time, iter(failing), arrivals("poisson", 1e4, 0, 1, 1, 0))
    assert sum(c.errors for c in recorded.counters.values()) == 5
    assert recorded.first_error == "get: no"
    with pytest.raises(EngineError):
        open_one(time, iter(failing), constant(1e4), fatal=True)
    stop = threading.Event()
    time.after(0.6, stop.set)
    time.sleeps.clear()
    # The second operation is due in 100 s.
    pace, _ = open_one(time, Client(time).operations(5), constant(0.01), stopped=stop.is_set)
    assert pace.intended == 1
    assert time.sleeps == [0.25, 0.25, 0.25], "it looks for a stop each quarter of a second"


TO_1000, TO_NS = st.integers(0, 1000), st.integers(0, NS)


@given(st.lists(st.tuples(TO_1000, TO_1000, TO_NS, TO_NS), max_size=8))
def test_the_pace_of_several_clients_is_one(parts):
    whole = Pace()
    for intended, unserved, span, late in parts:
        whole.merge(Pace(max(intended, unserved), unserved, span, late))
    assert whole.intended >= whole.unserved
    assert 0 <= whole.missed <= 1
    if not any(unserved or late for _, unserved, _, late in parts):
        assert whole.missed == 0
