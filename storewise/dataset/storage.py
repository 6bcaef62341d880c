"""The place of a data set: a directory, or a prefix on S3 with a directory for work beside it."""

from __future__ import annotations

import errno
import fcntl
import hashlib
import os
import shutil
import socket
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from itertools import islice
from pathlib import Path
from typing import IO
from uuid import uuid4

from storewise.atomic import aside, sync, write_aside
from storewise.dataset.commits import FOLDER, number_of
from storewise.errors import StorewiseError
from storewise.s3.uri import Place, is_remote, parse

DESCRIPTION = "dataset.json"
WORK = ".work"
#: Below it a store that is being loaded keeps what is in no file of the data set yet.
LOAD = ".load"
#: On S3 what keeps out other writers.
LOCK = "lock.txt"
#: What file systems say that have no locks.
_NO_LOCKS = {errno.ENOSYS, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOLCK}
#: Below it the directory of a writer that has no share.
WHOLE = "whole"


class Directory:
    """A data set in a directory; files are named by their names below it."""

    def __init__(self, root: Path) -> None:
        self.root = root
        """The directory in which `WORK` lies."""

    def __str__(self) -> str:
        return str(self.root)

    def read_bytes(self, name: str) -> bytes | None:
        """A small file; None where it is not there."""
        try:
            return (self.root / name).read_bytes()
        except FileNotFoundError:
            return None

    def write_text(self, name: str, text: str) -> None:
        """Write a small file, whole or not at all."""
        write_aside(self.root / name, text)

    def claim(self) -> None:
        """Keep out writers on other hosts (for a directory the lock on its file does so)."""

    def release(self) -> None:
        """Let others write again."""

    def holds(self, path: str) -> bool:
        """Whether a file or object lies within."""
        return not is_remote(path) and Path(path).absolute().is_relative_to(self.root.absolute())

    def is_empty(self) -> bool:
        """Whether there is nothing but hidden files."""
        return all(path.name.startswith(".") for path in self.root.iterdir())

    def names(self) -> list[str]:
        """All commits and data files, named by a commit or not."""
        folders = [self.root / FOLDER, *self.root.glob("*/part=*")]
        files = (file for folder in folders if folder.is_dir() for file in folder.iterdir())
        names = (file.relative_to(self.root).as_posix() for file in files)
        return sorted(name for name in names if number_of(name))

    def local(self, name: str) -> Path:
        """A file on this host with the content of a file of the data set."""
        return self.root / name

    def put(self, file: Path, name: str) -> None:
        """Give a finished file its name; it may be there already from a try that was killed."""
        path = self.root / name
        if file.exists():
            new = not path.parent.exists()
            path.parent.mkdir(parents=True, exist_ok=True)
            file.replace(path)
            sync(path.parent)
            if new:  # its name, and that of the kind's directory
                sync(path.parent.parent)
                sync(self.root)
        elif not path.exists():
            raise StorewiseError(
                f"{path}: was taken away from the work of a conversion that was killed; remove "
                f"{self.root / WORK} and call it again"
            )

    def put_commit(self, file: Path, name: str) -> None:
        """Give a commit its name; on S3 StorewiseError where another one has it."""
        self.put(file, name)

    def delete(self, names: Iterable[str]) -> None:
        """Remove those of the files that exist."""
        for name in names:
            (self.root / name).unlink(missing_ok=True)

    def path(self, name: str) -> str:
        """Location of a file for Arrow's file systems: its path, or BUCKET/KEY."""
        return str((self.root / name).absolute())

    def remove(self) -> None:
        """Remove everything there, also what is no part of the data set."""
        if self.root.exists():
            shutil.rmtree(self.root)


