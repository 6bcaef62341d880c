"""A state machine of coordination: runs, jobs and sweeps on hosts whose clocks differ.

A living run is never swept, nothing of a dead one stays, and every wait ends: whatever is killed,
stands still, fails or looks in, in any order. Hosts, processes and time are made; the files are
real, and the machine is their file server, which gives them their times.
"""

import logging
import os
import shutil
import tempfile
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from hypothesis import settings, stateful
from hypothesis import strategies as st
from support.fake_time import NS, FakeTime
from support.session import MadeHost

from storewise.errors import Aborted
from storewise.session.coordination.cleanup import remove_dead_runs
from storewise.session.coordination.cluster import NODES, StartedNode, publish
from storewise.session.coordination.failure import failures
from storewise.session.coordination.lease import renew_every
from storewise.session.coordination.liveness import (
    FINISHED,
    POLL_SECONDS,
    Abort,
    Session,
    Watch,
    membership,
)
from storewise.session.coordination.opening import open_session
from storewise.session.coordination.private import make_owned
from storewise.session.coordination.run import Run
from storewise.session.coordination.run_record import measuring_run

LEASE = 8.0
#: Who is alive renews and looks so often, s.
STEP = 1.0
#: A job looks at its trial so often, s.
LOOK = min(POLL_SECONDS, LEASE / 8)
#: A busy run renews up to so much later than it wants to, s.
LATE = 4.0
#: No operation waits longer: 45 s for each of a few trials with nodes.
PATIENCE = 300.0
LOG = logging.getLogger("test")


class World(FakeTime):
    """Time in which everybody acts each second."""

    def __init__(self, act):
        super().__init__(start=1e6)
        self.act, self.limit, self._next = act, float("inf"), 0.0

    def sleep(self, seconds):
        end = self.ns + round(seconds * NS)
        while self.ns < end:
            self.spend(min(STEP, (end - self.ns) / NS))
            if self.now >= self._next:
                self._next = self.now + STEP
                self.act()
        assert self.now < self.limit, "a wait without end"


@dataclass
class MadeRun:
    run: Run
    system: MadeHost
    lock: Path
    next_place: Path
    renews_at: float
    ended_at: float | None = None
    """Killed, or ended in order."""
    trials: dict[str, str] = field(default_factory=dict)
    """State of each trial that it has opened: open, aborted or finished."""


@dataclass
class Job:
    of: MadeRun
    trial: str
    system: MadeHost
    started: float
    watch: Watch
    place: AbstractContextManager[None]
    scratch: Path | None
    stuck: bool = False
    left: bool = False
    """Ended in order."""
    lost: bool = False
    """Another host has swept: no file names it any more. It, or the guard of its server, removes
    its directory."""

    @property
    def alive(self):
        return self.system.table.get(self.system.own_pid) == self.started


