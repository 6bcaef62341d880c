"""A study that goes on: what each pass of a command plans, and how often a trial is tried.

Snakemake makes every plan, in this process; the measuring is made up: a trial that is planned
leaves its files, or fails where the test says so.
"""

import json
import re
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from unittest import mock

import pytest
from support.workflow import snakemake
from support.workspace import Workspace

from storewise.run.retries import SINCE_VARIABLE, end_pass, forget, given_up
from storewise.session.coordination.failure import Failure
from storewise.session.coordination.liveness import Session
from storewise.study.load import load_study
from storewise.study.trial import Trial

STUDY = """\
inputs: {paths: data}
engines: [sqlite, duckdb]
factors: {workers: [2], volume: [0.5, 1]}
exclude: [{engine: duckdb, volume: 0.5}]
phases:
  - write
  - read: {operations: 10}
retries: 1
"""
#: Of a whole trial with two workers.
WHOLE = ["open", "read 0", "read 1", "verify", "write 0", "write 1"]
Measure = Callable[[Trial], None]


@dataclass
class Running:
    """A study whose passes plan with Snakemake and measure nothing. All time is made up: a pass
    takes a second."""

    place: Workspace
    now: float = 1e9
    #: Of each pass: the jobs of each trial, and how many shards the inputs are cut into anew.
    plans: list[dict[str, list[str]]] = field(default_factory=list)
    shards: list[set[str]] = field(default_factory=list)
    run_id: str = ""

    def __post_init__(self):
        self.study = load_study(self.place.directory / "s.yaml")
        self.trials = {f"{t.engine} {t.volume:g}": t for t in self.study.trials()}

    def run(self, *passes, retry_failed=False):
        """One command, whose passes must be as many; each says what its trials do that are not
        measured as usual. Returns its exit status; None where the user has stopped it."""
        self.plans, self.shards, self.now = [], [], self.now + 100
        since, results = self.now, self.place.results
        if retry_failed:
            forget(self.study, results)
        for number, does in enumerate(passes):
            self.now += 1
            self.run_id = f"{since}.{number}"
            with mock.patch.dict("os.environ", {SINCE_VARIABLE: f"{since}"}):
                jobs = self.plan()
            assert does.keys() <= jobs.keys(), jobs
            try:
                failed = self.measure(jobs, does)
            except KeyboardInterrupt:
                return None
            if not failed:
                break
            assert end_pass(self.study, results, self.run_id, since).again
        assert number == len(passes) - 1, "fewer passes than were expected"
        return 1 if given_up(self.study, results, since) else 0

    def plan(self):
        """The planned jobs of each trial."""
        done = snakemake(self.place.command("-n"), self.place.directory)
        assert done.returncode == 0, done.stdout + done.stderr
        jobs = {}
        names = {trial.id: name for name, trial in self.trials.items()}
        for trial, job in re.findall(r"^Job \d+: Trial (\S+?)(?:: (.*))?$", done.stdout, re.M):
            match = re.fullmatch(r"(loading|read), worker (\d+)", job)
            words = {"": "open", "verifying what was stored": "verify"}
            text = f"{match[1].replace('loading', 'write')} {match[2]}" if match else words.get(job)
            if text is not None:
                jobs.setdefault(names[trial], []).append(text)
        self.plans.append({name: sorted(found) for name, found in jobs.items()})
        self.shards.append(set(re.findall(r"Balancing the inputs over (\S+) shards", done.stdout)))
        return jobs

    def measure(self, jobs, does):
        """Whether a planned trial fails."""
        self.listed()
        failed = False
        for name in jobs:
            try:
                does.get(name, self.measured)(self.trials[name])
            except RuntimeError:
                failed = True
        return failed

    def listed(self):
        """The inputs are listed and cut, older than all that comes of them."""
        for name in ("files.txt", "manifest.parquet", "shards/2.parquet", "shards/2of0.5.parquet"):
            path = self.place.results / "inputs" / name
            path.parent.mkdir(parents=True, exist_ok=True)
            if not path.exists():
                path.touch()

    def measured(self, trial, *, last="verify"):
        """A trial leaves its files, up to those of the phase `last`."""
        directory = self.place.results / "trials" / trial.id
        directory.mkdir(parents=True, exist_ok=True)
        for phase in ("write", "read"):
            for worker in range(trial.workers):
                (directory / f"{phase}.{worker}.parquet").touch()
                (directory / f"{phase}.{worker}.hlog").touch()
            if phase == last:
                return
        (directory / "verify.parquet").touch()

    def fails(self, trial, reason="load.0: it broke"):
        """A trial fails, after its load."""
        self.measured(trial, last="write")
        self.record(trial, reason)
        raise RuntimeError(reason)

    def interrupted(self, trial):
        """The user stops the run in a trial: no attempt of it is on record."""
        self.measured(trial, last="read")
        raise KeyboardInterrupt

    def record(self, trial, reason):
        path = self.place.results / "failures" / f"{trial.id}.jsonl"
        path.parent.mkdir(parents=True, exist_ok=True)
        failure = Failure(trial.id, reason, "the log's end", self.run_id, self.now)
        with path.open("a") as file:
            file.write(json.dumps(asdict(failure)) + "\n")

    def given_up(self):
        """Trials that are out of the plan, and after how many attempts."""
        marks = [json.loads(p.read_text()) for p in self.place.results.glob("trials/*/failed.json")]
        names = {trial.id: name for name, trial in self.trials.items()}
        return {names[mark["trial"]]: mark["attempts"] for mark in marks}


