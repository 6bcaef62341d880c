"""Metadata operations on a store's directories: files created, renamed and removed, directories
made.

On a parallel file system such as Lustre one server does these for everybody, so a store that makes
many of them is slow there and slows others. They are counted by inotify(7), which needs no rights
and costs the store nothing. Writes to files are not counted.

The counts are lower bounds. In a directory that was made a moment ago a file may come and go before
it is watched; events beyond ``fs.inotify.max_queued_events`` are lost; and what another host does
on a shared file system is not seen.
"""

from __future__ import annotations

import ctypes
import errno
import os
import select
import struct
import sys
import threading
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

#: From Linux's ``sys/inotify.h``.
_MOVED_FROM, _MOVED_TO, _CREATE, _DELETE = 0x40, 0x80, 0x100, 0x200
_OVERFLOW, _IGNORED, _IS_DIRECTORY = 0x4000, 0x8000, 0x40000000
_MASK = _MOVED_FROM | _MOVED_TO | _CREATE | _DELETE
_OPEN_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW
#: ``struct inotify_event``: watch, mask, cookie, length of the name that follows.
_EVENT = struct.Struct("iIII")
_BUFFER = 1 << 18
_LIBC = ctypes.CDLL(None, use_errno=True) if sys.platform.startswith("linux") else None
_LIMITS = {
    errno.ENOSPC: "this user may watch no more directories (fs.inotify.max_user_watches)",
    errno.EMFILE: "this user has too many watchers (fs.inotify.max_user_instances) or open files",
}


@dataclass(slots=True)
class Operations:
    """Counts. A hard link counts as a created file; `removed` includes directories."""

    created: int = 0
    renamed: int = 0
    removed: int = 0
    directories_made: int = 0


class MetadataOperations:
    """Counts in some directories and all below them, from its construction to `stop`.

    OSError with a remedy if inotify cannot watch them. `missed` says why the counts may be too low;
    empty if no event is known to be lost.
    """

    def __init__(self, roots: Iterable[Path]) -> None:
        if _LIBC is None:
            raise OSError(errno.ENOSYS, "inotify is there on Linux only")
        self._counts = Operations()
        self.missed = ""
        self._paths: dict[int, str] = {}
        #: By watch: names that were counted when a new directory was listed.
        self._listed: dict[int, set[str]] = {}
        #: Cookies of renamed directories, which join the two events of a rename.
        self._moved: set[int] = set()
        self._failure: BaseException | None = None
        self._events = _checked(_LIBC.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC))
        self._wake = os.pipe()
        try:
            for root in roots:
                self._watch(os.fspath(root), counted=False)
        except BaseException:
            self._release()
            raise
        self._thread = threading.Thread(target=self._run, name="metadata operations", daemon=True)
        self._thread.start()

    def stop(self) -> Operations:
        """The operations until now."""
        self.close()
        if self._failure is not None:
            raise self._failure
        return self._counts

    def close(self) -> None:
        """Stop counting; to be called once."""
        os.write(self._wake[1], b".")
        self._thread.join()
        self._release()

    def _release(self) -> None:
        for handle in (self._events, *self._wake):
            os.close(handle)

    def _run(self) -> None:
        try:
            poll = select.poll()
            for handle in (self._events, self._wake[0]):
                poll.register(handle, select.POLLIN)
            ended = False
            while not ended:
                ended = any(handle == self._wake[0] for handle, _ in poll.poll())
                # The event of an operation is there before it returns: none is left out.
                self._read()
        except BaseException as error:  # noqa: BLE001 - raised by `stop`
            self._failure = error

    def _read(self) -> None:
        """Count all events that have come."""
        while True:
            try:
                events = os.read(self._events, _BUFFER)
            except BlockingIOError:
                return
            at = 0
            while at < len(events):
                watch, mask, cookie, length = _EVENT.unpack_from(events, at)
                at += _EVENT.size + length
                name = os.fsdecode(events[at - length : at].rstrip(b"\0"))
                self._count(watch, mask, name, cookie)

    def _count(self, watch: int, mask: int, name: str, cookie: int = 0) -> None:
        counts, directory = self._counts, bool(mask & _IS_DIRECTORY)
        if mask & _OVERFLOW:
            self.missed = "the kernel's queue was full (fs.inotify.max_queued_events)"
            return
        if mask & _IGNORED:
            self._paths.pop(watch, None)
            self._listed.pop(watch, None)
            return
        listed = self._listed.get(watch, set())
        known = name in listed
        listed.discard(name)
        if mask & _DELETE:
            counts.removed += 1
        elif mask & _MOVED_FROM and directory:
            self._moved.add(cookie)
        elif mask & _MOVED_TO:
            counts.renamed += 1
            if directory:
                # What it holds was made here unless it came from elsewhere.
                self._watch_new(watch, name, counted=cookie in self._moved)
                self._moved.discard(cookie)
            elif known:
                counts.created -= 1  # it was counted under its first name, too
        elif mask & _CREATE and not known:
            if directory:
                counts.directories_made += 1
                self._watch_new(watch, name, counted=True)
            else:
                counts.created += 1

    def _watch_new(self, watch: int, name: str, *, counted: bool) -> None:
        if watch not in self._paths:
            return
        try:
            self._watch(os.path.join(self._paths[watch], name), counted=counted)  # noqa: PTH118
        except OSError as error:
            self.missed = f"not all directories could be watched: {error.strerror}"

    def _watch(self, path: str, *, counted: bool) -> None:
        """Watch a directory and those in it. With `counted`, what is in them was made since they
        are watched from above, and counts unless it is watched already."""
        assert _LIBC is not None
        todo = [path]
        while todo:
            path = todo.pop()
            try:
                # By its handle it stays the same directory when it is renamed meanwhile: else it
                # would be watched under its first name, and its content never be listed.
                directory = os.open(path, _OPEN_DIRECTORY)
            except (FileNotFoundError, NotADirectoryError):
                continue
            try:
                handle = f"/proc/self/fd/{directory}".encode()
                watch = _checked(_LIBC.inotify_add_watch(self._events, handle, _MASK))
                new = counted and watch not in self._paths
                self._paths[watch] = path
                listed = self._listed.setdefault(watch, set())
                with os.scandir(directory) as entries:
                    for entry in entries:
                        inner = entry.is_dir(follow_symlinks=False)
                        if inner:
                            todo.append(os.path.join(path, entry.name))  # noqa: PTH118
                        if new:
                            listed.add(entry.name)
                            self._counts.directories_made += inner
                            self._counts.created += not inner
            finally:
                os.close(directory)


def _checked(result: int) -> int:
    """The return value of a call of the C library; raises OSError if it is an error."""
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, _LIMITS.get(number) or os.strerror(number))
    return result