class Coordination(stateful.RuleBasedStateMachine):
    def __init__(self):
        super().__init__()
        self.base = Path(tempfile.mkdtemp())
        self.locks = self.base / ".snakemake" / "locks"
        self.locks.mkdir(parents=True)
        self.before = Path.cwd()
        os.chdir(self.base)
        self.results = self.base / "s"
        self.world = World(self.act)
        self.runs = []
        self.jobs = []
        self.failed = {}
        self.kept = []
        self.number = 0

    @stateful.initialize(
        ahead=st.tuples(*[st.floats(-5000, 5000)] * 3),
        keep=st.booleans(),
        jobs=st.lists(st.tuples(st.integers(0, 2), st.booleans(), st.booleans()), max_size=4),
    )
    def a_trial_is_measured(self, ahead, keep, jobs):
        self.hosts = [MadeHost(f"h{i}", self.world, a, {}) for i, a in enumerate(ahead)]
        self.start_a_run(0)
        self.open_a_trial(0, keep, "")
        self.start_a_job(0, True)
        for host, node, stuck in jobs:
            self.start_a_job(host, node)
            self.jobs[-1].stuck = stuck

    # What happens by itself.

    def act(self):
        now = self.world.now
        for made in self.runs:
            if made.ended_at is None and made.renews_at <= now:
                self.renew(made)
        for job in self.jobs:
            if not job.alive or job.stuck:
                continue
            ended = job.of.ended_at
            if (reason := job.watch.reason()) is not None:
                over = ended is not None or job.of.trials[job.trial] != "open"
                assert over, f"a job of a living run was ended: {reason}"
                self.leave(job)
            assert not job.alive or ended is None or now <= ended + LEASE + 2 * (LOOK + STEP), (
                "an orphan"
            )

    def renew(self, made):
        made.run.renew()
        stamp = self.world.ns
        os.utime(self.results / "leases" / made.run.id, ns=(stamp, stamp))
        made.renews_at = self.world.now + renew_every(LEASE)

    def leave(self, job):
        """As a job does that ends in order, and a node with its server's directory."""
        job.place.__exit__(None, None, None)
        job.system.kill(job.system.own_pid)
        job.left = True
        if job.scratch is not None and job.scratch not in self.kept:
            shutil.rmtree(job.scratch, ignore_errors=True)

    def living(self):
        return next((made for made in self.runs if made.ended_at is None), None)

    def bounded(self):
        self.world.limit = self.world.now + PATIENCE

    # What somebody does.

    @stateful.rule(host=st.integers(0, 2))
    def start_a_run(self, host):
        """As the workflow does: remove dead runs, ask for another run, take the lease."""
        system = self.hosts[host].spawn()
        self.bounded()
        remove_dead_runs(self.results, LOG.info, system=system)
        self.after_a_sweep(system)
        other = measuring_run(self.results, system=system)
        if self.living() is not None:
            assert other is not None, "two runs of one study"
        if other is not None:
            assert self.living(), other
            system.kill(system.own_pid)
            return
        self.number += 1
        lock = self.locks / f"{self.number}"
        lock.touch()
        os.utime(lock, ns=(self.world.ns, self.world.ns))
        run = Run(self.results, LEASE, id=f"run{self.number}", system=system)
        next_place = self.results / "live" / f"{run.id} opens it later"
        made = MadeRun(run, system, lock, next_place, self.world.now)
        run.start(locks=[str(lock)], pause=lambda seconds: True)
        next_place.mkdir()
        self.renew(made)
        self.runs.append(made)

    @stateful.precondition(lambda self: self.living())
    @stateful.rule(
        host=st.integers(0, 2), keep=st.booleans(), then=st.sampled_from(["", "kill", "abort"])
    )
    def open_a_trial(self, host, keep, then):
        """It waits for the trial before; where `then` something happens to that one."""
        made = self.living()
        before = [trial for trial, state in made.trials.items() if state == "open"]
        action = {"": self.finish, "abort": self.fail, "kill": lambda made, trial: self.kill_run()}
        for trial in before:
            self.world.after(5.0, lambda trial=trial: action[then](made, trial))
        self.number += 1
        trial = f"t{self.number}{'k' if keep else ''}"
        system = self.hosts[host].spawn()
        self.bounded()
        try:
            open_session(self.results, trial, made.run.id, 1, LOG, system=system)
        except Aborted:
            assert before and then == "kill", "it may be opened"
        else:
            assert not (before and then == "kill"), "its run has ended"
            made.trials[trial] = "open"
            store = self.results / "trials" / trial / "store.0"
            store.mkdir(parents=True)
        system.kill(system.own_pid)

    def open_trials(self):
        made = self.living()
        return [t for t, state in made.trials.items() if state == "open"] if made else []

    @stateful.precondition(lambda self: self.open_trials())
    @stateful.rule(host=st.integers(0, 2), node=st.booleans())
    def start_a_job(self, host, node):
        made, trial = self.living(), self.open_trials()[-1]
        assert made is not None
        self.number += 1
        system, live = self.hosts[host].spawn(), self.results / "live" / trial
        session = Session.read(live / "session.json")
        scratch = None
        if node:
            scratch = self.base / system.name / f"data{self.number}"
            make_owned(scratch, made.run.id)
            publish(live, NODES, scratch.name, StartedNode(
                scratch.name, system.name, str(scratch), trial.endswith("k")
            ))  # fmt: skip
        place = membership(live, f"job{self.number}", system=system)
        place.__enter__()
        watch = Watch(self.results, session, clock=system.clock)
        started = system.table[system.own_pid]
        self.jobs.append(Job(made, trial, system, started, watch, place, scratch))

    @stateful.precondition(lambda self: self.jobs)
    @stateful.rule(which=st.integers(0), stuck=st.booleans())
    def stop_or_kill_a_job(self, which, stuck):
        job = self.jobs[which % len(self.jobs)]
        if stuck:
            job.stuck = True
        elif job.alive:
            job.system.kill(job.system.own_pid)

    @stateful.precondition(lambda self: self.living())
    @stateful.rule()
    def kill_run(self):
        made = self.living()
        if made is not None:
            made.ended_at = self.world.now
            made.system.kill(made.system.own_pid)

    @stateful.precondition(lambda self: self.living())
    @stateful.rule(seconds=st.floats(0, LATE))
    def renew_late(self, seconds):
        made = self.living()
        self.renew(made)
        made.renews_at += seconds

    @stateful.precondition(lambda self: self.open_trials())
    @stateful.rule(well=st.booleans())
    def end_a_trial(self, well):
        made, trial = self.living(), self.open_trials()[-1]
        assert made is not None
        (self.finish if well else self.fail)(made, trial)

    def finish(self, made, trial):
        """All its jobs end, then it is closed and verified; a study may keep the data."""
        if made.ended_at is not None or made.trials[trial] != "open":
            return
        directory = self.results / "trials" / trial
        for job in [job for job in self.jobs if job.trial == trial]:
            if trial.endswith("k") and job.scratch is not None and job.scratch.exists():
                self.kept.append(job.scratch)
            if job.alive:
                self.leave(job)
        if trial.endswith("k"):
            self.kept.append(directory / "store.0")
        else:
            shutil.rmtree(directory / "store.0")
        (directory / "verify.parquet").touch()
        (self.results / "live" / trial / FINISHED).touch()
        made.trials[trial] = "finished"

    def fail(self, made, trial):
        if made.ended_at is not None or made.trials[trial] != "open":
            return
        made.trials[trial] = "aborted"
        for _ in range(2):
            made.run.job_failed(trial, Abort("the store is broken", failure=True))
        assert len(failures(self.results, trial)) == 1, "one attempt, however many jobs failed"

    @stateful.precondition(lambda self: self.living())
    @stateful.rule(reason=st.sampled_from([None, "the run was stopped"]))
    def end_the_run(self, reason):
        made = self.living()
        made.ended_at = self.world.now
        made.lock.unlink()  # Snakemake's own work
        self.bounded()
        left = made.run.end(reason)
        made.system.kill(made.system.own_pid)
        self.nothing_left_of(made, made.system.name, left)

    @stateful.rule(host=st.integers(0, 2))
    def somebody_looks(self, host):
        """Another Snakemake that is to measure."""
        system = self.hosts[host].spawn()
        self.bounded()
        remove_dead_runs(self.results, LOG.info, system=system)
        self.after_a_sweep(system)
        system.kill(system.own_pid)

    def after_a_sweep(self, system):
        if self.runs and self.living() is None:
            self.nothing_left_of(self.runs[-1], system.name, None)

    @stateful.rule(seconds=st.floats(0.1, 20))
    def time_passes(self, seconds):
        self.world.limit = float("inf")
        self.world.sleep(seconds)

    # What holds.

    def nothing_left_of(self, made, host, told):
        jobs = [job for job in self.jobs if job.of is made]
        there = [job for job in jobs if job.alive and not job.lost]
        for job in there:
            assert job.system.name != host, "a job has outlived its run on the host that swept"
        for job in jobs:
            job.lost |= job.system.name != host
        if told is not None:
            unseen = [job for job in jobs if job.system.name != host and not job.left]
            assert len(told) <= len(unseen), told
        else:
            assert not made.lock.exists()
        assert not (self.results / "leases" / made.run.id).exists()
        assert not made.next_place.exists()
        for trial in made.trials:
            assert not (self.results / "live" / trial).exists()
            store = self.results / "trials" / trial / "store.0"
            assert store.exists() == (store in self.kept), store
        for job in jobs:
            if job.scratch is not None and job.system.name == host and not job.lost:
                assert job.scratch.exists() == (job.scratch in self.kept), job.scratch

    @stateful.invariant()
    def a_living_run_is_left_alone(self):
        made = self.living()
        if made is not None:
            assert made.next_place.is_dir(), "Snakemake makes it before a trial is opened"
            assert made.run.lost() is None
            assert {path.name for path in made.run.live()} >= set(made.trials)
            assert made.lock.exists()

    @stateful.invariant()
    def what_is_kept_is_there(self):
        assert all(path.exists() for path in self.kept)

    def teardown(self):
        try:
            self.kill_run()
            self.time_passes(LEASE + 2 * (LOOK + STEP))
            assert not any(job.alive for job in self.jobs if not job.stuck)
            if self.runs:
                self.somebody_looks(0)
                assert not (self.results / "live").exists()
                assert not (self.results / "leases").exists()
            for job in self.jobs:
                job.stuck = False
            self.time_passes(LOOK + STEP)
            assert not any(host.table for host in self.hosts), "what went on sees that it is over"
        finally:
            os.chdir(self.before)
            shutil.rmtree(self.base)


