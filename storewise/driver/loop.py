"""The closed loop of one client thread: the next operation begins when the last one has ended."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from time import perf_counter_ns

from storewise.errors import Aborted, StorewiseError
from storewise.metrics.recorder import ROOM, Recorder
from storewise.workloads.base import Operation


def closed_loop(
    operations: Iterator[Operation],
    recorder: Recorder,
    *,
    deadline: int | None = None,
    stopped: Callable[[], bool] = lambda: False,
    progress: Callable[[int, int], None] = lambda operations, documents: None,
    fatal: bool = False,
) -> None:
    """Run operations until they end, the `deadline` (perf_counter_ns) passes or `stopped` is true.

    Two clock readings an operation. `stopped` and `progress` (operations and documents so far)
    are called whenever the recorder works up a slice, at least every quarter of a second unless
    one operation takes longer. A StorewiseError of an operation's call is recorded as a failed
    operation, or raised where `fatal`; all other exceptions, and those of the iterator itself,
    are raised.
    """
    clock = perf_counter_ns
    rows = recorder.rows
    extend = rows.extend
    code_of = recorder.code
    codes: dict[str, int] = {}
    end_at = deadline if deadline is not None else 1 << 62
    wake = min(recorder.wake, end_at)
    for name, call, documents, nbytes, owner, size in operations:
        start = clock()
        try:
            documents = call()
        except StorewiseError as error:
            end = clock()
            if fatal or isinstance(error, Aborted):
                raise
            recorder.error(f"{name}: {error}")
            extend((code_of(name, owner) << 1 | 1, start, start, end, 0, 0))
        else:
            end = clock()
            if owner is None:
                code = codes.get(name, -1)
                if code < 0:
                    code = codes[name] = code_of(name) << 1
            else:
                code = code_of(name, owner) << 1
            extend((code, start, start, end, documents, nbytes if size is None else size()))
        if end >= wake or len(rows) >= ROOM:
            recorder.flush()
            progress(recorder.operations, recorder.documents)
            if end >= end_at or stopped():
                return
            wake = min(recorder.wake, end_at)
