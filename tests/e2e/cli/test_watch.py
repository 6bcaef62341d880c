"""`storewise watch`: what there is to see of a run, while it lives and after."""

import json
import os
import re
import signal

import pytest
from support.waiting import exit_code, wait_until
from support.workspace import Workspace

from storewise.errors import ResultError
from storewise.watch.render import line, screen
from storewise.watch.snapshot import look

STUDY = """\
inputs:
  paths: [data]
engines:
  "null": {}
  sqlite: {}
factors:
  workers: [2]
repeats: 1
phases:
  - write
  - read: {seconds: 6, rate: 200}
"""


def text(frame):
    from rich.console import Console

    console = Console(width=80, color_system=None)
    with console.capture() as captured:
        console.print(screen(frame))
    return captured.get()


def frame_of(workspace, seen):
    """A frame that shows something, None while there is none."""
    try:
        frame = look(workspace.results)
    except ResultError:
        return None
    return frame if seen(frame) else None


@pytest.mark.slow
def test_a_killed_run_is_told_and_the_next_one_watched_to_its_end(tmp_path, monkeypatch):
    workspace = Workspace(tmp_path)
    workspace.copy_inputs()
    workspace.write_study(STUDY)
    monkeypatch.setenv("STOREWISE_LEASE_SECONDS", "4")
    measure = ("--omit-from", "analyse")
    run = workspace.start(workspace.command(*measure))
    try:
        reads = []

        def reading():
            assert run.poll() is None, workspace.output()
            frame = frame_of(
                workspace,
                lambda f: (
                    len(f.workers) == 2 and all(w.progress.operations_per_s for w in f.workers)
                ),
            )
            reads.extend([frame] if frame and frame.workers[0].progress.job == "read.0" else [])
            return bool(reads)

        wait_until(reading, 60, "both workers at work in their second phase")
        frame = reads[0]
        assert (frame.state, frame.total, frame.done) == ("runs", 2, 0)
        assert (len(frame.running), frame.left) == (1, 1)
        assert {worker.progress.job for worker in frame.workers} == {"read.0", "read.1"}
        assert all(worker.fresh for worker in frame.workers)
        assert frame.sessions[0].phase == "read"
        shown = text(frame)
        assert "1 running, 0 failed, 1 left" in shown
        assert "read.1" in shown
        assert max(map(len, shown.splitlines())) <= 80
        once = workspace.storewise("watch", "s.yaml", "--once", "--format", "json")
        assert once.returncode == 0, once.stderr
        message = json.loads(once.stdout)
        assert (message["state"], message["trials"]["total"]) == ("runs", 2)
        # Its second trial is killed, with all that the run has started.
        wait_until(
            lambda: frame_of(workspace, lambda f: f.done == 1 and bool(f.running)) is not None,
            60,
            "the second session",
        )
        frame = look(workspace.results)
        assert (frame.state, frame.done, len(frame.running)) == ("runs", 1, 1)
        assert re.fullmatch("from one trial, none of (null|sqlite)", frame.estimate.reason)
    finally:
        os.killpg(run.pid, signal.SIGKILL)
        exit_code(run, 30)
    frame = look(workspace.results)
    assert (frame.state, frame.done) == ("killed", 1)
    assert "was killed or its host was lost" in line(frame)
    workspace.gone(60)
    run = workspace.start(workspace.storewise_command("run", "s.yaml", "--", *measure))
    try:
        wait_until(
            lambda: (
                frame_of(workspace, lambda f: f.state == "runs" and bool(f.running)) is not None
            ),
            60,
            "a session of this run, not what is left of the killed one",
        )
        # It ends by itself, a moment after the run.
        follow = workspace.storewise("watch", "--results", "results", timeout=600)
        assert follow.returncode == 0, follow.stderr
        last = follow.stdout.splitlines()[-1]
        assert "nothing runs; the last run ended" in last
        assert "2 of 2 done, 0 running, 0 failed, 0 left" in last
        exit_code(run, 30)
    finally:
        if run.poll() is None:
            os.killpg(run.pid, signal.SIGKILL)
        exit_code(run, 30)
    assert workspace.left_behind() == []
