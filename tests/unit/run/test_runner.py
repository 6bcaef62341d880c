"""The passes of a run: what is planned again, what is told, and how it ends, with a Snakemake that
is none."""

import json
import os
import shutil
import signal
import subprocess
import sys
from collections import namedtuple
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from unittest import mock

import pytest
from support.fake_time import FakeTime
from support.paths import ROOT

from storewise.errors import ConfigError, StorewiseError
from storewise.layout import LIBRARY
from storewise.run import runner
from storewise.run.plan import plan_line
from storewise.run.retries import attempts, forget, give_up, given_up
from storewise.run.runner import (
    NOTICED,
    Request,
    cache_environment,
    plan_study,
    renew_inputs,
    results_of,
    run_study,
    slots_needed,
    workflow_home,
)
from storewise.session.coordination.liveness import Process
from storewise.session.coordination.run import Failure
from storewise.session.coordination.run_record import RUNNER_VARIABLE
from storewise.study.load import load_study

STUDY = "workload: ycsb\nengines: [sqlite, duckdb]\nphases: [load: {recordcount: 10}]\nretries: 1\n"
BROKEN = "load.0: broken"
FULL = "load.0: [Errno 28] No space left on device (on host a)"
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

    def show(self, moment):
        self.steps.append(moment.step)


@dataclass
class Pass:
    """What one pass of Snakemake does, and how it ends."""

    status: int = 1
    failed: Sequence[tuple[str, str]] = ()  # trials and reasons
    log: str = ""
    does: Callable[[], object] = lambda: None
    tail: str = ""
    until: float = 0.0


class Snakemake:
    """Stands for `subprocess.Popen`: each call is the next pass, and all time is its own."""

    pid = 7

    def __init__(self, study, time):
        self.study, self.time = study, time
        self.passes, self.begun, self.command, self.waits = [], [], [], []
        self.terminated = 0

    def __call__(self, command, **options):
        self.command = command
        self.begun.append(options)
        self._pass = self.passes.pop(0)
        self._done = False
        return self

    def wait(self, pause=None):
        self.waits.append(pause)
        if not self._done:
            self._done = True
            self.time.spend(1)
            if self._pass.log:
                self.begun[-1]["stdout"].write(self._pass.log.encode())
                self.begun[-1]["stdout"].flush()
            for trial, reason in self._pass.failed:
                fail(trial, reason, self.time.now, self._pass.tail, self._pass.until)
            self._pass.does()
            if pause is not None:
                raise subprocess.TimeoutExpired("snakemake", pause)
        return self._pass.status

    def terminate(self):
        self.terminated += 1

    def run(self, *passes, **options):
        """`storewise run` with these passes, all of which must be needed."""
        self.time.spend(1)
        self.passes, told = list(passes), Told()
        request = options.pop("request", Request("s.yaml"))
        own = {"clock": self.time.clock, "sleep": self.time.sleep}
        status = run_study(request, told, **{**own, **options})
        assert self.passes == []
        return status, told


def fail(trial, reason, at, tail="", until=0.0):
    """A failed attempt, as a run records it."""
    path = RESULTS / "failures" / f"{trial}.jsonl"
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a") as file:
        file.write(json.dumps(asdict(Failure(trial, reason, tail, "r", at, until))) + "\n")


def marks():
    """Trials that were given up, and after how many attempts."""
    return {
        path.parent.name: json.loads(path.read_text())["attempts"]
        for path in RESULTS.glob("trials/*/failed.json")
    }


@pytest.fixture
def study(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "s.yaml").write_text(STUDY)
    return load_study("s.yaml")


@pytest.fixture
def snakemake(study, monkeypatch):
    made = Snakemake(study, FakeTime(start=5000))
    monkeypatch.setattr(runner.subprocess, "Popen", made)
    monkeypatch.setattr(shutil, "disk_usage", lambda _: Usage(1 << 40, 0, 1 << 40))
    return made


