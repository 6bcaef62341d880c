"""The scripts that PBS runs: pure functions that write shell text.

PBS sends SIGTERM to all processes of a job that it ends, and kills the rest as soon as the job's
shell has gone. So the shells stay until their program has ended in order: a signal that is trapped,
unlike one that is ignored, still reaches the programs.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping
from pathlib import Path

from snakemake_executor_plugin_pbs.dialects import TORQUE

#: What a job has from PBS, its host or its login, and what makes no sense elsewhere.
_KEPT_BACK = re.compile(
    r"PBS_.*|SSH_.*|XDG_.*|BASH_FUNC.*|TMPDIR|HOSTNAME|HOME|LOGNAME|USER|SHELL|PWD|OLDPWD|SHLVL|_"
    r"|DISPLAY|XAUTHORITY|TERM|TERMCAP|WINDOWID|MAIL|BASH_ENV|ENV|ENVIRONMENT|NCPUS"
    # The Snakemake of a job would read the profile and submit jobs itself.
    r"|SNAKEMAKE_PROFILE"
)
#: Exit status of a task that PBS started a second time, and what it prints.
AGAIN = 98
AGAIN_WORDS = "PBS started this job a second time. Snakemake decides what runs again."


def exported(environment: Mapping[str, str]) -> dict[str, str]:
    """The variables of Snakemake's environment that a job gets. Names that a shell cannot export
    are left out."""
    return {
        name: value
        for name, value in sorted(environment.items())
        if re.fullmatch(r"[A-Za-z_]\w*", name, re.ASCII) and not _KEPT_BACK.fullmatch(name)
    }


def exit_mark(marks: Path, name: str) -> Path:
    """The file that a job writes its exit status to."""
    return marks / f"{name}.exit"


def start_mark(marks: Path, name: str) -> Path:
    """The file that a job makes when it starts."""
    return marks / f"{name}.started"


def _head(environment: Mapping[str, str], directory: Path) -> str:
    exports = "".join(
        f"export {name}={shlex.quote(value)}\n" for name, value in environment.items()
    )
    return f"#!/bin/sh\ntrap : TERM\n{exports}cd {shlex.quote(str(directory))} || exit 1\n"


def _body(content: str, marks: Path, name: str) -> str:
    started = shlex.quote(str(start_mark(marks, name)))
    ended = shlex.quote(str(exit_mark(marks, name)))
    return (
        f"echo $$ > {started}\n(\ntrap : TERM\n{content.rstrip()}\n)\nstatus=$?\n"
        f"echo $status > {ended}.tmp && mv {ended}.tmp {ended}\nexit $status\n"
    )


def single(
    content: str, marks: Path, name: str, environment: Mapping[str, str], directory: Path
) -> str:
    """The script of one job: `content` is Snakemake's jobscript, `directory` where it works."""
    return _head(environment, directory) + _body(content, marks, name)


def array(tasks: Path, dialect: str, environment: Mapping[str, str], directory: Path) -> str:
    """The script of an array: it runs the script of a task from the directory `tasks`."""
    index = "$PBS_ARRAYID" if dialect == TORQUE else "$PBS_ARRAY_INDEX"
    return (
        _head(environment, directory)
        + f'/bin/sh {shlex.quote(str(tasks))}/task."{index}"\nexit $?\n'
    )


def task(content: str, marks: Path, name: str, log: Path | None) -> str:
    """The script of a task of an array. It runs once: OpenPBS runs tasks of arrays again when their
    host is lost. With `log` it writes there itself, where PBS cannot name a log for each task."""
    start = "" if log is None else f"exec > {shlex.quote(str(log))} 2>&1\n"
    started = shlex.quote(str(start_mark(marks, name)))
    once = f"if [ -e {started} ]; then echo {shlex.quote(AGAIN_WORDS)}; exit {AGAIN}; fi\n"
    return f"#!/bin/sh\ntrap : TERM\n{start}{once}{_body(content, marks, name)}"
