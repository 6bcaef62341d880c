"""Runs the commands of PBS: with a time limit, out of reach of the terminal's Ctrl-C."""

from __future__ import annotations

import subprocess
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass

#: Seconds for an answer to a query, and for submitting or deleting a job.
QUERY_TIMEOUT = 30.0
SUBMIT_TIMEOUT = 60.0
#: Seconds between two checks whether a command shall be stopped.
_POLL_SECONDS = 0.2


class NoAnswer(Exception):
    """The server did not answer; the message is one line for the user."""


class NoProgram(Exception):
    """A command of PBS is not on PATH; the message is for the user."""


class Stopped(Exception):
    """The run ended before the command did."""


@dataclass(frozen=True, slots=True)
class Done:
    """A command that has ended, and what it printed."""

    status: int
    stdout: str
    stderr: str

    @property
    def error(self) -> str:
        """Its error message on one line: the first three distinct lines, without the usage that
        follows a wrong option."""
        printed = (self.stderr.strip() or self.stdout.strip()).partition("\nusage:")[0]
        lines = dict.fromkeys(line.strip() for line in printed.splitlines() if line.strip())
        return " ".join(" ".join(list(lines)[:3]).split()) or "no message"


def run(command: Sequence[str], timeout: float, stopped: threading.Event | None = None) -> Done:
    """Run a command to its end. It is a session of its own: the terminal's Ctrl-C, which Snakemake
    acts on, must not interrupt a submission.

    Raises NoProgram, NoAnswer after `timeout` seconds, and Stopped when the event is set; the
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
                out, err = process.communicate(timeout=_POLL_SECONDS)
                return Done(process.returncode, out, err)
            except subprocess.TimeoutExpired:
                if stopped is not None and stopped.is_set():
                    process.kill()
                    raise Stopped(command[0]) from None
                if time.monotonic() > deadline:
                    process.kill()
                    raise NoAnswer(
                        f"{command[0]}: no answer within {timeout:.0f} s (connection timed out)"
                    ) from None
