"""What earlier phases left, and how many files a worker opens for it."""

import json
from dataclasses import replace

import pytest
from support.driving import job, trial

from storewise.driver.earlier_phases import EARLIER, read_earlier
from storewise.errors import Aborted, ResultError
from storewise.session.coordination.trial_part import write_trial_part
from storewise.workloads.alignments.stored_files import StoredFiles, write_files
from storewise.workloads.contract import LoadedFile

WORKERS = 3


@pytest.fixture
def jobs(tmp_path):
    """The workers of a phase, and what those of the load left."""
    many = trial("null", workers=WORKERS)
    (tmp_path / "live").mkdir()
    before = tuple(tmp_path / f"write.{k}.parquet" for k in range(WORKERS))
    for k, part in enumerate(before):
        write_trial_part(part, [], many, "write", notes=[{"phase": "add", "stored": k}])
        digest = bytes([k]) * 16
        write_files(tmp_path / f"written.{k}.parquet", [LoadedFile(f"/{k}", digest, 10, 1, 2, 0)])
    return [replace(job(many, tmp_path, "read", k), before=before) for k in range(WORKERS)]


def never():
    raise AssertionError("nothing to wait for")


def test_the_first_worker_reads_what_all_get_and_the_others_open_no_part(jobs):
    alone = StoredFiles.read(jobs[0].written).column("path")
    single = read_earlier(replace(jobs[0], trial=trial("null")), never)
    assert single.written == jobs[0].written, "a single worker leaves nothing for others"
    first = read_earlier(jobs[0], never)
    assert first.notes == tuple({"phase": "add", "stored": k} for k in range(WORKERS))
    assert json.dumps(single.notes) == json.dumps(first.notes)
    (together,) = first.written
    assert StoredFiles.read([together]).column("path") == alone
    for path in (*jobs[0].before, *jobs[0].written):
        path.unlink()
    for other in jobs[1:]:
        its = read_earlier(other, never)
        assert (its.notes, its.written) == (first.notes, first.written)


def test_who_waits_for_the_first_worker_sees_the_end_of_the_trial(jobs):
    looks = iter([None, None, None, Aborted("the trial has ended")])

    def check():
        if (end := next(looks)) is not None:
            raise end

    with pytest.raises(Aborted):
        read_earlier(jobs[1], check, sleep=lambda seconds: None)
    assert list(looks) == []


def test_nothing_came_before_a_load(jobs, tmp_path):
    load = replace(job(jobs[0].trial, tmp_path, "write", 1))
    assert read_earlier(load, never) == load
    assert not (tmp_path / "live" / EARLIER).exists()


@pytest.mark.parametrize("what", ["part", "list"])
def test_what_is_no_part_or_list_is_named(jobs, what):
    bad = jobs[0].before[1] if what == "part" else jobs[0].written[1]
    bad.write_bytes(b"PAR1")
    with pytest.raises(ResultError, match=bad.name):
        read_earlier(jobs[0], never)
    assert not list((jobs[0].live / EARLIER).glob("*.json")), "nobody goes on"
