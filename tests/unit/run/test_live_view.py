"""What a run shows: on a terminal, and without one."""

import io
import sys

import pytest
from rich.console import Console

from storewise.run.live_view import LivePhase, LiveTrial, Moment, picture, view_of

PHASES = [LivePhase("load", "done"), LivePhase("look up", "now", "31,000/s")]
PHASES.append(LivePhase("questions", "next"))
TRIALS = [LiveTrial("SQLite, 2 workers, repeat 3", "", PHASES)]
WARNING = "read.0: the clock of this host was set back by a long, long time meanwhile, a lot"
MOMENT = Moment("demo", "", 14, 24, 50.2, TRIALS, [WARNING])


def shown(moment, width):
    console = Console(width=width, color_system=None)
    with console.capture() as captured:
        console.print(picture(moment))
    return [line.rstrip() for line in captured.get().splitlines()]


def test_trials_time_phases_and_rate_fit_a_terminal():
    head, trial, warning = shown(MOMENT, 80)
    bar = head.split()[1]
    assert head == f"demo  {bar:<30}  14/24 trials  about 50 s left"
    assert trial == "SQLite, 2 workers, repeat 3   load > look up 31,000/s > questions"
    assert warning.startswith("! read.0: the clock") and warning.endswith("…")
    assert len(warning) == 80


def test_a_phase_s_state_is_seen_by_its_colour():
    console = Console(width=120, force_terminal=True, color_system="standard")
    with console.capture() as captured:
        console.print(picture(MOMENT))
    text = captured.get()
    for style, words in (
        *((1, "demo"), (32, "load"), (1, "look up 31,000/s"), (2, "questions"), (2, " > ")),
        (33, f"! {WARNING}"),
    ):
        assert f"\x1b[{style}m{words}\x1b[0m" in text


def test_what_else_a_moment_may_have():
    """No time where none is left, nor where it is not known; a trial that is in no phase."""
    verifying = [LiveTrial("SQLite", "verifying", [])]
    head, trial = shown(Moment("demo", "x", 3, 3, 9.0, verifying), 80)
    assert head.endswith("3/3 trials") and trial == "SQLite      verifying"
    assert shown(Moment("demo", "planning the jobs"), 80) == ["demo  planning the jobs"]
    assert shown(Moment("demo", "x", 1, 3), 80)[0].endswith("1/3 trials  x")
    assert shown(Moment("demo", "x", 0, 0), 80) == shown(Moment("demo", "x", None, 3), 80)
    assert shown(Moment("demo", "x" * 99), 30)[0].endswith("…")


class Terminal(io.StringIO):
    def isatty(self):
        return True


@pytest.mark.parametrize(
    ("term", "plain", "moves"),
    [("xterm", False, True), ("xterm", True, False), ("dumb", False, False)],
)
def test_on_a_terminal_one_place_is_written_anew(term, plain, moves, monkeypatch):
    """But not on one that cannot, or where something else prints to it."""
    out, notes = Terminal(), []
    monkeypatch.setattr(sys, "stdout", out)
    monkeypatch.setenv("TERM", term)
    for name in ("NO_COLOR", "FORCE_COLOR", "TTY_COMPATIBLE", "TTY_INTERACTIVE"):
        monkeypatch.delenv(name, raising=False)
    with view_of(notes.append, plain=plain) as view:
        view.show(MOMENT)
        assert ("14/24 trials" in out.getvalue()) == moves
        view.line("ok   SQLite " + "x" * 200, "red")
        view.note("a warning")
    text = out.getvalue()
    assert "ok   SQLite " + "x" * 200 in text, "it stays whole"
    assert ("\x1b[31m" in text) == ("\x1b[?25h" in text) == moves
    assert ("storewise: a warning" in text) == moves
    assert notes == ([] if moves else ["a warning"])
    assert moves or text == "ok   SQLite " + "x" * 200 + "\n"
