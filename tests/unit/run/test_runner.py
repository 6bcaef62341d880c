"""`storewise run`: what is told, and how it ends, with a Snakemake that is none."""

import json
import os
import shutil
import signal
import subprocess
import sys
from collections import namedtuple
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from unittest import mock

import pytest
from support.paths import ROOT
from support.terminal import rendered

from storewise.errors import ConfigError, StorewiseError
from storewise.layout import LIBRARY
from storewise.run import runner
from storewise.run.plan import plan_line
from storewise.run.retries import SINCE_VARIABLE
from storewise.run.runner import (
    Request,
    cache_environment,
    plan_study,
    renew_inputs,
    results_of,
    run_study,
    slots_needed,
    workflow_home,
)
from storewise.study.load import load_study

STUDY = "workload: ycsb\nengines: [sqlite, duckdb]\nphases: [load: {recordcount: 10}]\nretries: 1\n"
RESULTS = Path("results/s")
Usage = namedtuple("Usage", "total used free")


class Told:
    """A view that keeps what it is told."""

    def __init__(self):
        self.lines, self.notes, self.steps = [], [], []

    def line(self, text, style=""):
        self.lines.append(text)

    def note(self, text):
        self.notes.append(text)

    def show(self, screen):
        self.steps.append(rendered(screen).split("  ")[-1])


@dataclass
class Snakemake:
    """Stands for `subprocess.Popen`."""

    study: object
    status: int = 0
    log: str = ""
    does: Callable[[], object] = lambda: None
    pid = 7
    terminated = 0

    def __call__(self, command, **options):
        self.command, self.options, self.waits, self.done = command, options, [], False
        return self

    def wait(self, pause=None):
        self.waits.append(pause)
        if not self.done:
            self.done = True
            if self.log:
                self.options["stdout"].write(self.log.encode())
                self.options["stdout"].flush()
            self.does()
            if pause is not None:
                raise subprocess.TimeoutExpired("snakemake", pause)
        return self.status

    def terminate(self):
        self.terminated += 1

    def run(self, status=0, log="", does=lambda: None, **options):
        """`storewise run` with a Snakemake that does this and ends so."""
        self.status, self.log, self.does, told = status, log, does, Told()
        return run_study(options.pop("request", Request("s.yaml")), told, **options), told


def give_up(trial, at=2e9, tail=""):
    """As a run leaves a trial that it has given up."""
    path = RESULTS / "trials" / trial / "failed.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps({"host_fault": False, "at": at, "log_tail": tail}))


def report():
    RESULTS.mkdir(parents=True, exist_ok=True)
    (RESULTS / "report.html").write_text("made")


@pytest.fixture
def study(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "s.yaml").write_text(STUDY)
    return load_study("s.yaml")


@pytest.fixture
def snakemake(study, monkeypatch):
    made = Snakemake(study)
    monkeypatch.setattr(runner.subprocess, "Popen", made)
    monkeypatch.setattr(shutil, "disk_usage", lambda _: Usage(1 << 40, 0, 1 << 40))
    return made


def test_trials_that_were_given_up_are_told_and_planned_again_where_the_user_says_so(snakemake):
    one, two = (trial.id for trial in snakemake.study.trials())
    tail = 'ERROR broken\nTraceback (most recent call last):\n  File "x", line 1\nIOError: broken'

    def fails():
        give_up(one, at=1.0, tail="of an earlier run")
        give_up(two, tail=tail)
        report()

    said = f"storewise: trial {two} ended: load.0: broken\nstorewise: trial {two} failed 2 times\n"
    status, told = snakemake.run(1, said, fails)
    assert status == 1
    name = "DuckDB" if two.startswith("duckdb") else "SQLite"
    lines = [f"{two}:", "     | ERROR broken", "     | IOError: broken"]
    assert told.lines == [f"FAIL {name}: load.0: broken", *lines]
    assert told.notes[0] == f"trial {two} failed 2 times"
    assert told.notes[1].startswith("2 of 2 trials failed: ") and one in told.notes[1]
    # Nobody has asked for them, and nothing is left to do.
    assert snakemake.run(0)[0] == 1
    assert snakemake.run(0, retry_failed=True)[0] == 0
    assert list(RESULTS.glob("trials/*/failed.json")) == []


