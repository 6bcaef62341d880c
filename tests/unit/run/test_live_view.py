"""What a run shows: on a terminal, and without one."""

from __future__ import annotations

import pytest
from rich.console import Console

from storewise.run.live_view import LivePhase, LiveTrial, Moment, picture, view_of

PHASES = [
    LivePhase("load", "done"),
    LivePhase("look up", "now", "31,000/s"),
    LivePhase("questions", "next"),
]
MOMENT = Moment(
    "demo",
    done=14,
    total=24,
    seconds_left=50.2,
    trials=[LiveTrial("SQLite, 2 workers, repeat 3", "", PHASES)],
    warnings=["read.0: the clock of this host was set back by a long, long time meanwhile, a lot"],
)


def shown(moment: Moment, width: int) -> list[str]:
    console = Console(width=width, color_system=None)
    with console.capture() as captured:
        console.print(picture(moment))
    return [line.rstrip() for line in captured.get().splitlines()]


def test_trials_time_phases_and_rate_fit_a_terminal() -> None:
    head, trial, warning = shown(MOMENT, 80)
    assert head.startswith("demo  ━")
    assert head.endswith("14/24 trials  about 50 s left")
    assert trial == "SQLite, 2 workers, repeat 3   load > look up 31,000/s > questions"
    assert warning.startswith("! read.0: the clock") and warning.endswith("…")
    assert len(warning) == 80


def test_while_nothing_is_measured_the_step_is_shown() -> None:
    assert shown(Moment("demo", "planning the jobs"), 80) == ["demo  planning the jobs"]


def test_without_a_terminal_each_line_is_plain(capsys: pytest.CaptureFixture[str]) -> None:
    notes: list[str] = []
    with view_of(notes.append) as view:
        view.show(MOMENT)
        view.line("ok   SQLite", "red")
        view.note("a warning")
    assert capsys.readouterr().out == "ok   SQLite\n"
    assert notes == ["a warning"]
