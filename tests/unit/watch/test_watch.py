"""`storewise watch`: states, rates, time left and warnings of a run, from its files."""

import json
import os
import time
from dataclasses import replace

import pytest
from rich.console import Console

from storewise.cli.console import results_of
from storewise.errors import ResultError
from storewise.session.coordination.lease import Lease
from storewise.session.coordination.liveness import Process, Session
from storewise.session.coordination.run_record import RunRecord, begin, end, read_record
from storewise.watch.render import screen
from storewise.watch.snapshot import look
from storewise.watch.time_left import time_left


def text(frame):
    console = Console(width=80, color_system=None)
    with console.capture() as captured:
        console.print(screen(frame))
    return " ".join(captured.get().split())


def test_time_left_by_hand():
    engines = {"a1": "a", "a2": "a", "a3": "a", "b1": "b"}

    def left(measured, *rest):
        return time_left(measured, engines, *rest)

    ten = {"a1": 10.0, "a2": 10.0}
    assert left({}, ["a1"], {}, 1) is None
    assert left({"a1": 10.0}, ["a2", "a3"], {}, 1) == 20.0
    # The time that running trials have taken is subtracted.
    assert left(ten, ["b1"], {"a3": 4.0}, 1) == 16.0
    assert left(ten, ["b1"], {"a3": 4.0}, 2) == left(ten, ["b1"], {"a3": 4.0}, 3) == 8.0
    assert left({"a1": 10.0, "a2": 20.0, "b1": 99.0}, ["a3"], {}, 1) == 15.0
    # What runs takes longer than trials did before.
    assert left(ten, [], {"a3": 30.0}, 1) is None
    assert left({"a1": 10.0}, [], {}, 1) == left({}, [], {}, 1) == 0.0


# What has become of a run.

ENGINES = {"null-r1": "null", "sqlite-r1": "sqlite"}


@pytest.fixture
def study(tmp_path):
    """Of a run that lives and has a trial at work."""
    study = tmp_path / "s"
    for name in ("leases", "failures", "live/null-r1/members", "live/null-r1/progress"):
        (study / name).mkdir(parents=True)
    Lease("r", Process.current(), 25.0).write(study / "leases")
    begin(study, "r", ENGINES, tuple(ENGINES), 1)
    Session("null-r1", "r", 25.0, time.time() - 5).write(study / "live" / "null-r1")
    return study


def test_nothing_has_run(tmp_path):
    with pytest.raises(ResultError, match="no study has run here"):
        look(tmp_path)
    with pytest.raises(ResultError, match="nothing runs or has run"):
        results_of(None, tmp_path)
    (tmp_path / "s").mkdir()
    with pytest.raises(ResultError, match="there are no results of a study"):
        results_of("t", tmp_path)


def test_a_study_is_called_what_the_user_calls_it_and_no_clock_is_ahead(study):
    (study.parent / "mine").symlink_to(study)
    frame = look(study.parent / "mine")
    assert frame.study == "mine"
    assert "runs since 0 s" in text(replace(frame, at=0.0))


def test_a_run_lives_ends_and_is_killed(study):
    frame = look(study)
    assert (frame.state, frame.total, frame.running) == ("runs", 2, ["null-r1"])
    assert results_of(None, study.parent) == results_of("s.yaml", study.parent) == study
    assert frame.seconds_left is None
    # Its process is this one, which lives on: only its record says that it has ended.
    (study / "leases" / "r").unlink()
    assert look(study).state == "between"
    end(study, "the run ended with an error")
    frame = look(study)
    assert frame.over
    assert "the last run ended" in text(frame) and "with an error" in text(frame)
    record = read_record(study)
    fields = {name: getattr(record, name) for name in RunRecord.__slots__}
    dead = {"process": Process("elsewhere", 1, 0.0), "ended": None}
    RunRecord(**{**fields, **dead}).write(study)
    frame = look(study)
    assert (frame.state, frame.over) == ("killed", True)
    assert "was killed or its host was lost" in text(frame)
    (study / "run.json").write_text("{")
    frame = look(study)
    assert (frame.state, frame.total) == ("unknown", None)


def test_warnings_and_rates_of_running_trials_are_shown(study):
    at = "2026-01-01 10:00:00,000"
    for trial in ENGINES:
        logs = study / "logs" / trial
        logs.mkdir(parents=True)
        (logs / "read.0.log").write_text(f"{at} INFO begins\n{at} WARNING slow {trial}\n")
        (logs / "data0.server.log").write_text(f"{at} WARNING of its own\n")
    frame = look(study)
    assert frame.warnings == [f"read.0: {at} WARNING slow null-r1"]
    assert "WARNING slow null-r1" in text(frame)


@pytest.mark.parametrize(
    "content", ["", "{", "null", "[]", "{}", "3", '{"a": 1}', "\0", '{"job": {}, "figures": 1}']
)
def test_files_that_cannot_be_read_are_no_end(study, content):
    """A host that crashed leaves empty files, another version of Storewise other keys."""
    live = study / "live" / "null-r1"
    good = {"trial": "null-r1", "reason": "r", "log_tail": "", "run": "r", "at": time.time()}
    (study / "failures/null-r1.jsonl").write_text(f"{content}\n{json.dumps(good)}\n")
    for name in ("members", "progress"):
        (live / name / "read.0.json").write_text(content)
    frame = look(study)
    assert (frame.state, frame.running, frame.jobs) == ("runs", ["null-r1"], [])
    assert len(frame.failures) == 1
    others = (live / "owner.json", live / "session.json", study / "run.json", study / "leases/r")
    for path in others:
        path.write_text(content)
        assert text(look(study))


def test_workers_and_nodes_are_shown_with_what_they_do(study):
    """A node's operations are those that the clients say it answered."""
    worker = {"job": "read.0", "host": "c1", "state": "works", "at": 1, "step": 2}
    worker |= {"operations_per_s": 300.0, "documents_per_s": 600.0, "owners": {"data0": 120.0}}
    worker["figures"] = {"client_cpu": 0.5}
    node = {"job": "data0", "host": "s1", "state": "serves", "at": 1}
    node["figures"] = {"store_cpu": 1.25, "store_rss": 2.0**30, "disk_write": 4096.0}
    progress = study / "live" / "null-r1" / "progress"
    for one in (worker, node):
        (progress / f"{one['job']}.json").write_text(json.dumps(one))
    shown = text(look(study))
    assert "read.0 c1 works, step 2 300 600 0.50" in shown
    assert "data0 s1 serves 120 1.25 1.00 GiB 4.00 KiB" in shown
    os.utime(progress / "read.0.json", (1, 1))
    assert "silent for" in text(look(study))
