"""A job of one phase: what it tells its worker; several workers, here or each on a host."""

import logging
import os
import signal
import subprocess
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest
from support.fake_time import FakeTime
from support.in_threads import ycsb

from storewise.atomic import read_as
from storewise.driver import phase_job
from storewise.errors import Aborted, StorewiseError
from storewise.session.coordination.liveness import ABORT


def trial_of(engine):
    return ycsb({"name": "c"}, {"name": "d"}, engine=engine, workers=4)


@pytest.fixture
def job(tmp_path):
    """Workers 2 and 3 of the phase after the load."""
    return phase_job.PhaseJob(
        trial_of("sqlite"), phase="c", first=2, per_job=2, results=tmp_path,
        session=tmp_path / "live" / "session.json", logs=tmp_path / "logs",
        served=False, loads=False, shards=None, inputs=(tmp_path / "a",),
    )  # fmt: skip


@pytest.fixture
def frame(tmp_path, monkeypatch):
    """The result of `trial_job`, its arguments, and the checks that it handed to the workers."""
    live = tmp_path / "live"
    live.mkdir()
    session = SimpleNamespace(run="run-1", opened=5.0)
    told = []
    frame = SimpleNamespace(
        live=live, session=session, log=logging.getLogger("phase"), check=lambda: None,
        told=told, tell=told.append, given={}, checks=[],
    )  # fmt: skip

    @contextmanager
    def trial_job(results, session, name, log, **given):
        assert (results, session) == (tmp_path, live / "session.json")
        assert log == tmp_path / "logs" / f"{name}.log"
        frame.given[name] = given
        yield frame

    monkeypatch.setattr(phase_job, "trial_job", trial_job)
    return frame


@pytest.fixture
def own_time(monkeypatch):
    own_time = FakeTime()
    monkeypatch.setattr(phase_job.time, "sleep", own_time.sleep)
    monkeypatch.setattr(phase_job.time, "monotonic", own_time.clock)
    return own_time


@pytest.fixture
def jobs(frame, monkeypatch):
    """The jobs that workers were given; all files are there at once."""
    jobs = []

    def run_worker(job, check, log):
        jobs.append(job)
        frame.checks.append(check)

    monkeypatch.setattr(phase_job, "run_worker", run_worker)
    monkeypatch.setattr(phase_job, "await_files", lambda paths, check: None)
    return jobs


def test_a_worker_gets_what_earlier_phases_left(job, frame, jobs, tmp_path):
    place = tmp_path / "trials" / job.trial.id
    phase_job.run_one(job, 3)
    (told,) = jobs
    assert (told.phase, told.worker, told.live) == ("c", 3, frame.live)
    assert told.store is told.files is told.cluster is None
    written, before, c = (
        tuple(place / f"{name}.{k}.parquet" for k in range(4)) for name in ("written", "load", "c")
    )
    stores = (place / "store.0/0", place / "store.0/1", place / "store.2/2", place / "store.2/3")
    assert (told.written, told.before, told.stores) == (written, before, stores)
    assert (told.result, told.hdr_log) == (c[3], c[3].with_suffix(".hlog"))
    assert told.conditions == {"run": "run-1", "opened": 5.0}
    needs = (tmp_path / "a", *before, *written, *stores)
    assert frame.given == {"c.3": {"needs": needs, "defer": 0.0}}
    phase_job.run_one(replace(job, phase="load", loads=True), 3)
    told = jobs[-1]
    assert (told.written, told.before, told.stores) == ((), (), ())
    assert (told.store, told.files) == (stores[3], written[3])
    assert frame.given["load.3"]["needs"] == (tmp_path / "a",)
    assert not told.store.exists(), "the worker makes it"
    phase_job.run_one(replace(job, phase="d", per_job=1), 0)
    assert jobs[-1].before == (*before, *c)
    assert frame.checks == [frame.check] * 3


