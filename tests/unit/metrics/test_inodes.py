"""Files of a directory are counted as `find` and a quota do."""

import os

import pytest

from storewise.metrics.inodes import Inodes, count_inodes, inodes_of_paths
from storewise.metrics.schema import METRICS


def touch(*paths):
    for path in paths:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("x")


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
    rows = Inodes(10, 2).samples("write")
    assert [(row.metric, row.value) for row in rows] == [("store_files", 10), ("store_inodes", 12)]
    assert all(METRICS[row.metric] == row.unit for row in rows)
