"""What a recorder keeps of operations whose times are known."""

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st
from support.fake_time import FakeTime

from storewise.metrics.hdr import histogram_of, percentiles
from storewise.metrics.recorder import FLUSH_EVERY, NS, SLICE, OperationKey, Recorder, flush_every


@given(
    st.lists(
        st.tuples(
            st.sampled_from(["get", "insert"]),
            st.sampled_from([None, "n1", "n2"]),
            st.integers(0, NS // 2),  # preparation
            st.integers(1, 2 * NS),  # service
            st.integers(0, 1000),  # documents
            st.booleans(),
        ),
        min_size=1,
        max_size=60,
    ),
    st.integers(1, 20),
)
def test_sums_are_those_of_the_operations(operations, flush_every):
    time = FakeTime(start=0)
    recorder = Recorder(0, clock=time.clock_ns)
    expected, result = Counter(), Counter()
    for number, (name, owner, prepare, service, documents, failed) in enumerate(operations):
        start = time.ns + prepare
        time.ns = end = start + service
        code, of = recorder.code(name, owner), OperationKey(name, owner)
        recorder.record(code, start, start, end, documents, 10 * documents, failed)
        if number % flush_every == 0:
            recorder.flush()
        expected[of, end // NS] += 1
        expected[of, "errors"] += failed
        expected[of, "documents"] += 0 if failed else documents
        expected[of, "service_ns"] += 0 if failed else service
        expected[of, "prepare_ns"] += prepare
    recorded = recorder.result()
    for (of, second), counter in recorded.counters.items():
        result[of, second] += counter.operations + counter.errors
        for name in ("errors", "documents", "service_ns", "prepare_ns"):
            result[of, name] += getattr(counter, name)
    assert result == expected
    assert sum(int(h.counts.sum()) for h in recorded.histograms) == 2 * len(operations)


def test_preparation_is_the_time_between_operations():
    recorder = Recorder(0)
    code = recorder.code("insert")
    recorder.wake = 1 << 62
    for start, end in ((100, 150), (180, 200), (1_000, 1_500)):
        recorder.record(code, start, start, end, 1, 0)
    recorder.error("first")
    recorder.error("second")
    recorded = recorder.result(end=1_700)
    assert recorded.first_error == "first"
    (counter,) = recorded.counters.values()
    assert counter.service_ns == 50 + 20 + 500
    assert counter.prepare_ns == 100 + 30 + 800 + 200
    # A flush, which takes a look at the clock here, is nobody's preparation.
    time = FakeTime(start=0, tick=3_000)
    recorder = Recorder(0, clock=time.clock_ns)
    code = recorder.code("get")
    time.ns = 10
    recorder.record(code, 5, 5, 10, 1, 0)
    recorder.flush()
    recorder.record(code, 3_017, 3_017, 3_019, 1, 0)
    assert sum(c.prepare_ns for c in recorder.result().counters.values()) == 5 + 7


def test_a_flush_is_due_each_quarter_of_a_second_or_when_the_room_is_used_up():
    time = FakeTime(start=0)
    recorder = Recorder(0, clock=time.clock_ns)
    code = recorder.code("get")

    def record(end):
        time.ns = end
        recorder.record(code, end, end, end, 1, 0)
        return recorder.operations

    assert record(FLUSH_EVERY - 1) == 0
    assert record(FLUSH_EVERY) == 2
    assert recorder.wake == 2 * FLUSH_EVERY
    assert [record(FLUSH_EVERY + 1) for _ in range(SLICE)] == [2] * (SLICE - 1) + [2 + SLICE]
    assert recorder.wake == 2 * FLUSH_EVERY + 1


def test_response_time_counts_from_the_intended_start():
    recorder = Recorder(0)
    code = recorder.code("get")
    recorder.wake = 1 << 62
    recorder.record(code, 1_000, 1_000, 1_100, 1, 0)  # on time
    recorder.record(code, 1_050, 1_110, 1_210, 1, 0)  # held up by the first
    recorded = recorder.result()
    values = {
        h.time: percentiles(histogram_of(h.indexes, h.counts), [100])[100]
        for h in recorded.histograms
    }
    assert values == {"service_time": 100, "response_time": 160}
    # It waited for its start until 1,100 at most; what is left is preparation.
    assert sum(c.prepare_ns for c in recorded.counters.values()) == 1_000 + 10


def test_many_threads_of_a_process_flush_less_often():
    times = [flush_every(threads) for threads in (1, 4, 5, 16, 64, 1000)]
    assert times == [NS // 4, NS // 4, 5 * NS // 16, NS, NS, NS]
    recorder = Recorder(0, every=times[-1])
    assert recorder.wake == NS
