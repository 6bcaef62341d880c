"""The passes of a run: what is told, and when it ends, with a Snakemake that is none."""

from __future__ import annotations

import json
import shutil
from collections import namedtuple
from dataclasses import asdict, dataclass, field
from pathlib import Path

import pytest

from storewise.errors import StorewiseError
from storewise.run import runner
from storewise.run.live_view import Moment
from storewise.run.plan import plan_line
from storewise.run.runner import Request, Stopped, run_study
from storewise.session.coordination.run import Failure
from storewise.study.load import load_study
from storewise.study.study import Study

STUDY = "workload: ycsb\nengines: [sqlite, duckdb]\nphases: [load: {recordcount: 10}]\nretries: 1\n"
Usage = namedtuple("Usage", "total used free")


@dataclass
class Told:
    """A view that keeps what it is told."""

    lines: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    def line(self, text: str, style: str = "") -> None:
        self.lines.append(text)

    def note(self, text: str) -> None:
        self.notes.append(text)

    def show(self, moment: Moment) -> None:
        pass


@pytest.fixture
def study(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Study:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "s.yaml").write_text(STUDY)
    return load_study("s.yaml")


def failing(
    study: Study, reason: str, tail: str, monkeypatch: pytest.MonkeyPatch, most: int = 9
) -> list[int]:
    """Lets each pass of Snakemake fail in the first trial, `most` times; returns the passes."""
    passes: list[int] = []
    (trial, *_) = study.trials()
    path = Path("results/s/failures") / f"{trial.id}.jsonl"

    def one_pass(*_: object) -> int:
        passes.append(len(passes))
        if len(passes) > most:
            return 0
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("a") as file:
            file.write(json.dumps(asdict(Failure(trial.id, reason, tail, "r", 4e9))) + "\n")
        return 1

    monkeypatch.setattr(runner, "_snakemake", one_pass)
    return passes


def test_a_full_disk_ends_the_run_at_once(study: Study, monkeypatch: pytest.MonkeyPatch) -> None:
    full = "load.0: [Errno 28] No space left on device (on host a)"
    passes, told = failing(study, full, "", monkeypatch), Told()
    assert run_study(Request("s.yaml"), told) == 2
    assert passes == [0]
    assert len(told.lines) == 1 and told.lines[0].endswith(full)
    (note,) = told.notes
    assert "a disk is full, and the run has stopped: 0 of 2 trials kept. Make room" in note
    assert not list(Path("results").glob("s/trials/*/failed.json")), "it is no fault of the trial"


def test_a_trial_is_tried_again_and_then_left_out_with_its_log(
    study: Study, monkeypatch: pytest.MonkeyPatch
) -> None:
    tail = 'ERROR broken\nTraceback (most recent call last):\n  File "x", line 1\nIOError: broken'
    passes, told = failing(study, "load.0: broken", tail, monkeypatch, most=2), Told()
    assert run_study(Request("s.yaml"), told) == 1
    assert passes == [0, 1, 2]
    name = study.trials()[0].id
    fail = told.lines[0]
    assert fail.startswith("FAIL ") and fail.endswith(": load.0: broken")
    assert told.lines == [fail, fail, "     | ERROR broken", "     | IOError: broken"]
    assert told.notes[0] == f"trial {name} is tried again; its logs: results/s/logs/{name}"
    assert (
        f"trial {name} failed 2 times and is left out; its logs: results/s/logs/" in told.notes[1]
    )
    assert told.notes[2].startswith(f"1 of 2 trials failed: {name}")


def test_a_run_that_is_stopped_says_what_is_kept(
    study: Study, monkeypatch: pytest.MonkeyPatch
) -> None:
    verified = Path("results/s/trials") / study.trials()[1].id / "verify.parquet"
    verified.parent.mkdir(parents=True)
    verified.touch()
    monkeypatch.setattr(runner, "_snakemake", lambda *_: Stopped(15))
    told = Told()
    assert run_study(Request("s.yaml"), told) == 143
    assert told.notes == ["stopped: 1 of 2 trials kept; run again to go on"]


def test_another_error_is_a_sentence_and_the_log(
    study: Study, monkeypatch: pytest.MonkeyPatch
) -> None:
    def one_pass(_: object, log: object, __: object) -> int:
        Path("results/s/logs/run.log").write_text("Error: no cores\n")
        return 1

    monkeypatch.setattr(runner, "_snakemake", one_pass)
    told = Told()
    assert run_study(Request("s.yaml"), told) == 2
    assert told.notes == ["no cores", "Snakemake's log: results/s/logs/run.log"]


def test_too_little_space_is_refused_before_anything_starts(
    study: Study, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shutil, "disk_usage", lambda _: Usage(9 << 30, 8 << 30, 3 << 20))
    with pytest.raises(StorewiseError, match=r"results/s has 3\.00 MiB free, and .* 256 MiB"):
        run_study(Request("s.yaml"), Told())


def test_a_plan_ends_with_trials_and_time(study: Study) -> None:
    results = Path("results/s")
    assert plan_line(study, study.trials(), results) == "2 trials, about 10 s"
    assert plan_line(study, study.trials()[:1], results) == (
        "1 trial, about 5 s (1 measured already)"
    )
    assert plan_line(study, [], results) == "nothing to measure (2 measured already)"
