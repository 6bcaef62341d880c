"""Which failed trials another pass measures, and which are given up."""

import json
import sys
from dataclasses import asdict
from pathlib import Path

import pytest

from storewise.run.retries import (
    SINCE_VARIABLE,
    attempts,
    command_start,
    end_pass,
    forget,
    give_up,
    given_up,
    kept,
    lost_trials,
    next_pass_command,
    nothing_measured,
)
from storewise.session.coordination.failure import Failure
from storewise.session.coordination.opening import NOTICED_SECONDS
from storewise.study.load import load_study

STUDY = "workload: ycsb\nengines: [sqlite, duckdb]\nphases: [load: {recordcount: 10}]\nretries: 1\n"
BROKEN = "load.0: broken"
LOST = "load lost its host n7: Slurm says that it is gone (NODE_FAIL)"
FULL = "load.0: [Errno 28] No space left on device (on host a)"
RESULTS = Path("results/s")
START = 1000.0


@pytest.fixture
def study(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "s.yaml").write_text(STUDY)
    return load_study("s.yaml")


@pytest.fixture
def ids(study):
    return [trial.id for trial in study.trials()]


def fail(trial, reason, at, run="r", until=0.0):
    """A failed attempt, as a run records it."""
    path = RESULTS / "failures" / f"{trial}.jsonl"
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a") as file:
        file.write(json.dumps(asdict(Failure(trial, reason, "tail", run, at, until))) + "\n")


def ended(study, run="r", since=START):
    end = end_pass(study, RESULTS, run, since)
    return end.again, [sentence.split(";")[0] for sentence in end.sentences]


@pytest.mark.parametrize("earlier", [0, 5])
@pytest.mark.parametrize("retries", [0, 1, 3])
def test_a_trial_has_its_attempts_in_each_command(study, ids, retries, earlier):
    """What failed in commands before this one, also a moment before it, does not count."""
    study = study.model_copy(update={"retries": retries})
    for number in range(earlier):
        fail(ids[0], BROKEN, START - 0.001 - number)
    for number in range(retries):
        fail(ids[0], BROKEN, START + number, f"r{number}")
        assert ended(study, f"r{number}") == (True, [f"trial {ids[0]} is tried again"])
        assert given_up(study, RESULTS, START) == []
    fail(ids[0], BROKEN, START + 9)
    times = "once" if retries == 0 else f"{retries + 1} times"
    if retries == 1:
        (RESULTS / "trials" / ids[1]).mkdir(parents=True)
        (RESULTS / "trials" / ids[1] / "verify.parquet").touch()
    # The report of the other trial, where that was measured.
    left_out = [f"trial {ids[0]} failed {times} and is left out"]
    assert ended(study) == (retries == 1, left_out)
    assert given_up(study, RESULTS, START) == [ids[0]]
    assert lost_trials(study, RESULTS, START).startswith(f"1 of 2 trials failed: {ids[0]}; ")
    mark = json.loads((RESULTS / "trials" / ids[0] / "failed.json").read_text())
    assert mark == {
        **{"trial": ids[0], "factors": study.trials()[0].factors, "repeat": 1},
        **{"attempts": retries + 1, "reason": BROKEN, "log_tail": "tail", "host_fault": False},
        **{"at": START + 9, "study": mark["study"]},
    }


def test_a_pass_without_a_failed_trial_ends_the_command(study, ids):
    """Also where trials have failed in earlier passes."""
    assert ended(study) == (False, [])
    fail(ids[0], BROKEN, START, "the first pass")
    assert ended(study, "the second pass") == (False, [])
    assert attempts(study, RESULTS, START).keys() == {ids[0]}
    assert attempts(study, RESULTS, START + 1) == {}


def test_a_full_disk_ends_the_command(study, ids):
    """No trial is given up for it, nor another that failed in the same pass."""
    study = study.model_copy(update={"retries": 0})
    fail(ids[0], BROKEN, START)
    fail(ids[1], FULL, START)
    assert ended(study) == (
        False,
        ["a disk is full, and the run has stopped: 0 of 2 trials kept. Make room and run again to "
         "go on"],
    )  # fmt: skip
    assert given_up(study, RESULTS, START) == []
    (RESULTS / "trials" / ids[0]).mkdir(parents=True)
    (RESULTS / "trials" / ids[0] / "verify.parquet").touch()
    assert kept(study, RESULTS) == "1 of 2 trials kept"


def test_the_next_pass_waits_until_a_host_that_is_taken_back_is_gone(study, ids):
    fail(ids[0], BROKEN, START)
    assert end_pass(study, RESULTS, "r", START).host_gone == 0
    fail(ids[1], "EC2 takes back host h", START, until=START + 20)
    assert end_pass(study, RESULTS, "r", START).host_gone == START + 20
    end = end_pass(study, RESULTS, "r", START, on_cluster=True)
    assert end.host_gone == START + 20 + NOTICED_SECONDS


def test_where_no_trial_was_measured_the_last_pass_names_each_reason(study, ids):
    study = study.model_copy(update={"retries": 0})
    fail(ids[0], BROKEN, START, "first")
    assert nothing_measured(study, RESULTS, START) is None
    assert ended(study, "first") == (False, [f"trial {ids[0]} failed once and is left out"])
    fail(ids[1], "c.0: killed", START)
    end = end_pass(study, RESULTS, "r", START)
    assert not end.again
    sentence = end.sentences[-1]
    assert f"{ids[0]}: {BROKEN}; {ids[1]}: c.0: killed. " in sentence
    assert sentence.endswith("`storewise run --retry-failed` tries them again")
    (RESULTS / "trials" / ids[1] / "verify.parquet").touch()
    assert nothing_measured(study, RESULTS, START) is None


def test_what_was_given_up_for_its_host_is_planned_again_by_the_next_command(study, ids):
    for trial, reason in zip(ids, (LOST, BROKEN), strict=True):
        fail(trial, reason, START)
        give_up(study, RESULTS, trial, attempts(study, RESULTS, START)[trial])
    assert given_up(study, RESULTS, START) == ids
    assert given_up(study, RESULTS, START + 1) == ids[1:], "its store is to blame"
    mended = study.model_copy(update={"allow_open_ports": True})
    assert given_up(mended, RESULTS, START + 1) == []
    forget(study, RESULTS)
    forget(study, RESULTS)
    assert lost_trials(study, RESULTS, START) is None


def test_a_later_pass_is_the_same_command(monkeypatch):
    monkeypatch.setenv(SINCE_VARIABLE, "12.5")
    assert command_start() == 12.5
    monkeypatch.delenv(SINCE_VARIABLE)
    assert command_start() > 1e9
    arguments = ["python", "-m", "snakemake", "-n"]
    for program in ("/x/bin/snakemake", "/x/snakemake/__main__.py"):
        again = next_pass_command(program, arguments)
        assert again == [sys.executable, "-m", "snakemake", "-n"]
    for program in ("/x/pytest/__main__.py", "own_program.py"):
        assert next_pass_command(program, arguments) is None
