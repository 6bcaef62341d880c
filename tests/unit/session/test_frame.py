"""The frame of a job, and what is left to a run of jobs and trials that end."""

import errno
import json
import logging
import os
import shutil
import signal
import socket
import tempfile
from contextlib import nullcontext
from dataclasses import asdict, replace
from pathlib import Path
from queue import Queue
from types import SimpleNamespace

import pytest
from support.fake_time import FakeTime
from support.session import MadeHost, opened

from storewise.errors import Aborted, EngineError, StorewiseError
from storewise.metrics.memory_kills import MemoryKills
from storewise.metrics.schema import Sample, read_part
from storewise.session.coordination import ending, private, trial_job
from storewise.session.coordination.cleanup import remove_dead_runs, remove_session
from storewise.session.coordination.cluster import CREDENTIALS, NODES, StartedNode, publish
from storewise.session.coordination.ending import NO_MEMORY, killed_job
from storewise.session.coordination.failure import failures
from storewise.session.coordination.lease import Lease
from storewise.session.coordination.liveness import (
    ABORT,
    FINISHED,
    Abort,
    Process,
    Session,
    abort,
    await_reason,
    members,
    membership,
    read_abort,
    remove_tree,
)
from storewise.session.coordination.opening import NOTICED_SECONDS, open_session
from storewise.session.coordination.run import Run
from storewise.session.coordination.trial_part import write_trial_part
from storewise.study.trial import Phase, Trial

LOG = logging.getLogger("test")


def raising(error):
    def call(*_, **__):
        raise error

    return call


UNKNOWN = MemoryKills(None, None, None)
HOST = socket.gethostname()
SIGNALS = (signal.SIGTERM, signal.SIGHUP, signal.SIGINT)


def frame(results, raised):
    """How a job ends in which that is raised, or that signal comes, and its log."""
    own_time = FakeTime()
    opened(results, "run")
    (results / "leases").mkdir()
    (results / "leases" / "run").touch()
    live, log = results / "live" / "t", results / "logs" / "read.0.log"
    times = {"clock": own_time.clock, "sleep": own_time.sleep}
    end = ""
    try:
        with trial_job.trial_job(results, live / "session.json", "read.0", log, **times) as job:
            assert job.session == Session.read(live / "session.json")
            assert members(live)["read.0"].alive()
            assert tempfile.gettempdir() == str(job.live.absolute() / "temporary")
            assert (job.live / "temporary").stat().st_mode & 0o777 == 0o700
            job.check()
            if isinstance(raised, int):
                os.kill(os.getpid(), raised)
            elif raised is not None:
                raise raised
    except SystemExit as error:
        end = str(error)
    except ZeroDivisionError:
        end = "raised"
    assert members(live) == {}
    return f"{end}|{log.read_text()}"


@pytest.mark.parametrize(
    ("raised", "reason"),
    [
        (None, None),
        *((number, f"read.0 was ended by signal {number.name}") for number in SIGNALS),
        (Aborted("it is over"), "it is over"),
        (MemoryError(), f"read.0: {NO_MEMORY}"),
        (EngineError("read.0: no"), "read.0: no"),
        (EngineError("no"), "read.0: no"),
        (OSError(28, "full"), f"read.0: [Errno 28] full (on host {HOST})"),
        (EngineError(f"disk full on {HOST}"), f"read.0: disk full on {HOST}"),
        (ZeroDivisionError("odd"), "read.0: ZeroDivisionError: odd"),
    ],
)
def test_what_the_end_of_a_job_says(tmp_path, raised, reason):
    before = {number: signal.getsignal(number) for number in SIGNALS}
    temporaries = tempfile.tempdir
    told, log = frame(tmp_path, raised).split("|", 1)
    assert {number: signal.getsignal(number) for number in before} == before
    assert tempfile.tempdir == temporaries
    place = tmp_path / "live" / "t" / ABORT
    if reason is None:
        assert told == "" and not place.exists() and log.rstrip().endswith("INFO done")
        assert f"INFO trial t, read.0, process {os.getpid()}" in log
        return
    why = read_abort(place)
    odd, aborted = isinstance(raised, ZeroDivisionError), isinstance(raised, Aborted)
    ended = isinstance(raised, int)
    assert (why.reason, why.killed) == (reason, "read.0" if ended else "")
    assert why.failure == (not aborted and raised != signal.SIGINT)
    said = f"read.0 ended: {reason}" if aborted else reason
    assert told == "raised" if odd else told.startswith("read.0" if ended else said)
    assert why.log == str(tmp_path / "logs" / "read.0.log")
    assert " ERROR " in log
    assert ("Traceback" in log) == (not isinstance(raised, StorewiseError | int))
    assert ("unexpected error" in log) == odd


