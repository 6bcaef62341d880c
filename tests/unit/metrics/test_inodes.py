"""Files of a directory are counted as `find` and a quota do, and what was done to them."""

import errno
import logging
import os
import time
from pathlib import Path
from types import SimpleNamespace

import pytest

from storewise.metrics import metadata_operations
from storewise.metrics.census import Census
from storewise.metrics.inodes import Inodes, count_inodes, inodes_of_paths
from storewise.metrics.metadata_operations import MetadataOperations, Operations
from storewise.metrics.schema import METRICS

LOG = logging.getLogger("test")


def touch(*paths):
    for path in paths:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("x")


def until(seen):
    """Return when this holds: it has a minute."""
    end = time.monotonic() + 60
    while not seen():
        assert time.monotonic() < end
        os.sched_yield()


def until_watched(seen, directory):
    until(lambda: str(directory) in seen._paths.values())


@pytest.fixture
def store(tmp_path):
    (tmp_path / "store").mkdir()
    return tmp_path / "store"


def test_links_count_once_and_odd_files_count(store):
    assert count_inodes([]) == count_inodes([store / "none"]) == Inodes()
    assert count_inodes([store]) == Inodes(0, 1)
    touch(store / "a", store / "deep" / "er" / "b")
    (store / "hard").hardlink_to(store / "a")
    (store / "soft").symlink_to(store / "deep")
    os.mkfifo(store / "pipe")
    assert count_inodes([store]) == Inodes(files=4, directories=3)
    assert count_inodes([store]).all == 7
    # A link from one root to another is one inode, too.
    touch(store.parent / "other" / "c")
    (store.parent / "other" / "again").hardlink_to(store / "a")
    assert count_inodes([store, store.parent / "other"]) == Inodes(5, 4)
    # Inputs count with the directories that hold them.
    paths = [store / "run" / "a" / "1", store / "run" / "a" / "2", store / "run" / "b" / "c" / "3"]
    touch(*paths)
    known = inodes_of_paths(map(str, [*paths, paths[0]]))
    assert known == count_inodes([store / "run"]) == Inodes(3, 4)
    assert inodes_of_paths([str(paths[0])]) == Inodes(1, 1)
    assert inodes_of_paths([]) == Inodes()


def test_operations_are_counted_by_kind(store):
    touch(store / "old")
    seen = MetadataOperations([store])
    (store / "new").mkdir()
    until_watched(seen, store / "new")
    touch(store / "a", store / "b", store / "new" / "c")
    (store / "a").rename(store / "a2")
    (store / "new" / "c").replace(store / "new" / "d")
    (store / "b").unlink()
    (store / "old").write_text("written to, which is no metadata operation")
    (store / "late").hardlink_to(store / "a2")
    found = seen.stop()
    assert found == Operations(created=4, renamed=2, removed=1, directories_made=1)
    assert seen.missed == ""
    # A full queue makes a lower bound.
    seen = MetadataOperations([store])
    seen._count(-1, metadata_operations._OVERFLOW, "")
    touch(store / "more")
    assert seen.stop().created == 1
    assert "fs.inotify.max_queued_events" in seen.missed


def test_directories_that_come_are_watched(store):
    seen = MetadataOperations([store])
    for place in ("one", "one/two", "one/two/three"):
        (store / place).mkdir()
        touch(store / place / "file")
    until_watched(seen, store / "one" / "two" / "three")
    (store / "one").rename(store / "uno")
    touch(store / "uno" / "two" / "more")
    (store / "uno" / "four").mkdir()
    touch(store / "uno" / "four" / "file")
    found = seen.stop()
    assert found == Operations(created=5, renamed=1, removed=0, directories_made=4)


def test_a_directory_that_is_renamed_while_it_is_looked_at_counts(store, monkeypatch):
    seen = MetadataOperations([store])
    library = metadata_operations._LIBC
    assert library is not None

    class Renamed:
        """It is watched when it has its file, and has another name before it is looked into."""

        def inotify_add_watch(self, *arguments):
            until(lambda: any((store / name / "file").exists() for name in ("one", "two")))
            watch = library.inotify_add_watch(*arguments)
            if (store / "one").exists():
                (store / "one").rename(store / "two")
            return watch

    monkeypatch.setattr(metadata_operations, "_LIBC", Renamed())
    touch(store / "one" / "file")
    until_watched(seen, store / "two")
    touch(store / "two" / "more")
    assert seen.stop() == Operations(created=2, renamed=1, directories_made=1)


def test_a_census_has_rows_of_the_schema(store):
    census = Census([store], LOG)
    touch(store / "table" / "part")
    rows = census.take("write", Inodes(10, 2))
    census.close()
    values = {row.metric: row.value for row in rows}
    assert (values.pop("store_files"), values.pop("store_inodes")) == (11, 15)
    gone = {"files_renamed": 0, "files_removed": 0}
    assert values == {"files_created": 1, "directories_made": 1, **gone}
    assert all(row.unit == METRICS[row.metric] and row.phase == "write" for row in rows)
    assert census.warnings == []


def test_where_nobody_may_watch_files_are_counted_all_the_same(store, monkeypatch):
    def full(*_):
        metadata_operations.ctypes.set_errno(errno.ENOSPC)
        return -1

    library = SimpleNamespace(
        inotify_init1=lambda flags: os.open(os.devnull, os.O_RDONLY), inotify_add_watch=full
    )
    monkeypatch.setattr(metadata_operations, "_LIBC", library)
    handles = len(list(Path("/proc/self/fd").iterdir()))
    census = Census([store], LOG)
    assert len(list(Path("/proc/self/fd").iterdir())) == handles
    assert [row.metric for row in census.take("write")] == ["store_files", "store_inodes"]
    assert "fs.inotify.max_user_watches" in census.warnings[0]
