"""Fetching ahead: threads bring the next objects while the one before is worked on."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator, Sequence

from storewise.s3.client import s3
from storewise.s3.listing import version_of
from storewise.s3.stream import WINDOW, ObjectStream, Wanted, window
from storewise.s3.uri import is_remote, parse

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

#: Index of an object and offset in it.
_Unit = tuple[int, int]

#: Contexts of this process, the newest last; a forked child has none of its parent's threads.
_open: list[Ahead] = []


class Ahead:
    """Windows of `wanted`, in its order, brought by threads; a context manager.

    A window is (index in `wanted`, offset). What comes before the object that was opened last is
    passed over, so objects may be left out or left half-read, and the window that is read next is
    always the first of those that are held, under way or to come: readers never wait for room.
    """

    def __init__(self, wanted: Sequence[Wanted]) -> None:
        self._wanted = wanted
        self._process = os.getpid()
        #: The thread whose reads are served: others read other files.
        self.owner = threading.get_ident()
        self._changed = threading.Condition()
        self._stop = threading.Event()
        self._plan = self._windows()
        self._next: tuple[_Unit, int] | None = None
        self._ready: dict[_Unit, bytearray | BaseException] = {}
        #: Bytes of each window that is under way or held.
        self._sizes: dict[_Unit, int] = {}
        self._held = 0
        #: Objects before this one are passed over.
        self._position = 0
        #: Objects before this one have been opened or were left out: none is served twice.
        self._unopened = 0
        self._threads: list[threading.Thread] = []

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
        for number in range(max(1, min(THREADS, _ALL_THREADS // len(_open)))):
            name = f"fetch-ahead-{number}"
            thread = threading.Thread(target=self._bring, name=name, daemon=True)
            try:
                thread.start()
            except RuntimeError:
                break  # a limit of this host's: fewer fetch ahead, or none does
            self._threads.append(thread)
        return self

    def __exit__(self, *_: object) -> None:
        if self not in _open:
            return  # of the process that this one was forked from
        _open.remove(self)
        with self._changed:
            self._stop.set()
            self._ready.clear()
            self._changed.notify_all()
        for thread in self._threads:
            # Python may end a generator, and this with it, from any thread.
            if thread is not threading.current_thread():
                thread.join()

    def opened(self, path: str) -> ObjectStream | None:
        """The stream of an object that is still to come; None for any other."""
        with self._changed:
            places = range(max(self._position, self._unopened), len(self._wanted))
            # Nearly always the first one.
            index = next((i for i in places if self._wanted[i].path == path), None)
            if index is None or self._stop.is_set() or not self._threads:
                return None
            self._unopened = index + 1
            self._pass_over(index)
        place, one = parse(path), self._wanted[index]

        def take(start: int, size: int) -> bytearray:
            if os.getpid() == self._process:
                found = self._take((index, start))
                if found is not None:
                    return found
            size, listed = min(size, _window_bytes()), version_of(one.mtime_ns)
            return window(place, start, size, of=one.bytes, listed=listed)[0]

        def done() -> None:
            if os.getpid() == self._process:
                with self._changed:
                    self._pass_over(index + 1)

        return ObjectStream(path, one.bytes, take, done)

    def _pass_over(self, index: int) -> None:
        self._position = max(self._position, index)
        for unit in [unit for unit in self._ready if unit[0] < self._position]:
            del self._ready[unit]
            self._held -= self._sizes.pop(unit)
        self._changed.notify_all()

    def _take(self, unit: _Unit) -> bytearray | None:
        """A window, once it is there; None where it was passed over or the context has ended."""
        with self._changed:
            self._changed.wait_for(
                lambda: unit in self._ready or unit[0] < self._position or self._stop.is_set()
            )
            found = self._ready.pop(unit, None)
            if found is not None:
                self._held -= self._sizes.pop(unit)
                self._changed.notify_all()
        if isinstance(found, BaseException):
            raise found
        return found

    def _claim(self) -> tuple[_Unit, int] | None:
        """The next window that will be read, once there is room for it; None at the end."""
        with self._changed:
            while not self._stop.is_set():
                while self._next is None or self._next[0][0] < self._position:
                    self._next = next(self._plan, None)
                    if self._next is None:
                        return None
                unit, size = self._next
                if self._room(size):
                    self._next = None
                    self._sizes[unit] = size
                    self._held += size
                    return unit, size
                self._changed.wait()
            return None

    def _room(self, size: int) -> bool:
        # One window is always allowed: it may be the one that is waited for.
        contexts = tuple(_open)
        few = (
            len(self._sizes) < HELD_WINDOWS
            and self._held + size <= HELD_BYTES // max(len(contexts), 1)
            and sum(one._held for one in contexts) + size <= HELD_BYTES
        )
        return few or not self._sizes

    def _bring(self) -> None:
        while (claimed := self._claim()) is not None:
            unit, size = claimed
            found: bytearray | BaseException
            try:
                one = self._wanted[unit[0]]
                found, _ = window(
                    parse(one.path),
                    unit[1],
                    size,
                    of=one.bytes,
                    listed=version_of(one.mtime_ns),
                    stop=self._stop,
                )
            except BaseException as error:  # noqa: BLE001 - raised where the window is read
                found = error
            with self._changed:
                if unit[0] < self._position or self._stop.is_set():
                    self._held -= self._sizes.pop(unit)
                else:
                    self._ready[unit] = found
                self._changed.notify_all()


def _window_bytes() -> int:
    """Bytes of a window: the fewer, the more contexts share what may be held."""
    return min(WINDOW, max(_LEAST_WINDOW, HELD_BYTES // max(len(_open), 1)))


def opened_ahead(path: str) -> ObjectStream | None:
    """The stream of an object that a context of this thread fetches ahead; None where none does."""
    for ahead in reversed(_open):
        if ahead.owner == threading.get_ident() and (stream := ahead.opened(path)) is not None:
            return stream
    return None


os.register_at_fork(after_in_child=_open.clear)
