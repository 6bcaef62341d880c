"""The loop of one client thread.

Closed: the next operation begins when the last one has ended. Open: operations begin at times that
do not depend on how long others take.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Iterator

from storewise.driver.arrivals import Pace
from storewise.errors import Aborted, StorewiseError
from storewise.metrics.recorder import NS, ROOM, Recorder
from storewise.workloads.contract import Operation

_NEVER = 1 << 62
#: The kernel ends a sleep up to its slack (50 µs) late: the last ns of a wait are spun.
SPIN_NS = 40_000
#: The longest sleep in ns, so that a stop is seen.
MAX_SLEEP_NS = NS // 4


def run_loop(
    operations: Iterator[Operation],
    recorder: Recorder,
    intended: Iterator[int] | None = None,
    *,
    count: int | None = None,
    deadline: int | None = None,
    stopped: Callable[[], bool] = lambda: False,
    progress: Callable[[int, int], None] = lambda operations, documents: None,
    fatal: bool = False,
    clock: Callable[[], int] = time.perf_counter_ns,
    sleep: Callable[[float], None] = time.sleep,
) -> Pace | None:
    """Run operations until they end, the `deadline` (of `clock`) passes or `stopped` is true.

    Two clock readings an operation. `stopped` and `progress` (operations and documents so far)
    are called whenever the recorder works up a slice, at least once in its `every` ns unless one
    operation takes longer. A StorewiseError of an operation's call is recorded as a failed
    operation, or raised where `fatal`; all other exceptions, and those of the iterator itself,
    are raised. `clock` gives ns, and is the recorder's.

    Without `intended` the loop is closed, and None is returned. Else it is open, and how it kept
    its pace is returned: `intended` gives ns from the recorder's zero. An operation is made before
    it is due; one that is due while an earlier one still runs begins as soon as that has ended, and
    its response time counts from when it was due all the same (no coordinated omission). What is
    due by the `deadline` and has not begun by then is counted as unserved; the iterator yields
    `count` operations at most. All of a wait but its last 40 µs is slept
    (`sleep`, in s).
    """
    rows = recorder.rows
    extend = rows.extend
    code_of = recorder.code
    last: Operation | None = None
    codes: dict[str | tuple[str, str], int] = {}
    zero = recorder.zero
    end_at = deadline if deadline is not None else _NEVER
    wake = min(recorder.wake, end_at)
    begun = first = due = start = 0

    def work_up() -> None:
        nonlocal wake
        recorder.flush()
        progress(recorder.operations, recorder.documents)
        wake = min(recorder.wake, end_at)

    def pace(unserved: int = 0) -> Pace | None:
        if intended is None:
            return None
        if not begun:
            return Pace(unserved, unserved)
        interval = (due - first) // (begun - 1) if begun > 1 else NS
        return Pace(begun + unserved, unserved, due - zero, max(0, start - due - interval))

    def wait(until: int) -> bool:
        """Wait for the time `until`; False if the loop is stopped before."""
        while (left := until - clock()) > 0:
            if rows and left > 2 * SPIN_NS and clock() >= recorder.wake:
                work_up()  # there is time for it now
            elif left > SPIN_NS:
                sleep(min(left - SPIN_NS, MAX_SLEEP_NS) / NS)
            if left > MAX_SLEEP_NS and stopped():
                return False
        return True

    for operation in operations:
        if operation is not last:
            # Most workloads yield the same object many times: unpack it once.
            last = operation
            name, call, _, nbytes, owner, size = operation
            key = name if owner is None else (name, owner)
            if key not in codes:
                codes[key] = code_of(name, owner) << 1
            code = codes[key]
        if intended is None:
            due = start = clock()
        else:
            next_due = zero + next(intended)
            if not wait(min(next_due, end_at)) or next_due >= end_at:
                return pace()
            if clock() >= end_at:
                return pace(_due(intended, end_at - zero, begun, count))
            due = next_due
            first = first or due
            begun += 1
            start = clock()
        try:
            documents = call()
        except StorewiseError as error:
            end = clock()
            if fatal or isinstance(error, Aborted):
                raise
            recorder.error(f"{name}: {error}")
            extend((code | 1, due, start, end, 0, 0))
        else:
            end = clock()
            extend((code, due, start, end, documents, nbytes if size is None else size()))
        if end >= wake or len(rows) >= ROOM:
            work_up()
            if (intended is None and end >= end_at) or stopped():
                return pace()
    return pace()


def _due(intended: Iterator[int], end: int, begun: int, count: int | None) -> int:
    """The number of operations due before `end` that have not begun."""
    most = _NEVER if count is None else count - begun
    following = itertools.takewhile(lambda at: at < end, intended)
    return 1 + sum(1 for _ in itertools.islice(following, most - 1))
