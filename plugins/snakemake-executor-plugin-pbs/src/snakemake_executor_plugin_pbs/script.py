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

#: Variables that a job has from PBS, its host or its login, or that mean nothing elsewhere.
_NOT_EXPORTED = re.compile(
    r"PBS_.*|SSH_.*|XDG_.*|BASH_FUNC.*|TMPDIR|HOSTNAME|HOME|LOGNAME|USER|SHELL|PWD|OLDPWD|SHLVL|_"
    r"|DISPLAY|XAUTHORITY|TERM|TERMCAP|WINDOWID|MAIL|BASH_ENV|ENV|ENVIRONMENT|NCPUS"
    # The Snakemake of a job would read the profile and submit jobs itself.
    r"|SNAKEMAKE_PROFILE"
)


def exported(environment: Mapping[str, str]) -> dict[str, str]:
    """The variables of Snakemake's environment that a job gets. Names that a shell cannot export
    are left out."""
    return {
        name: value
        for name, value in sorted(environment.items())
        if re.fullmatch(r"[A-Za-z_]\w*", name, re.ASCII) and not _NOT_EXPORTED.fullmatch(name)
    }


def exit_mark(marks: Path, name: str) -> Path:
    """The file that a job writes its exit status to."""
    return marks / f"{name}.exit"


def start_mark(marks: Path, name: str) -> Path:
    """The file that a job makes when it starts."""
    return marks / f"{name}.started"


def job_script(
    content: str, marks: Path, name: str, environment: Mapping[str, str], directory: Path
) -> str:
    """The script of a job: `content` is Snakemake's jobscript, `directory` where it works."""
    exports = "".join(f"export {key}={shlex.quote(value)}\n" for key, value in environment.items())
    started = shlex.quote(str(start_mark(marks, name)))
    ended = shlex.quote(str(exit_mark(marks, name)))
    return (
        f"#!/bin/sh\ntrap : TERM\n{exports}cd {shlex.quote(str(directory))} || exit 1\n"
        f"echo $$ > {started}\n(\ntrap : TERM\n{content.rstrip()}\n)\nstatus=$?\n"
        f"echo $status > {ended}.tmp && mv {ended}.tmp {ended}\nexit $status\n"
    )
