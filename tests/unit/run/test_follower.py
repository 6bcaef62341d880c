"""What is told of a run as it goes: its log and its results are written here, step by step."""

from pathlib import Path

import pytest
from support.fake_time import FakeTime

from storewise.errors import ResultError
from storewise.run import follower as module
from storewise.run.follower import EVERY, SELDOM, Follower
from storewise.run.live_view import LivePhase, LiveTrial, Moment
from storewise.run.run_log import RunLog
from storewise.session.coordination.listing import LiveSession
from storewise.session.coordination.progress import JobProgress
from storewise.study.load import load_study
from storewise.watch.snapshot import Frame, JobStatus

STUDY = """\
workload: ycsb
engines: [sqlite]
repeats: 2
phases: [load: {recordcount: 10}, c: {seconds: 1}]
"""


class Run:
    """A run to be followed: what its log says, what its results have, and what is shown of it."""

    def __init__(self, top, monkeypatch):
        monkeypatch.chdir(top)
        Path("s.yaml").write_text(STUDY)
        self.study = load_study("s.yaml")
        self.results = Path("results/s")
        self.log = RunLog(self.results / "logs" / "run.log")
        self.time = FakeTime()
        self.busy = 0.0
        #: Trials that are measured: when, and how long each took.
        self.measured = {}
        self.frame = None
        self.moments, self.lines, self.notes = [], [], []
        self.show, self.note = self.moments.append, self.notes.append
        monkeypatch.setattr(module, "look", self._look)
        monkeypatch.setattr(module, "finished_line", lambda study, trial, at: f"{trial.id} {at}")

    def follower(self):
        return Follower(self.study, self.results, self.log, self, clock=self.time.clock)

    def say(self, *lines):
        self.log.written.write("".join(f"{line}\n" for line in lines).encode())
        self.log.written.flush()

    def _look(self, results, seen):
        assert results == self.results
        self.time.spend(self.busy)
        seen.durations.clear()
        seen.durations.update(self.measured)
        if self.frame is None:
            raise ResultError("no study has run here")
        known = {
            **{"study": "s", "directory": results, "at": 0.0, "state": "runs", "record": None},
            **{"done": len(self.measured), "failed": [], "running": []},
            **{"total": 5, "seconds_left": 50.0, "sessions": [], "jobs": []},
            **{"failures": [], "warnings": [], "log": None, "lines": []},
        }
        return Frame(**{**known, **self.frame})

    def line(self, text, style=""):
        self.lines.append(text)


@pytest.fixture
def run(tmp_path, monkeypatch):
    return Run(tmp_path, monkeypatch)


def session(trial, phase="load", ending=""):
    return LiveSession(f"s/{trial}", "r", 5.0, 1.0, 60.0, phase, (), (), ending)


def teller(trial, job, rate, age=0.0):
    progress = JobProgress(job, "h", "works", 1.0, operations_per_s=rate, documents_per_s=2 * rate)
    return JobStatus(trial, progress, age)


def test_where_no_trial_is_measured_the_newest_log_says_what_is_done(run):
    old = {"state": "ended", "log": Path("logs/close.log"), "lines": ["done"]}
    run.frame = old
    follower = run.follower()
    run.say("Building DAG of jobs...", "storewise: riak is left out: none", "x")
    follower.look()
    assert run.moments == [Moment("s", "planning the jobs")]
    assert run.notes == ["riak is left out: none"]
    line = "2026-01-01 10:00:00,1 INFO 3 of 9 files, 1 GB"
    run.frame = {"log": Path("logs/digest.0.log"), "lines": ["x", line]}
    follower.look()
    assert run.moments[-1].step == "digest.0: 3 of 9 files, 1 GB"
    run.frame["lines"] = []
    follower.look()
    assert run.moments[-1].step == "digest.0"
    follower.stopping = True
    follower.look()
    assert run.moments[-1].step == "ending the trials that run"


def test_a_failed_trial_has_a_line(run):
    one = run.study.trials()[0].id
    follower = run.follower()
    run.say(f"storewise: trial {one} ended: c.0: broken", "storewise: trial x ended: no")
    run.say("storewise: trial y was not opened: full", f"storewise: trial {one} is tried again")
    follower.look()
    assert run.lines == ["FAIL SQLite, repeat 1: c.0: broken"]
    assert run.notes == [f"trial {one} is tried again"]


def test_what_a_trial_does_now(run):
    one, two = (trial.id for trial in run.study.trials())
    follower = run.follower()
    run.measured = {two: (1000.0, 9.0)}
    run.frame = {
        "failed": ["x"],
        "sessions": [session(one), session("of another study")],
        "jobs": [
            *(teller(one, "load.0", 500.0), teller(one, "load.1", 15.4)),
            *(teller(one, "load.2", 7.0, age=1e6), teller(two, "load.0", 9.0)),
        ],
        "warnings": ["a", "2026-01-01 10:00:00,123 WARNING b", "c"],
        "lines": ["1 of 9 files digested"],
    }
    follower.look()
    (moment,) = run.moments
    name = "SQLite, repeat 1"
    phases = [LivePhase("load", "now", "1,030/s"), LivePhase("c", "next", "")]
    assert moment == Moment("s", "planning the jobs", 2, 5, 50.0, moment.trials, ["b", "c"])
    assert moment.trials == [LiveTrial(name, "", phases)]
    # The next phase: the part of the first is there.
    part = run.results / "trials" / one / "load.0.parquet"
    part.parent.mkdir(parents=True)
    part.touch()
    run.frame["jobs"] = [teller(one, "c.0", 500.0)]
    follower.look()
    phases = [LivePhase("load", "done", ""), LivePhase("c", "now", "500/s")]
    assert run.moments[-1].trials == [LiveTrial(name, "", phases)]
    run.frame["jobs"] = [teller(one, "c.0", 0.0)]
    follower.look()
    assert run.moments[-1].trials[0].phases[1] == LivePhase("c", "now", "")
    for phase, ending, does in (
        *(("opened", "", "starting"), ("form", "", "forming its cluster")),
        *(("verify", "", "verifying"), ("load", "full", "ends: full")),
    ):
        run.frame["sessions"] = [session(one, phase, ending)]
        follower.look()
        assert run.moments[-1].trials[0].does == does
    follower.stopping = True
    follower.look()
    assert (run.moments[-1].step, run.moments[-1].trials) == ("ending the trials that run", [])


def test_each_trial_that_is_measured_is_told_once(run):
    """Not those of before; one that is measured again is another, a copied file is not."""
    one, two = (trial.id for trial in run.study.trials())
    directory = run.results / "trials"
    run.measured, run.frame = {one: (1000.0, 10.0)}, {}
    follower = run.follower()
    follower.look()
    assert run.lines == []
    run.frame = {"running": [one, two]}
    run.measured = {one: (3000.0, 10.0), two: (2000.0, None), "other": (1.0, 1.0)}
    follower.look()
    assert run.lines == [], "they are not at their end"
    run.frame = {}
    follower.look()
    assert run.lines == [f"{two} {directory / two}", f"{one} {directory / one}"], "in their order"
    run.measured[one] = (3005.0, 15.0)
    follower.look()
    assert len(run.lines) == 2


def test_nobody_measures_the_view(run):
    follower = run.follower()
    for busy, pause in ((0.001, EVERY), (0.1, 5.0), (9.0, SELDOM)):
        run.busy, run.frame = busy, {}
        assert follower.look() == pytest.approx(pause)