def test_a_worker_of_servers_or_of_a_database_gets_what_there_is(job, frame, jobs, monkeypatch):
    databases = []

    @contextmanager
    def cluster(trial, logs, its, **place):
        assert place == {"phase": "load", "worker": place["worker"], "workers": 4}
        formed = SimpleNamespace(server_versions=lambda: {"pg": "17"}, warnings=("small",))
        known = {"cluster": "theirs", "pids": (8,), "beside": ["router"], "check": "check"}
        yield SimpleNamespace(formed=formed, **known)

    @contextmanager
    def external(trial, run, results, log, **more):
        databases.append((run, more))
        yield SimpleNamespace(cluster="database", versions={"db": "1"})

    monkeypatch.setattr(phase_job, "phase_cluster", cluster)
    monkeypatch.setattr(phase_job, "external_store", external)
    served = replace(job, trial=trial_of("postgres"), phase="load", served=True, loads=True)
    for worker in (0, 1):
        phase_job.run_one(served, worker)
        told = jobs[-1]
        assert (told.cluster, told.routers, told.versions) == ("theirs", (8,), {"pg": "17"})
        assert (told.conditions["beside"], told.conditions["warnings"]) == (["router"], ["small"])
        assert told.store.is_dir(), "the servers have the data"
    assert frame.checks == ["check"] * 2, "which sees the end of servers beside them, too"
    assert frame.given["load.0"]["defer"] == 3.0, "a node may know more than its clients"
    for worker in (0, 1):
        phase_job.run_one(replace(job, trial=trial_of("sql"), phase="load", loads=True), worker)
        assert (jobs[-1].cluster, jobs[-1].versions) == ("database", {"db": "1"})
        assert jobs[-1].store.is_dir()
    assert databases == [
        ("run-1", {"creates": True, "ends": False}),
        ("run-1", {"creates": False, "ends": False}),
    ]


def test_files_of_other_hosts_are_awaited_and_one_that_never_comes_is_named(tmp_path):
    time, looks = FakeTime(), []
    waits = {"clock": time.clock, "sleep": time.sleep}
    wanted, lost = [tmp_path / "a", tmp_path / "deep" / "b"], tmp_path / "write.1.parquet"
    wanted[1].parent.mkdir()
    for number, path in enumerate(wanted):
        time.after(30 * (number + 1), path.touch)
    phase_job.await_files(wanted, lambda: looks.append(1), **waits)
    assert 1060 <= time.now < 1061
    assert set(time.sleeps) == {0.2}
    assert len(looks) == len(time.sleeps)
    begin = time.now
    with pytest.raises(StorewiseError, match=r"write\.1\.parquet.*after 120 s.*all hosts share"):
        phase_job.await_files([*wanted, lost], lambda: None, **waits)
    assert 120 <= time.now - begin < 121

    def check():
        raise Aborted("data0 failed")

    with pytest.raises(Aborted, match="data0 failed"):
        phase_job.await_files([lost], check, sleep=lambda _: os.abort())


class Forked:
    """The processes of the workers: what each ends with, and after how many polls."""

    def __init__(self, own_time):
        self.own_time, self.ends, self.deaf = own_time, {}, set()
        self.polls, self.signals = 0, []

    def wait(self, sentinels, seconds):
        self.polls += 1
        self.own_time.sleep(seconds)

    def Process(self, *, target, args):  # noqa: N802 - as of multiprocessing
        return ForkedWorker(self, args[1])


class ForkedWorker:
    sentinel = None

    def __init__(self, table, worker):
        self.table, self.worker, self.pid = table, worker, 100 + worker
        self.start = lambda: None

    @property
    def exitcode(self):
        polls, status = self.table.ends.get(self.worker, (10**9, 0))
        deadly = {"kill"} if self.worker in self.table.deaf else {"kill", "terminate"}
        if any(worker == self.worker and how in deadly for worker, how in self.table.signals):
            return -15
        return status if self.table.polls >= polls else None

    def terminate(self):
        self.table.signals.append((self.worker, "terminate"))

    def kill(self):
        self.table.signals.append((self.worker, "kill"))

    def join(self, seconds=None):
        if self.exitcode is None:
            self.table.own_time.spend(seconds)


@pytest.fixture
def forked(monkeypatch, own_time, frame, job):
    """Of workers 2 and 3; their results are there."""
    monkeypatch.setattr(phase_job, "how_it_ended", lambda status, before, pid: f"ended: {status}")
    monkeypatch.delenv("SLURM_JOB_ID", raising=False)
    monkeypatch.delenv("PBS_NODEFILE", raising=False)
    make_results(job)
    forked = Forked(own_time)
    monkeypatch.setattr(phase_job, "get_context", lambda how: forked)
    monkeypatch.setattr(phase_job, "wait", forked.wait)
    return forked


def make_results(job):
    place = job.results / "trials" / job.trial.id
    place.mkdir(parents=True)
    for worker in (2, 3):
        (place / f"written.{worker}.parquet").touch()
        for phase in ("c", "load"):
            (place / f"{phase}.{worker}.parquet").touch()
            (place / f"{phase}.{worker}.hlog").touch()


