"""What is told of a run as it goes: its log and its results are written here, step by step."""

from pathlib import Path

import pytest
from support.fake_time import FakeTime
from support.terminal import rendered

from storewise.errors import ResultError
from storewise.run import follower as module
from storewise.run.follower import MAX_PAUSE, MIN_PAUSE, Follower
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
        self.screens, self.lines, self.notes = [], [], []
        self.note = self.notes.append
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

    def show(self, screen):
        self.screens.append(rendered(screen))

    def line(self, text, style=""):
        self.lines.append(text)


@pytest.fixture
def run(tmp_path, monkeypatch):
    return Run(tmp_path, monkeypatch)


def session(trial):
    return LiveSession(f"s/{trial}", "r", 5.0, 1.0, 60.0, "load", (), (), "")


def teller(trial, job, rate):
    progress = JobProgress(job, "h", "works", 1.0, operations_per_s=rate, documents_per_s=2 * rate)
    return JobStatus(trial, progress, 0.0)


def test_until_the_run_is_on_record_the_newest_log_says_what_is_done(run):
    run.frame = {"state": "ended", "log": Path("logs/close.log"), "lines": ["done"]}
    follower = run.follower()
    run.say("Building DAG of jobs...", "storewise: riak is left out: none", "x")
    follower.look()
    assert run.screens == ["s  planning the jobs"]
    assert run.notes == ["riak is left out: none"]
    line = "2026-01-01 10:00:00,1 INFO 3 of 9 files, 1 GB"
    run.frame = {"state": "ended", "log": Path("logs/digest.0.log"), "lines": ["x", line]}
    follower.look()
    assert run.screens[-1] == "s  digest.0: 3 of 9 files, 1 GB"
    run.frame["lines"] = []
    follower.look()
    assert run.screens[-1] == "s  digest.0"


def test_a_run_is_shown_as_watch_shows_it(run):
    one = run.study.trials()[0].id
    follower = run.follower()
    run.frame = {"sessions": [session(one)], "jobs": [teller(one, "load.0", 500.0)]}
    follower.look()
    assert all(text in run.screens[-1] for text in (f"{one}   load", "load.0", "1,000"))
    run.frame["state"] = "between"
    follower.look()
    assert "0/5 trials" in run.screens[-1]
    follower.stopping = True
    follower.look()
    assert run.screens[-1] == "s  ending the trials that run"


def test_a_failed_trial_has_a_line(run):
    one = run.study.trials()[0].id
    follower = run.follower()
    run.say(f"storewise: trial {one} ended: c.0: broken", "storewise: trial x ended: no")
    run.say("storewise: trial y was not opened: full", f"storewise: trial {one} is tried again")
    follower.look()
    assert run.lines == ["FAIL SQLite, repeat 1: c.0: broken"]
    assert run.notes == [f"trial {one} is tried again"]


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
    for busy, pause in ((0.001, MIN_PAUSE), (0.1, 5.0), (9.0, MAX_PAUSE)):
        run.busy, run.frame = busy, {}
        assert follower.look() == pytest.approx(pause)
