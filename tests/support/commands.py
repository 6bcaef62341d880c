"""The command `storewise` in this process: what it prints and its exit status, for a hundredth of
what a process of its own costs."""

import contextlib
import io
import sys
from dataclasses import dataclass
from pathlib import Path
from unittest import mock

from storewise.cli.main import main


@dataclass(frozen=True)
class Done:
    """As `subprocess.CompletedProcess` has it."""

    returncode: int
    stdout: str
    stderr: str


def storewise(*arguments, cwd=None, env=None):
    """Run the command as a shell would, in directory `cwd` and with further variables."""
    out, err = io.StringIO(), io.StringIO()
    status = 0
    with (
        mock.patch.object(sys, "argv", ["storewise", *map(str, arguments)]),
        mock.patch.dict("os.environ", env or {}),
        contextlib.chdir(cwd or Path()),
        contextlib.redirect_stdout(out),
        contextlib.redirect_stderr(err),
    ):
        try:
            main()
        except SystemExit as ended:
            status = ended.code
    assert status is None or isinstance(status, int), status
    return Done(status or 0, out.getvalue(), err.getvalue())