def test_a_job_is_done_when_all_its_workers_are(job, frame, forked, own_time):
    forked.ends = {2: (4, 0), 3: (2, 0)}
    phase_job.run_phase_job(job)
    assert frame.given == {"c.2.workers": {"needs": job.inputs}}
    assert set(own_time.sleeps) == {0.2}
    phase_job.run_phase_job(replace(job, phase="load", loads=True))
    assert (forked.signals, frame.told) == ([], [])
    for phase, more in (("c", []), ("load", ["written.2.parquet", "written.3.parquet"])):
        (index,) = job.results.glob(f"trials/*/{phase}.2.workers")
        files = [f"{phase}.{k}.{kind}" for kind in ("parquet", "hlog") for k in (2, 3)]
        assert index.read_text().split() == files + more


@pytest.mark.parametrize("deaf", [False, True])
def test_one_that_fails_ends_the_others_and_says_so_first(job, frame, forked, own_time, deaf):
    forked.ends = {3: (3, 5)}
    forked.deaf = {2} if deaf else set()
    why = "c.3 (pid 103) ended: 5"
    with pytest.raises(StorewiseError) as error:
        phase_job.run_phase_job(job)
    assert [str(told) for told in frame.told] == [str(error.value)] == [why]
    said = (frame.live / ABORT).read_text()
    assert why in said and "logs/c.3.log" in said
    ends = ["terminate", "kill"] if deaf else ["terminate"]
    assert forked.signals == [(2, how) for how in ends]
    assert (own_time.now >= 1030) == deaf, "half a minute, where it does not hear"
    assert not list(job.results.glob("trials/*/*.workers"))


def test_the_end_of_the_trial_ends_all(job, frame, forked):
    def check():
        if forked.polls == 2:
            raise Aborted("data0 failed")

    frame.check = check
    with pytest.raises(Aborted):
        phase_job.run_phase_job(job)
    assert forked.signals == [(2, "terminate"), (3, "terminate")]
    assert [type(error) for error in frame.told] == [Aborted]


def test_a_forked_worker_has_its_own_signals_and_dies_with_the_job(job, monkeypatch):
    did = []
    monkeypatch.setattr(phase_job, "run_one", lambda job, worker: did.append(worker))
    monkeypatch.setattr(phase_job.signal, "signal", lambda *given: did.append(given))
    phase_job._forked(job, 2, lambda: did.append("tied"))
    assert did == [*((number, signal.SIG_DFL) for number in phase_job.ENDING), "tied", 2]


def test_hosts_and_the_launcher_are_those_of_the_scheduler(tmp_path, monkeypatch):
    listing = tmp_path / "nodefile"
    listing.write_text("n1\nn1\nn2\n")
    assert phase_job.host_count({"PBS_NODEFILE": str(listing)}) == 2
    listing.write_text("")
    with pytest.raises(StorewiseError, match="nodefile lists no host"):
        phase_job.host_count({"PBS_NODEFILE": str(listing)})
    monkeypatch.setattr(phase_job, "number_of_hosts", {"7": 3}.__getitem__)
    assert phase_job.host_count({"SLURM_JOB_ID": "7"}) == 3
    assert phase_job.host_count({}) == 1
    slurm, pbs = {"SLURM_JOB_ID": "7"}, {"PBS_JOBID": "7.login"}
    program = Path("/live/jobs/read.0.sh")
    monkeypatch.setattr(phase_job.shutil, "which", lambda name: f"/bin/{name}")
    first, *options, last = phase_job.launch_command(slurm, 3, program)
    assert (first, last) == ("/bin/srun", str(program))
    assert set(options) == {
        *("--nodes=3", "--ntasks=3", "--ntasks-per-node=1", "--overlap", "--kill-on-bad-exit=0")
    }
    assert phase_job.launch_command(pbs, 3, program) == ["/bin/pbsdsh", "--", str(program)]
    for which, jobs in ((lambda name: "x", [{}]), (lambda name: None, [slurm, pbs])):
        monkeypatch.setattr(phase_job.shutil, "which", which)
        for environment in jobs:
            with pytest.raises(StorewiseError, match="neither srun nor pbsdsh"):
                phase_job.launch_command(environment, 3, program)


class Launcher:
    """The scheduler's program: it ends after so many looks with a status, or when it is told."""

    def __init__(self, monkeypatch, looks, status, deaf=False):
        self.looks, self.status, self.deaf, self.told = looks, status, deaf, []
        self.terminate = lambda: self.told.append("terminate")
        self.kill = lambda: self.told.append("kill")
        monkeypatch.setattr(phase_job.subprocess, "Popen", self)

    def __call__(self, command, *, stdin, preexec_fn):
        self.command = command
        assert stdin == subprocess.DEVNULL
        return self

    def poll(self):
        self.looks -= 1
        return self.status if self.looks < 0 else None

    def wait(self, seconds=None):
        self.told.append(f"wait {seconds}")
        if self.deaf and seconds is not None:
            raise subprocess.TimeoutExpired("srun", seconds)


