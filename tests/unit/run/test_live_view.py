"""Where a run shows what it does: on a terminal, and without one."""

import io
import sys

import pytest

from storewise.run.live_view import view_of


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
        view.show("14/24 trials")
        assert ("14/24 trials" in out.getvalue()) == moves
        view.line("ok   SQLite " + "x" * 200, "red")
        view.note("a warning")
    text = out.getvalue()
    assert "ok   SQLite " + "x" * 200 in text, "it stays whole"
    assert ("\x1b[31m" in text) == ("\x1b[?25h" in text) == moves
    assert ("storewise: a warning" in text) == moves
    assert notes == ([] if moves else ["a warning"])
    assert moves or text == "ok   SQLite " + "x" * 200 + "\n"
