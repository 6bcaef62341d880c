"""Runs the commands of PBS: with a time limit, out of reach of the terminal's Ctrl-C."""

from __future__ import annotations

import subprocess
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass

#: Seconds for an answer to a question, and for taking a job or a deletion.
ASK_TIMEOUT = 30.0
TAKE_TIMEOUT = 60.0
#: Most seconds between two questions to a server that does not answer.
LONGEST_PAUSE = 120.0
#: Seconds between two looks at whether a command shall be given up.
_SLICE = 0.2


class NoAnswer(Exception):
    """The server did not answer; the message is one line for the user."""


class NoProgram(Exception):
    """A command of PBS is not on PATH; the message is for the user."""


class GivenUp(Exception):
    """Whoever asked does not want the answer any more."""


@dataclass(frozen=True, slots=True)
class Done:
    """A command that has ended, and what it printed."""

    status: int
    stdout: str
    stderr: str

    @property
    def words(self) -> str:
        """What it said of itself, in one line: each of its lines once (it repeats itself for each
        job that it is asked for), and no more than a few."""
        said = self.stderr.strip() or self.stdout.strip() or "no message"
        lines = dict.fromkeys(line.strip() for line in said.splitlines() if line.strip())
        return " ".join(" ".join(list(lines)[:3]).split())


def run(command: Sequence[str], timeout: float, given_up: threading.Event | None = None) -> Done:
    """Run a command to its end. It is a session of its own: the terminal's Ctrl-C, which Snakemake
    acts on, must not break a submission off half way.

    Raises NoProgram, NoAnswer after `timeout` seconds, and GivenUp when the event is set; the
    command is killed then.
    """
    try:
        process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            errors="replace",
            start_new_session=True,
        )
    except FileNotFoundError:
        raise NoProgram(f"{command[0]} is not on PATH") from None
    deadline = time.monotonic() + timeout
    with process:
        while True:
            try:
                out, err = process.communicate(timeout=_SLICE)
                return Done(process.returncode, out, err)
            except subprocess.TimeoutExpired:
                if given_up is not None and given_up.is_set():
                    process.kill()
                    raise GivenUp(command[0]) from None
                if time.monotonic() > deadline:
                    process.kill()
                    raise NoAnswer(
                        f"{command[0]}: no answer within {timeout:.0f} s (connection timed out)"
                    ) from None


class Pace:
    """When a server is asked next: each `interval` seconds, later and later while it is silent.

    Times are of `time.monotonic`, handed in.
    """

    def __init__(self, interval: float) -> None:
        self.interval = interval
        self.pause = interval
        self.silent = False
        self._next = 0.0

    def due(self, now: float) -> bool:
        return now >= self._next

    def hurry(self) -> None:
        """Ask at the next occasion, unless the server is silent."""
        if not self.silent:
            self._next = 0.0

    def answered(self, now: float) -> bool:
        """Note an answer; returns whether it is the first one after a silence."""
        was_silent, self.silent = self.silent, False
        self.pause = self.interval
        self._next = now + self.interval
        return was_silent

    def unanswered(self, now: float) -> bool:
        """Note that no answer came; returns whether the silence begins with it."""
        first, self.silent = not self.silent, True
        self.pause = min(max(self.pause, 1.0) * 2, max(LONGEST_PAUSE, self.interval))
        self._next = now + self.pause
        return first