@pytest.fixture
def study(tmp_path, monkeypatch):
    place = Workspace(tmp_path)
    place.copy_inputs()
    place.write_study(STUDY)
    running = Running(place)
    monkeypatch.chdir(tmp_path)
    return running


def test_a_trial_that_fails_is_tried_as_often_as_the_study_says(study):
    """Earlier runs' failures are no attempts of this one; what succeeded is not planned again."""
    lame = study.trials["sqlite 0.5"]
    for _ in range(5):
        study.record(lame, "of an earlier run")
    status = study.run({"sqlite 0.5": study.fails}, {"sqlite 0.5": study.fails}, {})
    assert status == 1
    assert study.plans[0] == dict.fromkeys(study.trials, WHOLE)
    assert study.shards[0] == {"2", "2of0.5"}
    assert study.plans[1:] == [{"sqlite 0.5": WHOLE}, {}], "from its load on, and alone"
    assert study.shards[1:] == [set(), set()], "with the shards that are there"
    assert study.given_up() == {"sqlite 0.5": 2}
    # It stays out of each plan until it is asked for, and has its attempts anew then.
    assert study.run({}) == 1
    assert study.plans == [{}]
    assert study.run({"sqlite 0.5": study.fails}, {}, retry_failed=True) == 0
    assert study.plans == [{"sqlite 0.5": WHOLE}] * 2
    assert study.given_up() == {}
    assert study.run({}) == 0
    assert study.plans == [{}]


def test_an_interrupted_pass_is_no_attempt(study):
    assert study.run({"duckdb 1": study.interrupted}) is None
    done = {n for n, t in study.trials.items() if (study.place.results / "trials" / t.id).exists()}
    status = study.run({"duckdb 1": study.fails}, {})
    assert status == 0, "one failure alone is tried again"
    left = {name: WHOLE for name in study.trials if name == "duckdb 1" or name not in done}
    assert study.plans == [left, {"duckdb 1": WHOLE}]


@pytest.mark.parametrize("lost", ["read.1.parquet", "write.0.parquet", "verify.parquet"])
def test_a_file_away_once_measures_its_whole_trial_and_no_other(study, lost):
    assert study.run({}) == 0
    place = study.place.results / "trials" / study.trials["sqlite 0.5"].id
    (place / lost).unlink()
    assert study.run({}) == 0
    assert study.plans == [{"sqlite 0.5": WHOLE}]
    assert study.run({}) == 0
    assert study.plans == [{}]


@pytest.mark.parametrize(
    "look",
    [
        ["-n"],
        ["-n", "analysis"],
        ["-n", "report"],
        ["--summary"],
        ["--lint"],
        ["--report", "r.html"],
    ],
    ids=" ".join,
)
def test_who_looks_at_a_plan_changes_nothing(study, look):
    """Not even what seems to be of a run that was killed: it may be of one that we cannot see."""
    results, locks = study.place.results, study.place.directory / ".snakemake" / "locks"
    assert study.run({}) == 0
    interrupted = study.trials["sqlite 1"].id
    (results / "trials" / interrupted / "verify.parquet").unlink()
    live = results / "live" / interrupted
    for path in (locks / "0.input.lock", live / "nodes" / "data0.json", results / "leases" / "r"):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
    Session(interrupted, "r", 25.0, 0.0).write(live)
    trials = results / "trials" / interrupted / "write.0.workers"
    trials.write_text("write.7.parquet\n")
    for name in ("analysis", "figures"):
        (results / name).mkdir()
    (results / "report.html").touch()

    def all_files():
        for top in (results, locks):
            for path in sorted(top.rglob("*")):
                yield path, path.lstat().st_mtime_ns, path.is_file() and path.read_bytes()

    before = list(all_files())
    snakemake(study.place.command(*look), study.place.directory)
    assert list(all_files()) == before
