"""`storewise watch`: states, rates, time left and warnings of a run, from its files."""

import json
import logging
import math
import time
from dataclasses import replace

import pytest
from rich.console import Console
from support.fake_time import FakeTime

from storewise.cli.watch import find
from storewise.driver.progress import SharedCounters, StepProgress
from storewise.errors import ResultError
from storewise.session.coordination.liveness import Process, Session
from storewise.session.coordination.progress import progress_of
from storewise.session.coordination.run import Lease
from storewise.session.coordination.run_record import RunRecord, begin, end, read_record
from storewise.watch.render import as_json, line, screen
from storewise.watch.snapshot import look
from storewise.watch.time_left import time_left


def text(frame):
    console = Console(width=80, color_system=None)
    with console.capture() as captured:
        console.print(screen(frame))
    return " ".join(captured.get().split())


def as_read(frame):
    return json.loads(json.dumps(as_json(frame), allow_nan=False))


LOG = logging.getLogger("test")


def test_a_worker_tells_its_rates(tmp_path):
    shared = SharedCounters(2, 2, ["data0", "data1"])
    shared.report(0, 1, 10, 100, {"data0": 4, "data1": 6})
    shared.report(1, 0, 5, 50, {"data1": 5, "elsewhere": 9})
    assert shared.totals() == (15, 150)
    assert shared.owned() == {"data0": 4, "data1": 11}
    assert not shared.stopped()
    shared.clear()
    assert (shared.totals(), shared.owned()) == ((0, 0), {})
    own_time = FakeTime()
    progress = StepProgress(tmp_path, "read.0", LOG, clock=own_time.clock)

    def told():
        return progress_of(tmp_path)["read.0"][0]

    progress.state("waits", 3)
    assert told().state == "waits"
    progress.begin(shared, 3, lambda: {"client_cpu": 0.5})
    own_time.spend(2.0)
    shared.report(0, 0, 300, 600, {"data0": 200})
    progress()
    message = told()
    assert (message.state, message.step, message.seconds) == ("works", 3, 2.0)
    assert (message.operations, message.documents) == (300, 600)
    assert (message.operations_per_s, message.documents_per_s) == (150.0, 300.0)
    assert (message.owners["data0"], message.figures) == (100.0, {"client_cpu": 0.5})
    own_time.spend(0.5)  # a record a second is enough
    shared.report(0, 0, 900, 900, {"data0": 200})
    progress()
    assert told() == message
    progress.remove()
    assert progress_of(tmp_path) == {}


def test_a_record_that_cannot_be_written_ends_no_measurement(tmp_path, caplog):
    (tmp_path / "progress").write_text("in the way")
    progress = StepProgress(tmp_path, "read.0", LOG)
    progress.state("prepares", 0)
    progress.state("waits", 0)
    (record,) = caplog.records
    assert "will not see this job" in record.message


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
        find(None, tmp_path)
    (tmp_path / "s").mkdir()
    with pytest.raises(ResultError, match=r"below .*, which has s"):
        find("t", tmp_path)


def test_a_study_is_called_what_the_user_calls_it_and_no_clock_is_ahead(study):
    (study.parent / "mine").symlink_to(study)
    frame = look(study.parent / "mine")
    assert frame.study == "mine"
    assert "runs since 0 s" in text(replace(frame, at=0.0))


def test_a_run_lives_ends_and_is_killed(study):
    frame = look(study)
    assert (frame.state, frame.total, frame.running, frame.left) == ("runs", 2, ["null-r1"], 1)
    assert find(None, study.parent) == find("s.yaml", study.parent) == study
    assert frame.seconds_left is None
    # Its process is this one, which lives on: only its record says that it has ended.
    (study / "leases" / "r").unlink()
    assert look(study).state == "between"
    end(study, "another", "nobody")
    assert look(study).state == "between"
    end(study, "r", "the run ended with an error")
    frame = look(study)
    assert frame.over
    assert "the last run ended" in text(frame)
    assert "with an error" in line(frame)
    record = read_record(study)
    fields = {name: getattr(record, name) for name in RunRecord.__slots__}
    # A `storewise run` that lives will call it again.
    RunRecord(**{**fields, "door": Process.current()}).write(study)
    assert look(study).state == "between"
    dead = {"process": Process("elsewhere", 1, 0.0), "ended": None}
    RunRecord(**{**fields, **dead}).write(study)
    frame = look(study)
    assert (frame.state, frame.over) == ("killed", True)
    assert "was killed or its host was lost" in text(frame)
    (study / "run.json").write_text("{")
    frame = look(study)
    assert (frame.state, frame.left, frame.total) == ("unknown", None, None)
    assert as_read(frame)


def test_warnings_and_rates_of_running_trials_are_shown(study):
    at = "2026-01-01 10:00:00,000"
    for trial in ENGINES:
        logs = study / "logs" / trial
        logs.mkdir(parents=True)
        (logs / "read.0.log").write_text(f"{at} INFO begins\n{at} WARNING slow {trial}\n")
        (logs / "data0.server.log").write_text(f"{at} WARNING of its own\n")
    message = {"job": "read.0", "host": "h", "state": "works", "at": 1}
    message["operations_per_s"] = math.nan
    (study / "live/null-r1/progress/read.0.json").write_text(json.dumps(message))
    frame = look(study)
    assert frame.warnings == [f"read.0: {at} WARNING slow null-r1"]
    assert "WARNING slow null-r1" in text(frame)
    (worker,) = as_read(frame)["jobs"]
    assert worker["progress"]["operations_per_s"] is None, "numbers that are none are null"


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
        frame = look(study)
        assert text(frame) and as_read(frame)