@pytest.mark.long("250 examples where all cells are run", limit=900)
def test_runs_jobs_and_sweeps_in_any_order():
    stateful.run_state_machine_as_test(
        Coordination,
        # An example takes half a second.
        settings=settings(
            stateful_step_count=25, max_examples=max(5, settings.default.max_examples // 4)
        ),
    )


@pytest.mark.parametrize("look", [remove_dead_runs, measuring_run])
@pytest.mark.parametrize(
    "ahead, where", [(55, "far"), (1e6, "far"), (-1e6, "far"), (0, "near"), (1e6, "near")]
)
def test_whoever_looks_at_a_living_run_leaves_it_alone(tmp_path, monkeypatch, ahead, where, look):
    """Another host, or a container with the same host name, whose clock differs."""
    world = World(lambda: run.renew())
    run = Run(tmp_path / "s", LEASE, id="r", system=MadeHost("near", world))
    lock = tmp_path / ".snakemake/locks/0"
    lock.parent.mkdir(parents=True)
    lock.touch()
    monkeypatch.chdir(tmp_path)
    run.start(locks=[str(lock)], pause=lambda seconds: True)
    (tmp_path / "s/live/t").mkdir()
    session = Session("t", "r", LEASE, world.now)
    session.write(tmp_path / "s/live/t")
    other = MadeHost(where, world, ahead, {1: 7.0}, container="another")
    world.spend(LEASE / 2)
    if look is remove_dead_runs:
        assert remove_dead_runs(tmp_path / "s", LOG.info, system=other) == []
    else:
        assert "is measured here already" in str(measuring_run(tmp_path / "s", system=other))
    assert run.lost() is None and lock.exists() and (tmp_path / "s/live/t").exists()
    run.end()