def test_a_host_that_ec2_takes_back_fails_the_attempt_until_it_has_gone(tmp_path, monkeypatch):
    taken = SimpleNamespace(at=77.0, reason=lambda: "EC2 takes it back")
    monkeypatch.setattr(trial_job, "InterruptionWatch", lambda **clock: taken)
    assert "read.0 ended: EC2 takes it back|" in frame(tmp_path, None)
    why = read_abort(tmp_path / "live" / "t" / ABORT)
    assert (why.failure, why.until, why.killed) == (True, 77.0, "")


def test_a_plain_job_is_one_message_where_the_error_is_expected(tmp_path):
    log = tmp_path / "logs" / "a.log"
    for raised, told, logged in (
        (EngineError("no rows"), "storewise: no rows", " ERROR no rows"),
        (OSError(13, "Permission denied"), "storewise: [Errno 13] Permission", "Traceback"),
        (ZeroDivisionError("odd"), "odd", "ERROR unexpected error\nTraceback"),
    ):
        with (
            pytest.raises((SystemExit, ZeroDivisionError)) as caught,
            trial_job.plain_job(log) as logger,
        ):
            logger.info("begun")
            raise raised
        text = log.read_text()
        assert str(caught.value).startswith(told) and logged in text
        assert ("Traceback" in text) == (not isinstance(raised, EngineError))
        assert text.count("begun") == 1, "of this job only"
    assert len(logging.getLogger("storewise.job").handlers) == 1


def test_progress_is_logged_every_ten_seconds_and_at_the_end(monkeypatch, caplog):
    own_time = FakeTime()
    monkeypatch.setattr(trial_job.time, "monotonic", own_time.clock)
    caplog.set_level(logging.INFO)
    progress = trial_job.progress_to(LOG)
    for seconds, files, size in ((9.9, 1, 10), (0.1, 2, 10), (9.9, 3, 10), (0.1, 5, 0)):
        own_time.spend(seconds)
        progress(files, 5, files if size else 0, size)
    said = ["2 of 5 files, 20% of the bytes", "5 of 5 files"]
    assert [record.getMessage() for record in caplog.records] == said


def test_a_part_says_what_is_known_of_its_trial_and_host(tmp_path):
    trial = Trial(
        study="s", id="t-r2", engine="null", workload="alignments", repeat=2, seed=9,
        factors={"engine": "null"}, phases=[Phase(name="write")],
    )  # fmt: skip
    path, samples = tmp_path / "part.parquet", [Sample("write", "close_time", 1.0, "s")]
    write_trial_part(path, samples, trial, "write", more=3)
    table, conditions = read_part(path)
    (row,) = table.to_pylist()
    assert (row["trial"], row["repeat"], row["metric"]) == ("t-r2", 2, "close_time")
    assert {"phase": "write", "seed": 9, "more": 3}.items() <= conditions.items()
    assert conditions["trial"]["id"] == "t-r2" and conditions["host"]


def test_why_a_trial_ends_whose_job_a_signal_has_ended(tmp_path, monkeypatch):
    pids = []
    monkeypatch.setattr(
        ending, "how_it_ended", lambda status, before, pid: pids.append(pid) or f"ended {status}"
    )
    with membership(tmp_path, "read.0"):
        why = killed_job(tmp_path, "read.0", -9, UNKNOWN, "its.log")
    assert why == Abort(f"read.0 on host {HOST} ended -9", True, "its.log", killed="read.0")
    with membership(tmp_path, "read.0", system=MadeHost("far")):
        assert not killed_job(tmp_path, "read.0", -2, UNKNOWN, "").failure
    killed_job(tmp_path, "form", -9, UNKNOWN, "")
    assert pids == [os.getpid(), None, None]


