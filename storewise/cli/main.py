"""The command line, `storewise`."""

from __future__ import annotations

import errno
import os
import sys
from typing import Annotated

import typer

from storewise import __version__
from storewise.cli.analyse import analyse
from storewise.cli.compare import compare
from storewise.cli.console import say
from storewise.cli.convert import convert
from storewise.cli.cost import cost
from storewise.cli.hosts import doctor, sessions
from storewise.cli.install import install
from storewise.cli.measures import measures
from storewise.cli.publish import publish, pull
from storewise.cli.report import report
from storewise.cli.run import run
from storewise.cli.ssearch import init, inspect, manifest
from storewise.cli.watch import watch
from storewise.errors import StorewiseError
from storewise.session.coordination.private import restrict_umask

app = typer.Typer(
    name="storewise",
    help="Which data store should hold my sequence-search results, on my cluster?",
    no_args_is_help=True,
    rich_markup_mode="markdown",
    pretty_exceptions_enable=False,
)


def main() -> None:
    """Entry point: an expected error is one message and exit status 2, never a traceback."""
    if sys.getfilesystemencoding() != "utf-8":
        # In another locale names that are not ASCII could be neither opened nor printed, here or
        # in any program that is started. Only Python's start can change it.
        os.environ["PYTHONUTF8"] = "1"
        os.execv(sys.executable, [sys.executable, "-X", "utf8", *sys.orig_argv[1:]])
    restrict_umask()
    try:
        app()
    except StorewiseError as error:
        say(str(error))
        sys.exit(2)
    except BrokenPipeError:
        # The reader of our output has gone (`storewise inspect ... | head`).
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(1)
    except OSError as error:
        if error.errno not in (errno.ENOSPC, errno.EDQUOT):
            raise
        where = f"{error.filename}: " if error.filename else ""
        say(f"{where}{error.strerror}; make room there and try again")
        try:
            sys.stdout.flush()
        except OSError:
            # What could not be written is not to be tried again at the end.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(2)


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"storewise {__version__}")
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version.")
    ] = False,
) -> None:
    pass


for command in (
    *(
        inspect,
        convert,
        manifest,
        init,
        doctor,
        install,
        sessions,
        measures,
        analyse,
        compare,
        watch,
    ),
    *(report, publish, pull, cost, run),
):
    app.command()(command)
