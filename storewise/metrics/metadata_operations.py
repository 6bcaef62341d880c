"""Metadata operations on a store's directories: files created, renamed and removed, directories
made.

On a parallel file system such as Lustre one server does these for everybody, so a store that makes
many of them is slow there and slows others. They are counted by inotify(7), which needs no rights
and costs the store nothing: the kernel notes each operation of a process of this host, and a thread
of ours reads the notes. Writes to files are not noted.

The counts are lower bounds. In a directory that was made a moment ago a file may come and go before
we watch it; where more is done than the kernel keeps notes of (``fs.inotify.max_queued_events``)
some are lost; and what another host does on a shared file system is not seen.
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
#: A directory, and no link to one.
_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW
#: ``struct inotify_event``: watch, mask, cookie, length of the name that follows.
_EVENT = struct.Struct("iIII")
_BUFFER = 1 << 18
_LIBC = ctypes.CDLL(None, use_errno=True) if sys.platform.startswith("linux") else None


@dataclass(slots=True)
class Operations:
    """How often each was seen. A hard link counts as a created file, and what is removed may be a
    file or a directory."""

    created: int = 0
    renamed: int = 0
    removed: int = 0
    directories_made: int = 0


class MetadataOperations:
    """Counts from its construction to `stop`.

    `missed` says why more may have been done than was counted (empty: nothing is known of that).
    """

    def __init__(self, roots: Iterable[Path]) -> None:
        """Watch these directories and all below them; OSError with what to do where the system
        does not let us."""
        if _LIBC is None:
            raise OSError(errno.ENOSYS, "inotify is there on Linux only")
        self._counts = Operations()
        self.missed = ""
        self._paths: dict[int, str] = {}
        #: By watch: names that a look into a new directory has counted already.
        self._looked: dict[int, set[str]] = {}
        #: Of directories that were renamed: what ties the two notes of it.
        self._moved: set[int] = set()
        self._failure: BaseException | None = None
        self._notes = _checked(_LIBC.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC))
        self._wake = os.pipe()
        try:
            for root in roots:
                self._watch(os.fspath(root), counted=False)
        except BaseException:
            self._end()
            raise
        self._thread = threading.Thread(target=self._run, name="metadata operations", daemon=True)
        self._thread.start()

    def stop(self) -> Operations:
        """All that was done until now."""
        self.close()
        if self._failure is not None:
            raise self._failure
        return self._counts

    def close(self) -> None:
        """Count no more; to be called once."""
        os.write(self._wake[1], b".")
        self._thread.join()
        self._end()

    def _end(self) -> None:
        for handle in (self._notes, *self._wake):
            os.close(handle)

    def _run(self) -> None:
        try:
            poll = select.poll()
            for handle in (self._notes, self._wake[0]):
                poll.register(handle, select.POLLIN)
            last = False
            while not last:
                last = any(handle == self._wake[0] for handle, _ in poll.poll())
                # An operation is noted before it returns: after the last look nothing is missing.
                self._read()
        except BaseException as error:  # noqa: BLE001 - raised by `stop`
            self._failure = error

    def _read(self) -> None:
        """Count all that is noted by now."""
        while True:
            try:
                notes = os.read(self._notes, _BUFFER)
            except BlockingIOError:
                return
            place = 0
            while place < len(notes):
                watch, mask, cookie, length = _EVENT.unpack_from(notes, place)
                place += _EVENT.size
                name = os.fsdecode(notes[place : place + length].rstrip(b"\0"))
                place += length
                self._note(watch, mask, name, cookie)

    def _note(self, watch: int, mask: int, name: str, cookie: int = 0) -> None:
        counts = self._counts
        if mask & _OVERFLOW:
            self.missed = "the kernel's queue was full (fs.inotify.max_queued_events)"
            return
        if mask & _IGNORED:
            self._paths.pop(watch, None)
            self._looked.pop(watch, None)
            return
        looked = self._looked.get(watch)
        known = looked is not None and name in looked
        if looked is not None:
            looked.discard(name)
        if mask & _DELETE:
            counts.removed += 1
        elif mask & _MOVED_FROM:
            if mask & _IS_DIRECTORY:
                self._moved.add(cookie)
        elif mask & _MOVED_TO:
            counts.renamed += 1
            if mask & _IS_DIRECTORY:
                # What it holds was made here unless it came from elsewhere.
                self._below(watch, name, counted=cookie in self._moved)
                self._moved.discard(cookie)
            elif known:
                counts.created -= 1  # it was counted under its first name, too
        elif mask & _CREATE and not known:
            if mask & _IS_DIRECTORY:
                counts.directories_made += 1
                self._below(watch, name, counted=True)
            else:
                counts.created += 1

    def _below(self, watch: int, name: str, *, counted: bool) -> None:
        """Watch a directory that has come to be."""
        if watch not in self._paths:
            return
        try:
            self._watch(os.path.join(self._paths[watch], name), counted=counted)  # noqa: PTH118
        except OSError as error:
            self.missed = f"not all directories could be watched: {error.strerror}"

    def _watch(self, path: str, *, counted: bool) -> None:
        """Watch a directory and those in it; with `counted` all that is in them was made while we
        looked on, and counts where they were not watched yet."""
        assert _LIBC is not None
        todo = [path]
        while todo:
            path = todo.pop()
            try:
                # By its handle it stays the same directory when it is renamed meanwhile: else it
                # would be watched under its first name, and what it holds never be looked at.
                directory = os.open(path, _DIRECTORY)
            except (FileNotFoundError, NotADirectoryError):
                continue
            try:
                place = f"/proc/self/fd/{directory}"
                watch = _checked(_LIBC.inotify_add_watch(self._notes, place.encode(), _MASK))
                new = counted and watch not in self._paths
                self._paths[watch] = path
                looked = self._looked.setdefault(watch, set())
                with os.scandir(directory) as entries:
                    for entry in entries:
                        inner = entry.is_dir(follow_symlinks=False)
                        if inner:
                            todo.append(os.path.join(path, entry.name))  # noqa: PTH118
                        if new:
                            looked.add(entry.name)
                            self._counts.directories_made += inner
                            self._counts.created += not inner
            finally:
                os.close(directory)


def _checked(result: int) -> int:
    """What a call of the C library returned; OSError where that is an error."""
    if result >= 0:
        return result
    number = ctypes.get_errno()
    text = os.strerror(number)
    if number == errno.ENOSPC:
        text = "this user may watch no more directories (fs.inotify.max_user_watches)"
    elif number == errno.EMFILE:
        text = "this user has too many watchers (fs.inotify.max_user_instances) or open files"
    raise OSError(number, text)