def test_an_error_that_is_no_trial_s(snakemake, monkeypatch):
    """Also where trials were given up before, and nothing was made of the rest."""
    give_up(snakemake.study.trials()[0].id, at=1.0)
    for status, returned in ((1, 2), (2, 2), (127, 2), (-9, -9), (128, 128), (137, 137)):
        code, told = snakemake.run(status, "Error: no cores\n")
        assert code == returned
        assert told.notes == ["no cores", "Snakemake's log: results/s/logs/run.log"]
    # What the workflow has told itself is enough.
    status, told = snakemake.run(1, "storewise: a disk is full\nError: x\n")
    assert (status, told.notes[:1]) == (2, ["a disk is full"]) and len(told.notes) == 2
    _, told = snakemake.run(1, "a\nKilled\n")
    assert told.notes[0] == "Snakemake has ended with an error"
    assert told.lines == ["     | a", "     | Killed"]
    monkeypatch.setattr(shutil, "disk_usage", lambda _: Usage(1 << 40, 0, 3 << 20))
    status, told = snakemake.run(1, "Error: x\n")
    assert status == 2 and told.notes[1].startswith("a disk is full: 0 of 2 trials kept.")
    shutil.rmtree(RESULTS)
    status, told = snakemake.run(1, verbose=True)
    assert (status, told.notes, told.steps, RESULTS.exists()) == (2, [], [], False)
    assert snakemake.options["stdout"] is snakemake.options["stderr"] is None
    assert snakemake.waits == [None]


def test_a_run_that_is_stopped_says_what_is_kept(snakemake, monkeypatch):
    """By Ctrl-C or SIGTERM; Snakemake ends its trials first."""
    verified = RESULTS / "trials" / snakemake.study.trials()[1].id / "verify.parquet"
    verified.parent.mkdir(parents=True)
    verified.touch()
    sent = []
    monkeypatch.setattr(os, "killpg", lambda *told: sent.append(told))
    before = [signal.getsignal(number) for number in (2, 15)]
    for number in (2, 15):
        status, told = snakemake.run(1, does=partial(signal.raise_signal, number))
        assert status == 128 + number
        assert told.notes == ["stopped: 1 of 2 trials kept; run again to go on"]
        assert told.steps[-1] == "ending the trials that run"
        assert snakemake.terminated == number // 15
    # It had just ended well.
    assert snakemake.run(0, does=partial(signal.raise_signal, 2))[0] == 0
    assert sent == [(snakemake.pid, 2)] * 2, "Ctrl-C: to its jobs, too"
    assert [signal.getsignal(number) for number in (2, 15)] == before


def test_a_report_that_could_not_be_published(snakemake):
    """Trials may have failed, too: that is told, and the status is that of publishing."""
    name = snakemake.study.trials()[0].id
    log = RESULTS / "logs" / "publish.log"

    def publish():
        report()
        log.write_text("no such bucket\n")
        give_up(name)

    status, told = snakemake.run(1, does=publish)
    assert status == runner.NOT_PUBLISHED == 3
    assert told.notes[0].startswith("the results are not published, results/s/logs/publish.log")
    assert told.notes[0].endswith(": storewise publish s.yaml")
    assert told.notes[1].startswith(f"1 of 2 trials failed: {name}")
    # That was another run, and this one has not come so far.
    status, told = snakemake.run(1, "Error: no cores\n")
    assert (status, told.notes[0]) == (2, "no cores")