@pytest.mark.parametrize("links", [True, False])
def test_the_first_reason_of_an_abort_stays(tmp_path, monkeypatch, links):
    if not links:
        monkeypatch.setattr(os, "link", raising(OSError(errno.EPERM, "no hard links here")))
    first = Abort("first", failure=True)
    abort(tmp_path, first)
    abort(tmp_path, Abort("second", failure=False))
    assert read_abort(tmp_path / ABORT) == first
    assert [path.name for path in tmp_path.iterdir()] == [ABORT]
    abort(tmp_path / "gone", Abort("why", failure=True))
    assert not (tmp_path / "gone").exists()


def test_of_reasons_at_the_same_time_one_stays_and_is_never_replaced(tmp_path, monkeypatch):
    """Another job writes its reason while the first is about to name its own."""
    link = os.link

    def others_first(*names, **options):
        monkeypatch.setattr(os, "link", link)
        abort(tmp_path, Abort("first", failure=True))
        link(*names, **options)

    monkeypatch.setattr(os, "link", others_first)
    abort(tmp_path, Abort("second", failure=False))
    assert read_abort(tmp_path / ABORT).reason == "first"


def test_an_abort_without_space_ends_the_jobs_too(tmp_path, monkeypatch):
    full = raising(OSError(errno.ENOSPC, "No space left on device"))
    monkeypatch.setattr(Path, "write_text", full)
    abort(tmp_path, Abort("why", failure=False))
    why = read_abort(tmp_path / ABORT)
    assert why.failure and "could not be written (a full disk?)" in why.reason


def test_a_reason_is_waited_for_until_it_is_there_or_its_time_is_over(tmp_path):
    live = tmp_path / "t"

    def seconds(end=1e9, action=None):
        own_time = FakeTime()
        own_time.after(end, action)
        await_reason(live, 8.0, clock=own_time.clock, sleep=own_time.sleep)
        return round(own_time.now - 1000, 3)

    assert seconds() == 0.0
    live.mkdir()
    assert seconds() == 8.0
    assert seconds(1.0, live.rmdir) == 1.0
    live.mkdir()
    assert seconds(2.0, (live / ABORT).touch) == 2.0


@pytest.mark.parametrize(
    ("error", "times", "lasts"),
    [(errno.ENOTEMPTY, 3, 0.3), (errno.EBUSY, 1000, 10.1), (errno.EACCES, 1, 0.0)],
)
def test_a_tree_in_which_others_still_write_is_removed_with_patience(
    tmp_path, monkeypatch, error, times, lasts
):
    own_time = FakeTime()
    ends = iter([FileNotFoundError, *[OSError(error, "not yet")] * times])
    real = shutil.rmtree

    def removed(path):
        if (end := next(ends, None)) is not None:
            raise end
        real(path)

    monkeypatch.setattr(shutil, "rmtree", removed)
    place = tmp_path / "live"
    place.mkdir()
    goes = error == errno.ENOTEMPTY
    with nullcontext() if goes else pytest.raises(OSError, match="not yet"):
        remove_tree(place, clock=own_time.clock, sleep=own_time.sleep)
    assert place.exists() != goes
    assert own_time.now == pytest.approx(1000 + lasts)


def test_a_lease_is_renewed_by_its_thread_until_the_run_ends(tmp_path, caplog, monkeypatch):
    run = Run(tmp_path, 8.0, id="r")
    asked, told = Queue[float](), Queue[bool]()

    def pause(seconds):
        asked.put(seconds)
        return told.get(timeout=60)

    def renew():
        told.put(False)
        asked.get(timeout=60)

    def full(self, directory):
        raise OSError(errno.ENOSPC, "No space left on device")

    run.start(pause=pause)
    lease = tmp_path / "leases" / "r"
    assert Lease.read(lease) == Lease("r", Process.current(), 8.0)
    assert asked.get(timeout=60) == 2.0
    for write in (Lease.write, full):  # a new time needs no space
        monkeypatch.setattr(Lease, "write", write)
        os.utime(lease, (5.0, 5.0))
        renew()
        assert lease.stat().st_mtime > 5.0
    lease.unlink()
    renew()
    assert "the lease is not renewed: " in caplog.text
    told.put(True)
    run.end()
    assert list(tmp_path.iterdir()) == []


