"""What the hosts of a cluster have, as its scheduler tells."""

from __future__ import annotations

import re
import subprocess

from storewise.schedulers.queue import run_command

#: Seconds for an answer. Without one nothing is known.
TIMEOUT = 10.0
#: A question to Slurm (sinfo(1), ``%c``) and one to PBS (pbsnodes(8B)), and where their answers
#: have a host's number of processors.
_QUESTIONS = (
    (["sinfo", "--noheader", "--format=%c"], re.compile(r"^(\d+)", re.MULTILINE)),
    (["pbsnodes", "-a"], re.compile(r"resources_available\.ncpus = (\d+)")),
)


def most_processors() -> int | None:
    """Processors of the largest host; None where no scheduler answers or says."""
    for command, number in _QUESTIONS:
        try:
            answer = run_command(command, TIMEOUT)
        except (OSError, subprocess.TimeoutExpired):
            continue
        numbers = [int(text) for text in number.findall(answer.stdout)]
        if answer.returncode == 0 and numbers:
            return max(numbers)
    return None
