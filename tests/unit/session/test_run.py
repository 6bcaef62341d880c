"""Leases, aborts, members and failures of a run, in a time that is handed in."""

import json
import os
import shutil
from dataclasses import asdict, replace
from itertools import pairwise

import pytest
from support.fake_time import FakeTime
from support.session import MadeHost, opened

from storewise.errors import Aborted, ConfigError, EngineError
from storewise.session.coordination import liveness
from storewise.session.coordination.barrier import Barrier
from storewise.session.coordination.cleanup import remove_dead_runs, remove_session
from storewise.session.coordination.lease import LEASE_VARIABLE, lease_seconds, renew_every
from storewise.session.coordination.run import Run
from storewise.session.coordination.trial_job import trial_job


def test_a_watched_trial_goes_on_while_its_run_lives_and_its_first_reason_stays(tmp_path, run):
    session = opened(tmp_path, run.id)
    clock, directory = FakeTime(), tmp_path / "live" / "t"
    watch = liveness.Watch(tmp_path, session, clock=clock.clock)
    watch.check()
    clock.spend(liveness.POLL_SECONDS)
    replace(session, run="another").write(directory)
    assert "another run" in str(watch.reason())
    session.write(directory)
    liveness.abort(directory, liveness.Abort("first", failure=True))
    liveness.abort(directory, liveness.Abort("second", failure=True))
    with pytest.raises(Aborted, match="first"):
        liveness.Watch(tmp_path, session).check()
    assert sorted(p.name for p in directory.glob("[!.]*")) == [
        "abort",
        "owner.json",
        "session.json",
    ]
    (directory / "abort").unlink()
    watch = liveness.Watch(tmp_path, session)
    run.end()
    with pytest.raises(Aborted):
        watch.check()
    assert list(tmp_path.iterdir()) == []


def test_a_stale_lease_ends_a_trial_whatever_the_clocks_say(tmp_path):
    session = opened(tmp_path, "r", lease=20.0)
    lease = tmp_path / "leases" / "r"
    lease.parent.mkdir()
    lease.write_text("x")
    clock = FakeTime()
    watch = liveness.Watch(tmp_path, session, clock=clock.clock)
    # A host whose clock is decades behind renews it once.
    for stamp, seconds in ((0, 0), (0, 20), (5, 19), (5, 20)):
        os.utime(lease, (stamp, stamp))
        clock.spend(seconds)
        watch.check()
    clock.spend(20 / 8)
    with pytest.raises(Aborted, match="has not renewed its lease for 20 s"):
        watch.check()


def test_a_job_looks_at_one_time_in_two_seconds_and_misses_no_abort(tmp_path, run, monkeypatch):
    session, clock, directory = opened(tmp_path, run.id), FakeTime(), tmp_path / "live" / "t"
    looked = []
    monkeypatch.setattr(liveness, "_version", lambda path: looked.append(path) or versions[path])
    lease = tmp_path / "leases" / run.id
    versions = {lease: (1, 1), directory: (1, 1)}
    watch = liveness.Watch(tmp_path, session, clock=clock.clock)
    looked.clear()
    for _ in range(20):
        watch.check()
        clock.spend(0.25)
    assert looked == [directory, lease, directory, lease, directory], "all of it at first"
    # At the same tick of the file server's clock as another change.
    versions[directory] = (2, 1)
    clock.spend(liveness.POLL_SECONDS)
    watch.check()
    liveness.abort(directory, liveness.Abort("first", failure=True))
    clock.spend(liveness.POLL_SECONDS)
    for _ in range(2):
        with pytest.raises(Aborted, match="first"):
            watch.check()


def test_a_lease_s_time_can_be_set(monkeypatch):
    monkeypatch.delenv(LEASE_VARIABLE, raising=False)
    assert lease_seconds(on_cluster=False) == 25 < lease_seconds(on_cluster=True) == 90
    # It is renewed several times while it holds.
    assert [renew_every(lease) for lease in (2, 4, 25, 90)] == [0.5, 1, 3, 3]
    monkeypatch.setenv(LEASE_VARIABLE, "2")
    assert lease_seconds(on_cluster=False) == lease_seconds(on_cluster=True) == 2
    for bad in ("1.9", "soon", "nan", "inf", ""):
        monkeypatch.setenv(LEASE_VARIABLE, bad)
        with pytest.raises(ConfigError, match=f"^{LEASE_VARIABLE}={bad}: expected seconds, at le"):
            lease_seconds(on_cluster=False)


def test_a_client_leaves_the_first_word_to_the_node(tmp_path, run):
    """What a client sees of a server's end says less than the server's own job does."""
    opened(tmp_path, run.id)
    own_time, abort = FakeTime(), tmp_path / "live" / "t" / "abort"
    options = {"defer": 8.0, "clock": own_time.clock, "sleep": own_time.sleep}
    place = (tmp_path, abort.with_name("session.json"), "read.0", tmp_path / "w.log")
    message = liveness.Abort("data0: no space left", failure=True)
    with pytest.raises(SystemExit), trial_job(*place, **options):
        own_time.after(5.0, lambda: liveness.abort(abort.parent, message))
        raise EngineError("connection refused")
    assert liveness.read_abort(abort) == message
    assert own_time.now == 1005.0
    abort.unlink()
    with pytest.raises(SystemExit), trial_job(*place, **options):
        raise EngineError("connection refused")
    assert "connection refused" in liveness.read_abort(abort).reason
    assert own_time.now == 1005.0 + 1.0 + 8.0
    run.end()


def put(live, name, process):
    path = live / "members" / f"{name}.json"
    path.parent.mkdir(exist_ok=True)
    path.write_text(json.dumps(asdict(process)))
    return path


