"""What the hosts of a cluster have, as its scheduler tells."""

from __future__ import annotations

import re
import subprocess

from storewise.schedulers.queue import run_command

#: Seconds for an answer. Without one nothing is known.
TIMEOUT = 10.0
#: Per program: the question, and what of its answer is a host's number of processors: sinfo(1)
#: ``%c``, pbsnodes(8B).
_QUESTIONS = {
    "sinfo": (["sinfo", "--noheader", "--format=%c"], re.compile(r"^(\d+)", re.MULTILINE)),
    "pbsnodes": (
        ["pbsnodes", "-a"],
        re.compile(r"resources_available\.ncpus = (\d+)|\bnp = (\d+)"),
    ),
}


def most_processors() -> int | None:
    """Processors of the largest host; None where no scheduler answers or says."""
    for command, number in _QUESTIONS.values():
        try:
            answer = run_command(command, TIMEOUT)
        except (OSError, subprocess.TimeoutExpired):
            continue
        numbers = [int(text) for match in number.findall(answer.stdout) for text in _texts(match)]
        if answer.returncode == 0 and numbers:
            return max(numbers)
    return None


def _texts(match: str | tuple[str, ...]) -> list[str]:
    return [text for text in ([match] if isinstance(match, str) else match) if text]
