"""How workers share jobs, and where each leaves its files."""

from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from storewise.study.shares import Share, lost_indexes
from storewise.study.trial import Trial

TRIAL = Path("trials/t")
TWO = Trial(
    **{"study": "s", "id": "t", "engine": "sqlite", "workload": "alignments", "repeat": 1},
    **{"seed": 1, "factors": {}, "workers": 2, "phases": []},
)


@given(st.integers(1, 200), st.integers(1, 50))
def test_each_worker_belongs_to_one_job(workers, per_job):
    share = Share(TRIAL, workers, per_job)
    members = [worker for first in share.firsts for worker in share.members(first)]
    assert members == list(range(workers))
    assert len(set(share.results("read", "scan"))) == 2 * workers
    assert len(set(share.stores())) == workers


def test_a_job_of_several_workers_has_an_index_and_one_directory_of_stores():
    share = Share(TRIAL, 2)
    assert list(share.outputs("write")) == [TRIAL / "write.0.parquet", TRIAL / "write.1.parquet"]
    assert share.store(1) == TRIAL / "store.1"
    share = Share(TRIAL, 5, 2)
    outputs = [path.name for path in share.outputs("write")]
    assert outputs == ["write.0.workers", "write.2.workers", "write.4.workers"]
    assert list(share.members(4)) == [4]
    assert [share.store(k) for k in (2, 3)] == [TRIAL / "store.2" / "2", TRIAL / "store.2" / "3"]


def test_an_index_that_names_a_lost_file_is_told(tmp_path):
    index = tmp_path / "trials" / "t" / "read.0.workers"
    index.parent.mkdir(parents=True)
    index.write_text("read.0.parquet\nread.1.parquet\n")
    for name in ("read.0.parquet", "read.1.parquet"):
        assert lost_indexes(tmp_path) == [index]
        (index.parent / name).touch()
    assert lost_indexes(tmp_path) == lost_indexes(tmp_path / "nothing") == []


def test_files_of_all_workers_are_in_order():
    share = Share.of(TWO, TRIAL, 3)
    assert share == Share(TRIAL, 2, 3)
    assert [path.name for path in share.results("read", "scan")] == [
        *("read.0.parquet", "read.1.parquet", "scan.0.parquet", "scan.1.parquet")
    ]
    assert [path.name for path in share.all_written()] == ["written.0.parquet", "written.1.parquet"]
    assert share.stores() == (TRIAL / "store.0" / "0", TRIAL / "store.0" / "1")
    assert share.hdr_log("read", 1) == TRIAL / "read.1.hlog"
