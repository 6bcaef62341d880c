"""Number of files and directories of a store, as an inode quota counts them.

The numbers are those of ``find DIRECTORY | wc -l``, but a file with several hard links counts once,
as it does in a quota.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from storewise.metrics.schema import Sample


@dataclass(frozen=True, slots=True)
class Inodes:
    """Counts of inodes; `files` includes symbolic links and sockets."""

    files: int = 0
    directories: int = 0

    @property
    def all(self) -> int:
        """The number that a quota counts."""
        return self.files + self.directories

    def __add__(self, other: Inodes) -> Inodes:
        return Inodes(self.files + other.files, self.directories + other.directories)

    def samples(self, phase: str) -> list[Sample]:
        """Rows of a result part."""
        numbers = {"store_files": self.files, "store_inodes": self.all}
        return [Sample(phase, name, number, "1") for name, number in numbers.items()]


def count_inodes(roots: Iterable[Path]) -> Inodes:
    """Files and directories below these directories, themselves included.

    No root may lie in another; a missing one counts as empty. What is removed meanwhile (a store
    compacts) is not counted. OSError for a directory that this user may not read.
    """
    files, directories = 0, 0
    linked: set[tuple[int, int]] = set()
    todo = [os.fspath(root) for root in roots]
    while todo:
        try:
            entries = os.scandir(todo.pop())
        except (FileNotFoundError, NotADirectoryError):
            continue
        directories += 1
        with entries:
            for entry in entries:
                try:
                    if entry.is_dir(follow_symlinks=False):
                        todo.append(entry.path)
                        continue
                    found = entry.stat(follow_symlinks=False)
                except FileNotFoundError:
                    continue
                if found.st_nlink > 1:
                    inode = (found.st_dev, found.st_ino)
                    if inode in linked:
                        continue
                    linked.add(inode)
                files += 1
    return Inodes(files, directories)


def inodes_of_paths(paths: Iterable[str]) -> Inodes:
    """The files at these paths and their directories, from the lowest common one down.

    The file system is not asked (there may be a million files on a shared one), so hard links count
    as files of their own.
    """
    files = [os.path.abspath(path) for path in dict.fromkeys(paths)]  # noqa: PTH100 - fast
    if not files:
        return Inodes()
    parents = {os.path.dirname(path) for path in files}  # noqa: PTH120
    top = os.path.commonpath(parents)
    directories = {top}
    for parent in parents:
        while parent not in directories:
            directories.add(parent)
            parent = os.path.dirname(parent)  # noqa: PTH120
    return Inodes(len(files), len(directories))