def test_sweeping_waits_for_jobs_on_other_hosts(tmp_path):
    own_time = FakeTime()
    for leaves in (True, False):
        opened(tmp_path, "dead")
        directory = tmp_path / "live" / "t"
        member = put(directory, "data0", liveness.Process("elsewhere", 1, 1.0))
        if leaves:
            own_time.after(1.0, member.unlink)
        left = remove_session(tmp_path, directory, system=MadeHost(own_time=own_time))
        assert left == ([] if leaves else ["data0 (process 1 on elsewhere)"])
        # It waits until the jobs have ended, but at most ten seconds where no node has a server.
        assert own_time.now == (1001 if leaves else 1011)
        assert not directory.exists()


@pytest.mark.parametrize("killed", [False, True])
def test_nobody_waits_for_jobs_that_their_scheduler_calls_over(tmp_path, killed):
    own_time, calls, said = FakeTime(), [], []
    here = MadeHost(own_time=own_time)

    def ask(kind, ids):
        calls.append((own_time.now, kind, list(ids)))
        return {"2.login"} if len(calls) > 1 else None

    run = Run(tmp_path, ask=ask, system=here)
    run.start(pause=lambda seconds: True)
    opened(tmp_path, "killed" if killed else run.id)
    directory = tmp_path / "live" / "t"
    for name, job in (("data0", "1.login"), ("data1", "2.login"), ("load.0", "")):
        put(directory, name, liveness.Process("elsewhere", 1, 1.0, "pbs" if job else "", job))
    left = [f"{name} (process 1 on elsewhere)" for name in ("data0", "data1", "load.0")]
    assert liveness.unfinished_elsewhere(directory, None) == left
    # What it still has, and what it cannot be asked about.
    if killed:
        remove_dead_runs(tmp_path, said.append, ask, system=here)
        ends = "it ends by itself when it sees that its run is gone"
        assert said[1:] == [f"could not end {name}; {ends}" for name in left[1:]]
        run.end()
    else:
        assert run.end() == left[1:]
    assert {kind for _, kind, _ in calls} == {"pbs"}
    assert calls[0][2] == ["1.login", "2.login"]
    assert {b - a for (a, *_), (b, *_) in pairwise(calls)} == {1.0}


def test_a_process_knows_the_scheduler_s_job():
    array = {"SLURM_JOB_ID": "14", "SLURM_ARRAY_JOB_ID": "12", "SLURM_ARRAY_TASK_ID": "3"}
    assert liveness.scheduler_job({}) == ("", "")
    assert liveness.scheduler_job({"PBS_JOBID": "19[3].login"}) == ("pbs", "19[3].login")
    assert liveness.scheduler_job({"SLURM_JOB_ID": "12"}) == ("slurm", "12")
    assert liveness.scheduler_job(array) == ("slurm", "12_3")


def test_what_the_scheduler_says_of_a_job_that_a_signal_has_ended_is_in_the_reason(tmp_path, run):
    killed = liveness.Abort("data0 was ended by signal SIGTERM", failure=True, killed="data0")
    other = liveness.Abort("load.0 ended with exit status 1", failure=True)
    words = "PBS says: walltime 78 exceeded limit 60"
    for trial in ("t", "u"):
        opened(tmp_path, run.id, trial=trial)
        liveness.abort(tmp_path / "live" / trial, killed)
        assert run.job_failed(trial, other, job="load.0", scheduler="") is None
    assert {live.name for live in run.aborted()} == {"t", "u"}
    failure = run.job_failed("t", other, job="data0", scheduler=words)
    assert failure.reason == f"{killed.reason}; {words}"
    # Where nobody reports that job.
    assert [failure.reason for failure in run.unrecorded()] == [killed.reason]
    # A reason of its own needs no other.
    opened(tmp_path, run.id, trial="v")
    failure = run.job_failed("v", other, job="load.0", scheduler=words)
    assert failure.reason == other.reason
    run.end()


def test_a_job_whose_session_vanishes_says_so_and_does_not_make_it_again(tmp_path, run):
    session = opened(tmp_path, run.id)
    directory = tmp_path / "live" / "t"
    place = (tmp_path, directory / "session.json", "write.0", tmp_path / "w.log")
    with pytest.raises(SystemExit, match=r"write\.0 ended: its session was removed"):  # noqa: SIM117
        with trial_job(*place):
            shutil.rmtree(directory)
            (directory / "file").touch()
    watch = liveness.Watch(tmp_path, session)
    with pytest.raises(Aborted, match="its session was removed"):
        Barrier(directory, ["0", "1"], "write-0").wait("0", watch.check)
    before = r"write\.0: its session was removed before it started"
    with pytest.raises(SystemExit, match=before), trial_job(*place):
        pass
    assert not directory.exists()
    run.end()


@pytest.mark.parametrize("after", [0.0, 1.0])
def test_an_error_while_the_inputs_of_a_job_go_away_is_told_as_their_removal(tmp_path, run, after):
    """`rm -r` reaches a store's files before the session's directory, and a read fails at once."""
    opened(tmp_path, run.id)
    directory, store = tmp_path / "live" / "t", tmp_path / "trials" / "t" / "store.0"
    store.mkdir(parents=True)
    own_time, log = FakeTime(), tmp_path / "w.log"
    options = {"needs": [store], "clock": own_time.clock, "sleep": own_time.sleep}
    with (
        pytest.raises(SystemExit, match=r"write\.0 ended: its session was removed"),
        trial_job(tmp_path, directory / "session.json", "write.0", log, **options),
    ):
        own_time.after(after, store.rmdir)
        own_time.spend(0.0)
        raise KeyError("a table that is gone")
    assert "Traceback" not in log.read_text()
    assert not (directory / "abort").exists(), "nobody's failure"
    run.end()