def test_what_snakemake_is_called_with(snakemake, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", "/dev/null/cache")
    monkeypatch.setattr(runner, "dies_with_parent", lambda number: ("dies", number))
    monkeypatch.setenv(SINCE_VARIABLE, "1.0")
    assert snakemake.run()[0] == 0
    options = snakemake.options
    assert options["preexec_fn"] == ("dies", signal.SIGTERM), "it ends its trials in order"
    assert options["stderr"] == subprocess.STDOUT
    assert SINCE_VARIABLE not in options["env"], "it is a first pass"
    assert options["env"]["XDG_CACHE_HOME"] == str(Path(".snakemake/cache").absolute())
    assert options["env"]["PATH"] == os.environ["PATH"]
    assert snakemake.command == Request("s.yaml").command(snakemake.study)
    # Another run of the study is not disturbed.
    told = lambda results, run: f"{results} is measured here"  # noqa: E731
    monkeypatch.setattr("storewise.run.killed.measuring_run", told)
    with pytest.raises(StorewiseError, match="results/s is measured here"):
        snakemake.run()


def test_the_command_line(study):
    def command(**asked):
        return " ".join(Request("s.yaml", **asked).command(study))

    start = f"{sys.executable} -m snakemake --snakefile {ROOT}/Snakefile"
    assert command(profile="x").startswith(start)
    for asked, words in (
        ({"cores": 7}, f"--profile {ROOT}/profiles/local --cores 7 --config"),
        ({"profile": "local"}, f"--profile {ROOT}/profiles/local --config"),
        ({"profile": "pbs", "cores": 3}, f"--profile {ROOT}/profiles/pbs --cores 3"),
        ({"profile": "mine"}, "--profile mine --config study=s.yaml"),
        ({"profile": "x", "arguments": ("-n", "-p")}, "--profile x -n -p --config"),
        ({"profile": "x", "scale": "big"}, "--config study=s.yaml scale=big"),
        ({"profile": "x", "many": True, "scale": "a"}, "study=s.yaml scale=a many=true"),
    ):
        assert words in command(**asked)
        others = ("scale=", "many=true", "--cores", "--dry-run")
        assert not [word for word in others if word not in words and word in command(**asked)]


def test_a_name_that_snakemake_would_read_as_a_number_is_given_as_a_path(study):
    Path("config/studies").mkdir(parents=True)
    Path("Snakefile").touch()
    Path("rules").mkdir()
    shutil.copy("s.yaml", "config/studies/1e3.yaml")
    assert Request("1e3").command(study)[-1] == f"study={Path.cwd()}/config/studies/1e3.yaml"


def test_the_widest_trials_fit_on_the_cores(study, monkeypatch):
    """Snakemake runs five jobs beyond its cores, and one of these is for the next trial."""
    monkeypatch.setattr(os, "cpu_count", lambda: None)
    assert slots_needed(study) == 1
    wide = "workload: ycsb\nengines: [sqlite, postgres]\nphases: [load]\nlive_sessions: 2\n"
    Path("s.yaml").write_text(wide + "factors: {workers: [1, 9], nodes: [3]}\n")
    assert slots_needed(load_study("s.yaml")) == (3 + 9) + 9 - 4
    monkeypatch.setattr(os, "cpu_count", lambda: 64)
    assert slots_needed(load_study("s.yaml")) == 64
    assert "--cores 64 " in " ".join(Request("s.yaml").command(study))


def test_where_the_workflow_is(study, monkeypatch):
    assert workflow_home() == LIBRARY
    Path("Snakefile").touch()
    assert workflow_home() == LIBRARY
    Path("rules").mkdir()
    assert workflow_home() == Path.cwd()
    Path("Snakefile").unlink()
    monkeypatch.setattr(runner, "LIBRARY", Path.cwd())
    with pytest.raises(StorewiseError, match=r"there is no Storewise workflow in .*`make env`"):
        workflow_home()


def test_a_cache_below_the_run_where_there_is_none(tmp_path, monkeypatch):
    own = {"XDG_CACHE_HOME": str(tmp_path / ".snakemake" / "cache")}
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "a" / "b"))
    assert cache_environment(tmp_path) == cache_environment(tmp_path) == {}
    assert (tmp_path / "a" / "b").is_dir() and not list((tmp_path / "a" / "b").iterdir())
    monkeypatch.setenv("XDG_CACHE_HOME", "")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert cache_environment(tmp_path) == {} and (tmp_path / ".cache").is_dir()
    (tmp_path / "file").touch()
    monkeypatch.setenv("HOME", str(tmp_path / "file"))
    assert cache_environment(tmp_path) == own
    monkeypatch.setattr(Path, "home", mock.Mock(side_effect=RuntimeError))
    assert cache_environment(tmp_path) == own