@pytest.mark.parametrize("earlier", [0, 5])
@pytest.mark.parametrize(
    ("retries", "fails", "given"), [(0, 1, 1), (1, 2, 2), (1, 1, 0), (3, 3, 0)]
)
def test_a_trial_has_its_attempts_in_each_run(snakemake, retries, fails, given, earlier):
    """What failed in runs before this one, also a moment before it, does not count."""
    Path("s.yaml").write_text(STUDY.replace("retries: 1", f"retries: {retries}"))
    name = snakemake.study.trials()[0].id
    for number in range(earlier):
        fail(name, BROKEN, snakemake.time.now + 0.999 - number)
    passes = [Pass(failed=[(name, BROKEN)])] * fails + [Pass(0)]
    status, told = snakemake.run(*passes)
    assert (status, marks()) == (1 if given else 0, {name: given} if given else {})
    again = sum("is tried again" in note for note in told.notes)
    assert again == (fails - 1 if given else fails)
    times = "once" if given == 1 else f"{given} times"
    assert (f"trial {name} failed {times} and is left out" in str(told.notes)) == bool(given)
    assert given_up(snakemake.study, RESULTS) == ([name] if given else [])


def test_each_trial_is_counted_by_itself(snakemake):
    one, two = (trial.id for trial in snakemake.study.trials())
    fails = [(one, BROKEN), (two, BROKEN), (two, "load.0: other")]
    status, told = snakemake.run(*(Pass(failed=[failed]) for failed in fails), Pass(0))
    assert (status, marks()) == (1, {two: 2})
    assert [note.split(";")[0] for note in told.notes] == [
        f"trial {one} is tried again",
        f"trial {two} is tried again",
        f"trial {two} failed 2 times and is left out",
        f"1 of 2 trials failed: {two}",
    ]
    mark = json.loads((RESULTS / "trials" / two / "failed.json").read_text())
    assert mark == {
        **{"trial": two, "factors": snakemake.study.trials()[1].factors, "repeat": 1},
        **{"attempts": 2, "reason": "load.0: other", "log_tail": "", "host_fault": False},
    }


def test_what_was_given_up_is_planned_again_where_the_user_says_so(snakemake):
    study, name = snakemake.study, snakemake.study.trials()[0].id
    assert attempts(study, RESULTS, 0.0) == {}
    for at in (1.0, 2.0, 3.0):
        fail(name, BROKEN, at)
    tried = attempts(study, RESULTS, 2.0)
    assert {trial: [f.at for f in of] for trial, of in tried.items()} == {name: [2.0, 3.0]}
    (RESULTS / "trials" / name).mkdir(parents=True)  # it had come as far as that
    give_up(study, RESULTS, name, tried[name])
    status, told = snakemake.run(Pass(0))
    assert (status, marks()) == (1, {name: 2}), "nobody has asked for it"
    assert told.notes[0].startswith(f"1 of 2 trials failed: {name}; ")
    assert snakemake.run(Pass(0), retry_failed=True)[0] == 0
    assert marks() == {}
    forget(study, RESULTS, every=True)


def test_a_trial_that_failed_by_its_host_is_repeated_by_the_next_run(snakemake):
    one, two = (trial.id for trial in snakemake.study.trials())
    lost = Pass(failed=[(one, "load lost its host n7: Slurm says that it is gone (NODE_FAIL)")])
    broken = Pass(failed=[(two, BROKEN)])
    status, told = snakemake.run(lost, lost, broken, broken, Pass(0))
    assert (status, marks()) == (1, {one: 2, two: 2})
    assert f"trial {one} failed 2 times and is left out until the next run" in str(told.notes)
    assert snakemake.run(Pass(0))[0] == 1
    assert marks() == {two: 2}, "its store is to blame"


def test_the_log_of_the_last_attempt_is_shown(snakemake):
    tail = 'ERROR broken\nTraceback (most recent call last):\n  File "x", line 1\nIOError: broken'
    name = snakemake.study.trials()[0].id
    broken = Pass(failed=[(name, BROKEN)], tail=tail)
    _, told = snakemake.run(broken, broken, Pass(0))
    fails = f"FAIL {'DuckDB' if name.startswith('duckdb') else 'SQLite'}: {BROKEN}"
    assert told.lines == [fails, fails, "     | ERROR broken", "     | IOError: broken"]
    assert told.notes[0] == f"trial {name} is tried again; its logs: results/s/logs/{name}"
    assert told.notes[1].endswith(f"is left out; its logs: results/s/logs/{name}")


