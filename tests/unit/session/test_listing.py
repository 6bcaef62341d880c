"""Which sessions are live."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from storewise.errors import StorewiseError
from storewise.session.coordination.listing import end_session, live_sessions
from storewise.session.coordination.liveness import FINISHED, Session


def test_a_measured_trial_is_not_live_although_its_run_goes_on(tmp_path: Path) -> None:
    for trial in ("a-r1", "a-r2"):
        live = tmp_path / "s" / "live" / trial
        live.mkdir(parents=True)
        Session(trial, "run", 25.0, time.time()).write(live)
    (tmp_path / "s" / "live" / "a-r1" / FINISHED).touch()
    assert [session.id for session in live_sessions(tmp_path)] == ["s/a-r2"]
    with pytest.raises(StorewiseError, match=r"'a-r1' names 0 live sessions; live: s/a-r2"):
        end_session(tmp_path, "a-r1", print)