class Bucket:
    """A data set below a prefix on S3.

    An object, LOCK, keeps out writers on other hosts. A killed one leaves it; whoever goes on with
    its scratch directory has a copy there, and may write.
    """

    def __init__(self, place: Place, scratch: Path) -> None:
        self._place = place.folder()
        self.root = scratch

    def __str__(self) -> str:
        return str(self._place)

    def read_bytes(self, name: str) -> bytes | None:
        from storewise.s3.client import NotThere, explained, s3

        place = self._place.below(name)
        try:
            with explained(place):
                answer = s3().get_object(Bucket=place.bucket, Key=place.key)
                return bytes(answer["Body"].read())
        except NotThere:
            return None

    def write_text(self, name: str, text: str) -> None:
        from storewise.s3.upload import put_small

        self.delete([name])
        put_small(self._place.below(name), text.encode(), {}, "")

    def claim(self) -> None:
        from storewise.s3.client import Changed
        from storewise.s3.upload import put_small

        copy = self.root / WORK / LOCK
        if copy.exists() and copy.read_bytes() == self.read_bytes(LOCK):
            return
        since = datetime.now(UTC).isoformat(timespec="seconds")
        # The number tells it from the text of any other: S3 answers a second try as the first.
        text = f"process {os.getpid()} of {socket.gethostname()} since {since} ({uuid4().hex})\n"
        place = self._place.below(LOCK)
        write_aside(copy, text)
        try:
            put_small(place, text.encode(), {}, "")
        except Changed as error:
            who = (self.read_bytes(LOCK) or b"another process").decode().partition(" (")[0]
            raise StorewiseError(
                f"{self}: {who} is writing this data set; wait until it has ended. If it was "
                f"killed, run its command again on the same host, or remove {place}"
            ) from error

    def release(self) -> None:
        self.delete([LOCK])
        (self.root / WORK / LOCK).unlink(missing_ok=True)

    def holds(self, path: str) -> bool:
        return path.startswith(str(self._place))

    def is_empty(self) -> bool:
        from storewise.s3.listing import below

        lock = self._place.below(LOCK).key
        return all(key == lock for key, _ in islice(below(self._place), 2))

    def names(self) -> list[str]:
        from storewise.s3.listing import below

        start = len(self._place.key)
        names = (key[start:] for key, _ in below(self._place))
        return sorted(name for name in names if number_of(name))

    def local(self, name: str) -> Path:
        from storewise.s3.client import explained, s3

        path = self.root / WORK / "fetched" / name
        if not path.exists():
            path.parent.mkdir(parents=True, exist_ok=True)
            place = self._place.below(name)
            with aside(path) as file, explained(place):
                s3().download_file(place.bucket, place.key, str(file))
        return path

    def put(self, file: Path, name: str) -> None:
        from storewise.s3.checksums import digest_file
        from storewise.s3.upload import Sending, upload

        # The file stays until the round is committed: a killed run sends it again.
        upload(Sending(file, self._place.below(name), digest_file(file)), {}, lambda bytes: None)

    def put_commit(self, file: Path, name: str) -> None:
        from storewise.s3.upload import put_small

        put_small(self._place.below(name), file.read_bytes(), {}, "")
        file.unlink()

    def delete(self, names: Iterable[str]) -> None:
        from storewise.s3.client import explained, in_threads, s3

        def remove(name: str) -> None:
            place = self._place.below(name)
            with explained(place):
                s3().delete_object(Bucket=place.bucket, Key=place.key)
            (self.root / WORK / "fetched" / name).unlink(missing_ok=True)

        for _ in in_threads(remove, names):
            pass

    def path(self, name: str) -> str:
        place = self._place.below(name)
        return f"{place.bucket}/{place.key}"

    def remove(self) -> None:
        from storewise.s3.listing import below

        start = len(self._place.key)
        self.delete([key[start:] for key, _ in below(self._place)])


DatasetStorage = Directory | Bucket


def storage_of(where: str | Path, scratch: Path | None = None) -> DatasetStorage:
    """The data set at a path or ``s3://BUCKET/PREFIX``.

    `scratch` is a directory for what is under way on the way to S3, by default one of the working
    directory whose name has a hash of the place, so that a killed run is gone on with.
    """
    if not is_remote(str(where)):
        return Directory(Path(where))
    place = parse(str(where)).folder()
    if scratch is None:
        scratch = Path(
            f".storewise-{hashlib.blake2b(str(place).encode(), digest_size=6).hexdigest()}"
        )
    return Bucket(place, scratch)


@contextmanager
def locked(storage: DatasetStorage, share: str, *, alone: bool = False) -> Iterator[Path]:
    """Within, no other process of this file system writes what we write; gives our directory of
    work. A share excludes itself and a writer of the whole. StorewiseError where another is at it.

    `alone`: the caller knows that nobody else writes here, so a file system that has no locks will
    do (Lustre without the mount option `flock`).
    """
    work = storage.root / WORK
    work.mkdir(parents=True, exist_ok=True)
    own = work / (share or WHOLE)
    own.mkdir(exist_ok=True)
    with (work / "lock").open("a") as whole, (own / "lock").open("a") as mine:
        for file, shared in ((whole, bool(share)), (mine, False)):
            try:
                _lock(file, storage, shared=shared)
            except OSError as error:
                if not alone or error.errno not in _NO_LOCKS:
                    raise
        storage.claim()
        try:
            yield own
        finally:
            storage.release()


def _lock(file: IO[str], storage: DatasetStorage, *, shared: bool) -> None:
    """Lock a file, which the one before us may have removed after we opened it."""
    how = fcntl.LOCK_SH if shared else fcntl.LOCK_EX
    try:
        fcntl.flock(file, how | fcntl.LOCK_NB)
        if not os.path.samestat(os.fstat(file.fileno()), Path(file.name).stat()):
            raise BlockingIOError
    except (BlockingIOError, FileNotFoundError) as error:
        raise StorewiseError(
            f"{storage}: another process is writing this data set; wait until it has ended"
        ) from error


def clear(storage: DatasetStorage, own: Path, share: str) -> None:
    """Remove the work of a finished conversion; shares leave the lock that they have together."""
    shutil.rmtree(own, ignore_errors=True)
    if share:
        return
    shutil.rmtree(storage.root / WORK, ignore_errors=True)
    if isinstance(storage, Bucket) and not any(storage.root.iterdir()):
        storage.root.rmdir()