def test_a_full_disk_ends_the_run_at_once(snakemake):
    """No trial is given up for it, nor another that failed in the same pass, and the next run has
    all its attempts."""
    one, two = (trial.id for trial in snakemake.study.trials())
    Path("s.yaml").write_text(STUDY.replace("retries: 1", "retries: 0"))
    status, told = snakemake.run(Pass(failed=[(one, BROKEN), (two, FULL)]))
    assert (status, marks()) == (2, {})
    assert [line.partition(": ")[2] for line in told.lines] == [BROKEN, FULL]
    (note,) = told.notes
    assert note.startswith("a disk is full, and the run has stopped: 0 of 2 trials kept.")
    assert note.endswith(f"logs: results/s/logs/{two}")
    assert snakemake.run(Pass(0))[0] == 0


def test_too_little_space_is_refused_before_each_pass(snakemake, monkeypatch):
    free = [1 << 40]
    monkeypatch.setattr(shutil, "disk_usage", lambda _: Usage(9 << 40, 0, free[0]))
    name = snakemake.study.trials()[0].id

    def fill():
        free[0] = 3 << 20

    with pytest.raises(StorewiseError, match=r"results/s has 3\.00 MiB free, and .* 256 MiB"):
        snakemake.run(Pass(failed=[(name, BROKEN)], does=fill))
    assert len(snakemake.begun) == 1
    with pytest.raises(StorewiseError, match="there is not enough space"):
        snakemake.run()
    # Snakemake's own end may tell it, or the disk itself.
    free[0] = 1 << 40
    status, told = snakemake.run(Pass(log="OSError: [Errno 28] No space left on device\n"))
    assert status == 2 and told.notes[1].startswith("a disk is full: 0 of 2 trials kept.")
    status, told = snakemake.run(Pass(log="Error: x\n", does=fill))
    assert status == 2 and told.notes[1].startswith("a disk is full")


def test_an_end_without_a_failed_trial_is_no_reason_to_try_again(snakemake):
    """Also not where trials have failed earlier in the run, or where something has killed it."""
    failed = [(snakemake.study.trials()[0].id, BROKEN)]
    first = Pass(failed=failed, log="Error: of the first pass\n")
    for status, returned in ((1, 2), (2, 2), (127, 2), (-9, -9), (128, 128), (137, 137)):
        killed = failed if returned != 2 else []
        code, told = snakemake.run(first, Pass(status, log="Error: no cores\n", failed=killed))
        assert code == returned
        assert told.notes[1:] == ["no cores", "Snakemake's log: results/s/logs/run.log"]
        assert marks() == {}


def test_lines_of_a_log_explain_an_error_where_snakemake_s_own_are_not_shown(snakemake):
    _, told = snakemake.run(Pass(log="a\nKilled\n"))
    assert told.notes[0] == "Snakemake has ended with an error"
    assert told.lines == ["     | a", "     | Killed"]
    shutil.rmtree(RESULTS)
    status, told = snakemake.run(Pass(), verbose=True)
    assert (status, told.notes, told.steps, RESULTS.exists()) == (2, [], [], False)
    assert snakemake.begun[1]["stdout"] is snakemake.begun[1]["stderr"] is None
    assert snakemake.waits[-1] is None


