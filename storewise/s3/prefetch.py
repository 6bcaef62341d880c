"""Fetching ahead: threads bring the next objects while the one before is worked on."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor

from storewise.s3.client import s3
from storewise.s3.listing import version_of
from storewise.s3.stream import WINDOW, ObjectStream, window
from storewise.s3.uri import Wanted, is_remote, parse

#: Of all contexts of a process: bytes that are fetched or being fetched and not yet read. Each
#: context may have one window in any case.
HELD_BYTES = 32 << 20
#: The smallest window where many contexts share that.
_LEAST_WINDOW = 1 << 20
#: Windows of one context that are fetched or being fetched and not yet read.
HELD_WINDOWS = 64
#: Threads of one context, and about how many of all contexts of a process.
THREADS = 6
_ALL_THREADS = 24
_THREAD_NAME = "fetch-ahead"

#: A window: index of its object, and offset in it.
_Unit = tuple[int, int]

#: Contexts of this process, the newest last; a forked child has none of its parent's threads.
_open: list[Ahead] = []


class Ahead:
    """Windows of `wanted`, in its order, brought by threads; a context manager.

    What comes before the window that was read last is passed over, so objects may be left out or
    left half-read, and the window that is read next is always the first of those that are held,
    under way or to come. All but the requests is done by the thread that reads.
    """

    def __init__(self, wanted: Sequence[Wanted]) -> None:
        self._wanted = wanted
        self._process = os.getpid()
        #: The thread whose reads are served: others read other files.
        self.owner = threading.get_ident()
        threads = max(1, min(THREADS, _ALL_THREADS // (len(_open) + 1)))
        self._pool = ThreadPoolExecutor(threads, _THREAD_NAME)
        self._stop = threading.Event()
        self._plan = self._windows()
        self._next: tuple[_Unit, int] | None = None
        #: Windows that are held or under way, with their bytes.
        self._coming: dict[_Unit, tuple[int, Future[bytearray]]] = {}
        self._held = 0
        #: Windows before this one are passed over.
        self._position: _Unit = (0, 0)
        #: Objects before this one have been opened or were left out: none is served twice.
        self._unopened = 0

    def _windows(self) -> Iterator[tuple[_Unit, int]]:
        for index, one in enumerate(self._wanted):
            start = 0
            while is_remote(one.path) and start < one.bytes:
                size = min(_window_bytes(), one.bytes - start)
                yield (index, start), size
                start += size

    def __enter__(self) -> Ahead:
        s3()  # made once, and where it cannot be made, said here
        _open.append(self)
        self._pass_to((0, 0))
        return self

    def __exit__(self, *_: object) -> None:
        if self not in _open:
            return  # of the process that this one was forked from
        _open.remove(self)
        self._stop.set()
        # Python may end a generator, and this with it, from any thread.
        mine = threading.current_thread().name.startswith(_THREAD_NAME)
        self._pool.shutdown(wait=not mine, cancel_futures=True)
        self._coming.clear()

    def opened(self, path: str) -> ObjectStream | None:
        """The stream of an object that is still to come; None for any other."""
        places = range(max(self._position[0], self._unopened), len(self._wanted))
        # Nearly always the first one.
        index = next((i for i in places if self._wanted[i].path == path), None)
        if index is None or self._stop.is_set():
            return None
        self._unopened = index + 1
        self._pass_to((index, 0))
        place, one = parse(path), self._wanted[index]

        def take(start: int, size: int) -> bytearray:
            if os.getpid() == self._process:
                held = self._take((index, start))
                if held is not None:
                    return held
            size, listed = min(size, _window_bytes()), version_of(one.mtime_ns)
            return window(place, start, size, of=one.bytes, listed=listed)[0]

        def done() -> None:
            if os.getpid() == self._process:
                self._pass_to((index + 1, 0))

        return ObjectStream(path, one.bytes, take, done)

    def _take(self, unit: _Unit) -> bytearray | None:
        """Wait for a window; None if it was passed over or the context has ended."""
        if unit < self._position:
            return None
        self._pass_to(unit)
        size, future = self._coming.pop(unit, (0, None))
        if future is None:
            return None
        try:
            return future.result()
        finally:
            self._held -= size
            self._pass_to(unit)

    def _pass_to(self, unit: _Unit) -> None:
        """Drop the windows before `unit`, and begin as many as there is room for."""
        self._position = max(self._position, unit)
        for passed in [one for one in self._coming if one < self._position]:
            size, future = self._coming[passed]
            if future.cancel() or future.done():
                del self._coming[passed]
                self._held -= size
        while not self._stop.is_set():
            while self._next is None or self._next[0] < self._position:
                self._next = next(self._plan, None)
                if self._next is None:
                    return
            following, size = self._next
            if not self._room(size):
                return
            try:
                future = self._pool.submit(self._bring, following, size)
            except RuntimeError:
                self._plan, self._next = iter(()), None
                return  # a limit of this host's on threads: the rest is read plainly
            self._next = None
            self._coming[following] = size, future
            self._held += size

    def _room(self, size: int) -> bool:
        # One window is always allowed: it may be the one that is waited for.
        contexts = tuple(_open)
        few = (
            len(self._coming) < HELD_WINDOWS
            and self._held + size <= HELD_BYTES // max(len(contexts), 1)
            and sum(one._held for one in contexts) + size <= HELD_BYTES
        )
        return few or not self._coming

    def _bring(self, unit: _Unit, size: int) -> bytearray:
        index, start = unit
        one = self._wanted[index]
        listed = version_of(one.mtime_ns)
        data, _ = window(parse(one.path), start, size, of=one.bytes, listed=listed, stop=self._stop)
        return data


def _window_bytes() -> int:
    """Bytes of a window: fewer if several contexts share the memory."""
    return min(WINDOW, max(_LEAST_WINDOW, HELD_BYTES // max(len(_open), 1)))


def opened_ahead(path: str) -> ObjectStream | None:
    """The stream of an object that a context of this thread fetches ahead; None where none does."""
    for ahead in reversed(_open):
        if ahead.owner == threading.get_ident() and (stream := ahead.opened(path)) is not None:
            return stream
    return None


os.register_at_fork(after_in_child=_open.clear)