@pytest.fixture
def hosts(tmp_path, monkeypatch, own_time, frame):
    """The job has two hosts of PBS."""
    (tmp_path / "nodefile").write_text("n1\nn2\n")
    monkeypatch.delenv("SLURM_JOB_ID", raising=False)
    monkeypatch.setattr(phase_job.shutil, "which", lambda name: f"/bin/{name}")
    own = {"PBS_NODEFILE": str(tmp_path / "nodefile"), "PBS_JOBID": "7.login"}
    for name, value in {**own, "STOREWISE_X": "it's", "SECRET": "x"}.items():
        monkeypatch.setenv(name, value)


def test_each_host_runs_its_worker(job, frame, hosts, monkeypatch):
    launcher = Launcher(monkeypatch, 2, 0)
    make_results(job)
    phase_job.run_phase_job(job)
    assert launcher.command[:-1] == ["/bin/pbsdsh", "--"]
    program = Path(launcher.command[-1])
    assert program == frame.live.absolute() / "jobs" / "c.2.sh"
    assert program.stat().st_mode & 0o777 == 0o700
    order, end = program.with_suffix(".json"), f"{program.with_suffix('')}.end."
    lines = program.read_text().splitlines()
    assert lines[:2] == ["#!/bin/sh", f"cd {Path.cwd()}"]
    assert "export STOREWISE_X='it'\"'\"'s'" in lines
    exported = {line.split("=")[0].removeprefix("export ") for line in lines if "export" in line}
    assert {"PATH", "PYTHONPATH"} < exported and not exported & {"SECRET", "PBS_JOBID"}
    assert f" -m storewise.driver.phase_job {order}" in lines[-4]
    last = f"echo $status $(hostname) > {end}${{SLURM_PROCID:-}}${{PBS_NODENUM:-}}"
    assert lines[-3:] == ["status=$?", last, "exit $status"]
    assert read_as(phase_job.PhaseJob, order) == job
    assert launcher.told == []
    assert list(job.results.glob("trials/*/c.2.workers"))

    ran, cleaned = [], []
    monkeypatch.setattr(phase_job, "run_one", lambda *its: ran.append(its))
    monkeypatch.setattr(phase_job, "clean_own_environment", cleaned.append)
    for name in ("SLURM_PROCID", "PBS_NODENUM"):
        monkeypatch.delenv(name, raising=False)
    with pytest.raises(SystemExit, match="none of SLURM_PROCID, PBS_NODENUM says which host"):
        phase_job.main([str(order)])
    for place in ("0", "1", "2"):  # a third host has no worker
        monkeypatch.setenv("PBS_NODENUM", place)
        phase_job.main([str(order)])
    assert ran == [(job, 2), (job, 3)]
    assert set(map(str, cleaned)) == {str(job.trial)}


def test_fewer_hosts_than_workers_are_refused_and_one_worker_needs_none(
    job, frame, hosts, monkeypatch
):
    with pytest.raises(StorewiseError, match=r"c\.0: the job has 2 hosts for its 3 workers"):
        phase_job.run_phase_job(replace(job, first=0, per_job=3))
    ran = []
    monkeypatch.setattr(phase_job, "run_one", lambda *its: ran.append(its))
    alone = replace(job, per_job=1)
    phase_job.run_phase_job(alone)
    assert ran == [(alone, 2)]


@pytest.mark.parametrize(
    ("end", "words"),
    [
        ("137 n2", r"^c\.3 on host n2 was ended by SIGKILL$"),
        ("1 n2", r"^c\.3 on host n2 ended with status 1$"),
        ("128 n2", r"^c\.3 on host n2 ended with status 128$"),
        ("", r"^pbsdsh ended with status 9; the logs"),
        ("0 n2", r"^pbsdsh ended with status 9; the logs"),
    ],
)
@pytest.mark.parametrize("deaf", [False, True])
def test_a_worker_that_fails_on_its_host_ends_the_job(
    job, frame, hosts, monkeypatch, end, words, deaf
):
    of_worker = not words.startswith("^pbsdsh")
    launcher = Launcher(monkeypatch, 10**6 if of_worker else 1, 9, deaf)
    (frame.live / "jobs").mkdir()
    (frame.live / "jobs" / "c.2.end.1").write_text(end)
    with pytest.raises(StorewiseError, match=words) as error:
        phase_job.run_phase_job(job)
    assert frame.told == [error.value]
    assert (frame.live / ABORT).exists() == of_worker
    ended = ["terminate", "wait 30.0", *(["kill", "wait None"] if deaf else [])]
    assert launcher.told == (ended if of_worker else [])