def test_a_run_that_is_stopped_says_what_is_kept(snakemake, monkeypatch):
    """By Ctrl-C or SIGTERM, in whatever pass; Snakemake ends its trials first."""
    one, two = (trial.id for trial in snakemake.study.trials())
    verified = RESULTS / "trials" / two / "verify.parquet"
    verified.parent.mkdir(parents=True)
    verified.touch()

    sent = []
    monkeypatch.setattr(os, "killpg", lambda *told: sent.append(told))
    before = [signal.getsignal(number) for number in (2, 15)]
    for number in (2, 15):
        last = Pass(1, does=partial(signal.raise_signal, number), failed=[(one, BROKEN)])
        status, told = snakemake.run(Pass(failed=[(one, BROKEN)]), last)
        assert status == 128 + number
        assert told.notes[1:] == ["stopped: 1 of 2 trials kept; run again to go on"]
        assert told.steps[-1] == "ending the trials that run"
        assert (snakemake.terminated, marks()) == (number // 15, {})
    # It had just ended well.
    assert snakemake.run(Pass(0, does=partial(signal.raise_signal, 2)))[0] == 0
    assert sent == [(snakemake.pid, 2)] * 2, "Ctrl-C: to its jobs, too"
    assert [signal.getsignal(number) for number in (2, 15)] == before


def test_jobs_are_given_to_no_host_that_is_taken_back(snakemake):
    """The next pass begins when it is gone, and with a scheduler when that knows it."""

    def taken(seconds):
        failed = [(snakemake.study.trials()[0].id, "load.0: taken back")]
        return Pass(failed=failed, until=snakemake.time.now + seconds)

    begun = snakemake.time.now
    status, told = snakemake.run(taken(12.5), Pass(0))
    assert (status, snakemake.time.now) == (0, begun + 13.5)
    assert told.notes[1:] == ["waiting 10 s, until the host that is taken back is gone"]
    assert snakemake.time.sleeps == [1.0] * 10 + [0.5]
    begun = snakemake.time.now
    request = Request("s.yaml", profile="slurm")
    assert snakemake.run(taken(6), Pass(0), request=request)[0] == 0
    assert snakemake.time.now == begun + 6 + NOTICED + 1

    status, told = snakemake.run(taken(99), sleep=mock.Mock(side_effect=KeyboardInterrupt))
    assert status == 130 and told.notes[-1].startswith("stopped: 0 of 2")
    # It is gone already.
    assert len(snakemake.run(taken(2), Pass(0))[1].notes) == 1


def test_a_report_that_could_not_be_published(snakemake):
    """Trials may have failed, too: that is told, and the status is that of publishing."""
    name = snakemake.study.trials()[0].id
    log = RESULTS / "logs" / "publish.log"

    def publish():
        log.write_text("no such bucket\n")
        os.utime(log, ns=(0, snakemake.time.ns))

    broken = Pass(failed=[(name, BROKEN)])
    status, told = snakemake.run(broken, broken, Pass(1, does=publish))
    assert status == runner.NOT_PUBLISHED == 3
    assert told.notes[2].startswith("the results are not published, results/s/logs/publish.log")
    assert told.notes[2].endswith(": storewise publish s.yaml")
    assert told.notes[3].startswith(f"1 of 2 trials failed: {name}")
    # That was another run, and this one has not come so far.
    status, told = snakemake.run(Pass(1, log="Error: no cores\n"))
    assert (status, told.notes[0]) == (2, "no cores")
    (RESULTS / "report.html").touch()
    (RESULTS / "published.json").write_text('{"place": "s3://x"}')
    assert snakemake.run(Pass(1, does=publish))[0] == 2, "that was not why"
    assert snakemake.run(Pass(-9, does=publish))[0] == -9


def test_what_snakemake_is_called_with(snakemake, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", "/dev/null/cache")
    monkeypatch.setattr(runner, "dies_with_parent", lambda number: ("dies", number))
    assert snakemake.run(Pass(0))[0] == 0
    (options,) = snakemake.begun
    assert options["preexec_fn"] == ("dies", signal.SIGTERM), "it ends its trials in order"
    assert options["stderr"] == subprocess.STDOUT
    assert json.loads(options["env"][RUNNER_VARIABLE]) == asdict(Process.current())
    assert options["env"]["XDG_CACHE_HOME"] == str(Path(".snakemake/cache").absolute())
    assert options["env"]["PATH"] == os.environ["PATH"]
    assert snakemake.command == Request("s.yaml").command(snakemake.study)
    # Another run of the study is not disturbed.
    monkeypatch.setattr(runner, "measuring_run", lambda results: f"{results} is measured here")
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
    assert renew_inputs("s.yaml") == f"{listing}: nothing new, 2 files"
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
