"""`storewise watch`: what there is to see of a run, while it lives and after."""

import os
import signal
from contextlib import suppress

import pytest
from support.waiting import exit_code, wait_until
from support.workspace import Workspace

from storewise.errors import ResultError
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


@pytest.mark.slow
def test_a_run_is_watched_to_its_end(tmp_path):
    """A killed run and a waiting run are shown in tests/unit/watch."""
    place = Workspace(tmp_path)
    place.copy_inputs()
    place.write_study(STUDY)
    run = place.start(place.storewise_command("run", "s.yaml", "--", "--omit-from", "analyse"))
    try:
        reads = []

        def reading():
            assert run.poll() is None, place.output()
            with suppress(ResultError):
                frame = look(place.results)
                jobs = {w.progress.job for w in frame.jobs if w.progress.operations_per_s}
                reads.extend([frame] if jobs == {"read.0", "read.1"} else [])
            return bool(reads)

        wait_until(reading, 60, "both workers at work in their second phase")
        (frame,) = reads
        assert (frame.state, frame.total, frame.done) == ("runs", 2, 0)
        assert len(frame.running) == 1
        assert all(worker.fresh for worker in frame.jobs)
        assert frame.sessions[0].phase == "read"
        once = place.storewise("watch", "s.yaml", "--once")
        assert once.returncode == 0, once.stderr
        assert "0/2 trials" in once.stdout and "read.1" in once.stdout
        exit_code(run, 120)
        after = place.storewise("watch", "--results", "results")
        assert after.returncode == 0, after.stderr
        assert "nothing runs; the last run ended" in after.stdout and "2/2 trials" in after.stdout
    finally:
        if run.poll() is None:
            os.killpg(run.pid, signal.SIGKILL)
        exit_code(run, 30)