def planned(monkeypatch, status, said, **options):
    calls = []

    def run(command, **words):
        calls.extend((command, words))
        return subprocess.CompletedProcess(command, status, said, None)

    monkeypatch.setattr(runner.subprocess, "run", run)
    told = Told()
    return plan_study(options.pop("request", Request("s.yaml")), told, **options), told, calls


def test_a_plan_is_told_in_a_line(study, monkeypatch):
    one = study.trials()[0].id
    said = f"storewise: riak is left out: none\nJob 4: Trial {one}\nReason: x\nJob 5: Trial x-y\n"
    status, told, (command, words) = planned(monkeypatch, 0, said)
    assert (status, told.steps) == (0, ["planning the jobs"])
    assert told.lines == ["1 trial, about 5 s (1 measured already)"]
    assert told.notes == [
        "riak is left out: none",
        "`repeats: 1` in study s: its stores are measured, but cannot be judged; 3 are the fewest "
        "for that, 5 are better",
    ]
    assert command == Request("s.yaml").command(study, "--dry-run")
    assert "--dry-run --config study=s.yaml" in " ".join(command)
    assert words["env"]["PATH"] == os.environ["PATH"] and words["errors"] == "replace"
    _, told, _ = planned(monkeypatch, 0, said, verbose=True)
    assert told.lines[0] == said.rstrip()
    status, told, _ = planned(monkeypatch, 1, "Error: no cores\n")
    assert (status, told.notes, told.lines) == (2, ["no cores"], [])
    heres = []
    monkeypatch.setattr(runner, "plan_line", lambda *_, here: heres.append(here) or "")
    for profile in (None, "local", "slurm"):
        planned(monkeypatch, 0, "", request=Request("s.yaml", profile=profile))
    assert heres == [True, True, False]


def test_a_plan_ends_with_trials_and_time(study, monkeypatch):
    trials = study.trials()
    assert plan_line(study, trials, RESULTS) == "2 trials, about 10 s"
    assert plan_line(study, trials[:1], RESULTS) == "1 trial, about 5 s (1 measured already)"
    assert plan_line(study, [], RESULTS) == "nothing to measure (2 measured already)"

    def look(results, seen):
        seen.durations = {trials[0].id: (1.0, 600.0), trials[1].id: (1.0, None)}

    monkeypatch.setattr("storewise.run.plan.look", look)
    assert plan_line(study, trials, RESULTS) == "2 trials, about 20 min", "as those before"


def test_inputs_are_listed_anew(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    data, listing = tmp_path / "data", Path("results/s/inputs/files.txt")
    text = "inputs: {paths: data}\nengines: [sqlite]\nphases: [write]\n"
    Path("s.yaml").write_text(text)
    with pytest.raises(ConfigError, match="data"):
        Request("s.yaml").study()
    data.mkdir()
    for name in ("a.m10", "b.m10"):
        (data / name).touch()
    assert results_of(Request("s.yaml").study()) == RESULTS
    assert renew_inputs("s.yaml") == f"{listing}: 2 files, 2 added, 0 removed"
    assert listing.read_text().splitlines() == ["data/a.m10", "data/b.m10"]
    written = listing.stat().st_ino
    assert renew_inputs("s.yaml") == f"{listing}: nothing new, 2 files"
    assert listing.stat().st_ino == written, "a newer list is a reason to measure again"
    (data / "a.m10").rename(data / "c.m10")
    (data / "d.m10").touch()
    assert renew_inputs("s.yaml") == f"{listing}: 3 files, 2 added, 1 removed"
    shutil.rmtree(data)
    assert Request("s.yaml").study().name == "s", "they were listed, and may be elsewhere now"
    data.mkdir()
    for number in range(9):
        (data / f"{number}.m10").write_text("x" * 10)
    Path("s.yaml").write_text(text.replace("paths: data", "paths: data, sample: {files: 2}"))
    assert ": 2 files, 2 added, 3 removed" in renew_inputs("s.yaml")
    assert listing.with_name("sampled_of.txt").read_text() == "9\n", "the report says of how many"
