"""Resources of the hosts of a cluster, as reported by its scheduler."""

from __future__ import annotations

import os
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


#: Processes of a digest at most, and the variable that tells a job how many it has asked for.
MAX_DIGEST_PROCESSES = 8
DIGEST_VARIABLE = "STOREWISE_DIGEST_PROCESSES"


def digest_processes(*, ask: bool) -> int:
    """Processes of a job that digests inputs: as many as the largest host has, up to 8; a job that
    asks for more than any host has would never start. `ask` the scheduler, once."""
    if DIGEST_VARIABLE not in os.environ:
        known = most_processors() if ask else None
        number = min(MAX_DIGEST_PROCESSES, known or MAX_DIGEST_PROCESSES)
        os.environ[DIGEST_VARIABLE] = str(number)
    return int(os.environ[DIGEST_VARIABLE])


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