def test_a_trial_is_opened_in_a_place_that_has_nothing_of_an_earlier_life(tmp_path, run, caplog):
    own_time = FakeTime(start=5000.0)
    here = MadeHost(own_time=own_time)
    caplog.set_level(logging.INFO)
    live = tmp_path / "live"
    old = [tmp_path / "trials" / "new" / "part", live / "new" / "stop"]
    for path in old:
        path.parent.mkdir(parents=True)
        path.touch()
    for trial, owner in (("a", run.id), ("b", run.id), ("c", "another")):
        opened(tmp_path, owner, trial=trial)
    own_time.after(3.0, (live / "a" / FINISHED).touch)
    open_session(tmp_path, "new", run.id, 2, LOG, servers=True, system=here)
    assert own_time.now == pytest.approx(5003.0)
    assert caplog.text.count("waiting for a, b") == 1 and "opened" in caplog.text
    assert not any(path.exists() for path in old)
    place = live / "new"
    assert place.stat().st_mode & 0o777 == 0o700 and (place / CREDENTIALS).is_file()
    assert Session.read(place / "session.json") == Session("new", run.id, 25.0, own_time.now)
    open_session(tmp_path, "embedded", run.id, 3, LOG, system=here)
    assert not (live / "embedded" / CREDENTIALS).exists(), "without servers there are no secrets"
    # What failed is over; what is beside it goes on. No job comes to a host that is taken back.
    store = tmp_path / "trials" / "b" / "store.0"
    store.mkdir(parents=True)
    abort(live / "b", Abort("read.0: broken", failure=True, until=own_time.now + 6.0))
    for number in range(1, 8):
        own_time.after(20.0 * number, run.renew)
    before = own_time.now
    open_session(tmp_path, "x", run.id, 3, LOG, system=here)
    assert own_time.now == pytest.approx(before + 6.0 + NOTICED_SECONDS, abs=1.0)
    assert (live / "b" / FINISHED).exists() and not store.exists()
    assert read_abort(live / "b" / ABORT).reason == "read.0: broken", "for who reports the job"
    for trial, why in (
        ("new", Abort("load.0: no space left on device", failure=True)),
        ("x", Abort("the run was stopped", failure=False)),
    ):
        abort(live / trial, why)
        with pytest.raises(Aborted, match=f"^trial y was not opened: {trial} ended: {why.reason}$"):
            open_session(tmp_path, "y", run.id, 9, LOG, system=here)
        shutil.rmtree(live / trial)
    shutil.rmtree(live)
    opened(tmp_path, run.id)
    with pytest.raises(Aborted, match=r"trial x was not opened: its run \S+ has not renewed its"):
        open_session(tmp_path, "x", run.id, 1, LOG, system=here)
    assert not (live / "x").exists()
    run.end()


def test_a_failed_attempt_is_recorded_with_what_is_known(tmp_path, run):
    assert run.job_failed("t", Abort("early", failure=True)) is None, "it was not opened"
    run.explain("t", "nothing has failed")
    opened(tmp_path, run.id)
    log = tmp_path / "job.log"
    log.write_text("".join(f"line {number}\n" for number in range(40)))
    abort(tmp_path / "live" / "t", Abort("why?", failure=True, until=9.0, killed="read.0"))
    later = Abort("", failure=True, log=str(log))
    assert run.job_failed("t", later, job="read.1", scheduler="lost") is None
    failure = run.job_failed("t", later, job="read.0", scheduler="its wall time is over")
    assert (failure.trial, failure.run, failure.until) == ("t", run.id, 9.0)
    assert failure.reason == "why? its wall time is over", "an answer to a question"
    assert failure.log_tail.splitlines() == [f"line {number}" for number in range(10, 40)]
    assert run.job_failed("t", later, job="read.0", scheduler="again") is None, "once a session"
    path = tmp_path / "failures" / "t.jsonl"
    with path.open("a") as file:
        file.write('{"trial": "cut of\n{"odd": 1}\n')
    assert failures(tmp_path, "t") == [failure], "a full disk leaves half a line"
    run.explain("t", "its host was lost.")
    Run(tmp_path).explain("t", "another run's")
    run.explain("t", "so was another")
    (said,) = failures(tmp_path, "t")
    assert said == replace(failure, reason=f"{failure.reason}; its host was lost; so was another")
    opened(tmp_path, run.id, trial="u")
    run.abort_live(Abort("the run was stopped", failure=False))
    assert run.job_failed("u", Abort("load failed", failure=True)) is None
    assert failures(tmp_path, "u") == []
    run.end()


def test_a_dead_run_s_trials_are_swept_with_words(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    here = MadeHost()
    lock, gone, others = (
        tmp_path / ".snakemake/locks/0.input",
        tmp_path / "no lock",
        tmp_path / "o",
    )
    lock.parent.mkdir(parents=True)
    lock.touch()
    others.touch()
    (tmp_path / "leases").mkdir()
    jobs = {"pbs": ("1.login",)}
    for name, locks in (("z", (str(lock), str(gone), str(others))), ("a", ())):
        lease = Lease(name, Process("here", 9, 1.0), 25.0, locks, jobs if locks else {})
        lease.write(tmp_path / "leases")
    opened(tmp_path, "z", trial="t")
    live = tmp_path / "live" / "t"
    (live / "members").mkdir()
    (live / "members" / "x.json").write_text(json.dumps(asdict(Process("far", 5, 1.0))))
    publish(live, NODES, "data0", StartedNode("data0", "far", str(tmp_path / "d")))
    trial = tmp_path / "trials" / "t"
    for path in (tmp_path / "d", trial / "store.0", trial / "data.1"):
        path.mkdir(parents=True)
    (trial / "part.parquet").touch()
    said = []
    cancelled = []

    def cancel(jobs):
        cancelled.append(jobs)
        return ["qdel 1.login: no answer"] if jobs else []

    runs = remove_dead_runs(tmp_path, said.append, cancel=cancel, system=here)
    assert (runs, cancelled) == (["a", "z"], [jobs] * 7), "again for 30 s"
    assert said == [
        "is run a still alive? It has 25 s to renew its lease",
        "is run z still alive? It has 25 s to renew its lease",
        "cancelling the cluster jobs of run z that may be left",
        "qdel 1.login: no answer; cancel what is left of run z yourself",
        f"removed the lock {lock} of run z, which was killed",
        "removed what was left of trial t, whose run has ended",
        "could not end x (process 5 on far); it ends by itself when it sees that its run is gone",
    ]
    assert here.own_time.now == pytest.approx(1100.0, abs=0.3), "nodes end servers in order"
    assert sorted(path.name for path in tmp_path.iterdir()) == [".snakemake", "d", "o", "trials"]
    assert not lock.exists()
    assert [path.name for path in trial.iterdir()] == ["part.parquet"]


def test_a_lock_that_is_younger_than_a_killed_run_is_another_s(tmp_path, monkeypatch):
    """Snakemake calls each run's locks the same: `--unlock`, then a run of another study."""
    monkeypatch.chdir(tmp_path)
    lock, leases = tmp_path / ".snakemake" / "locks" / "0.input.lock", tmp_path / "leases"
    for directory in (lock.parent, leases):
        directory.mkdir(parents=True)
    for later, removed in ((1, False), (0, True), (-1, True)):
        Lease("r", Process("here", 9, 1.0), 25.0, (str(lock),)).write(leases)
        lock.touch()
        os.utime(lock, (1e9 + later, 1e9 + later))
        os.utime(leases / "r", (1e9, 1e9))
        said = []
        assert remove_dead_runs(tmp_path, said.append, system=MadeHost()) == ["r"]
        assert lock.exists() != removed and (len(said) == 2) == removed
        leases.mkdir()


@pytest.mark.parametrize("again", ["at once", "opened"])
def test_a_session_that_goes_while_it_is_swept_is_not_swept_further(tmp_path, again):
    """Two that wait for the same killed run: the first has swept, and measures the trial anew."""
    here, live = MadeHost(), tmp_path / "live" / "t"
    opened(tmp_path, "killed")
    (live / "members").mkdir()
    stuck = here.spawn()
    place = membership(live, "job", system=stuck)
    place.__enter__()
    store = tmp_path / "trials" / "t" / "store.0"

    def by_the_other():
        here.kill(stuck.own_pid)
        shutil.rmtree(live)
        if again == "opened":
            opened(tmp_path, "new")
            store.mkdir(parents=True)

    here.own_time.after(4.0, by_the_other)
    assert remove_session(tmp_path, live, system=here) == []
    assert live.exists() == store.exists() == (again == "opened")
    assert not (live / ABORT).exists()
    assert remove_session(tmp_path, tmp_path / "live" / "gone", system=here) == []


def test_whoever_is_interrupted_while_it_sweeps_leaves_the_rest_to_the_next(tmp_path):
    """The run is still found, so that its cluster jobs are cancelled."""
    here, said = MadeHost(), []
    opened(tmp_path, "r")
    (tmp_path / "leases").mkdir()
    Lease("r", Process("here", 9, 1.0), 25.0).write(tmp_path / "leases")
    with membership(tmp_path / "live" / "t", "job", system=replace(here, name="far")):
        here.own_time.after(30.0, interrupted)
        with pytest.raises(KeyboardInterrupt):
            remove_dead_runs(tmp_path, said.append, system=here)
    assert remove_dead_runs(tmp_path, said.append, system=here) == ["r"]
    assert list(tmp_path.iterdir()) == []


def interrupted():
    raise KeyboardInterrupt


def test_a_sweep_removes_only_directories_that_its_run_has_made(tmp_path):
    """Whatever the files say that are found there: they may be made by others, or damaged."""
    here, live = MadeHost(), tmp_path / "live" / "t"
    opened(tmp_path, "r")
    mine, another, hostile, link = (tmp_path / name for name in ("mine", "b", "home", "link"))
    for place, run in ((mine, "r"), (another, "other")):
        private.make_owned(place, run)
    hostile.mkdir()
    link.symlink_to(mine)
    for number, place in enumerate((link, mine, another, hostile)):
        name = f"data{number}"
        publish(live, NODES, name, StartedNode(name, "here", str(place)))
    (live / NODES / "data9.json").touch()
    (live / "members").mkdir()
    wrong = asdict(Process("here", 1, 1.0, boot="here ")) | {"pid": -1}
    (live / "members" / "x.json").write_text(json.dumps(wrong))
    said = []
    assert remove_session(tmp_path, live, say=said.append, system=here) == []
    assert not live.exists() and not mine.exists()
    assert [said[n].startswith(f"{path} stays") for n, path in enumerate((link, another, hostile))]
    assert another.exists() and hostile.exists() and here.table == {1: 1.0}


def test_a_sweep_ends_its_own_host_s_jobs_and_spares_itself(tmp_path):
    here = MadeHost()
    opened(tmp_path, "r")
    live = tmp_path / "live" / "t"
    stuck, ends = here.spawn(), here.spawn()
    places = [membership(live, f"job{n}", system=s) for n, s in enumerate((here, stuck, ends))]
    for place in places:
        place.__enter__()
    here.own_time.after(4.0, lambda: here.kill(ends.own_pid))
    assert remove_session(tmp_path, live, 5.0, system=here) == []
    assert here.own_time.now == pytest.approx(1005.0, abs=0.2)
    assert list(here.table) == [here.own_pid] and not live.exists()


def test_the_last_run_takes_with_it_what_nobody_opened(tmp_path):
    first, second = Run(tmp_path, id="a"), Run(tmp_path, id="b")
    for run in (first, second):
        run.start(pause=lambda seconds: True)
    for name in ("empty", "written"):
        (tmp_path / "live" / name).mkdir()
    (tmp_path / "live" / "written" / "file").touch()
    first.end()
    assert [path.name for path in (tmp_path / "live").iterdir()] == ["written"]
    second.end()
    assert list(tmp_path.iterdir()) == []
