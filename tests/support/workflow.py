"""The workflow in this process, its plans, and a copy of it to be edited.

A Snakemake of its own takes two seconds before it has its plan, most of them for imports.
"""

import contextlib
import io
import os
import re
import shutil
import signal
from unittest import mock

from support.commands import Done
from support.paths import ROOT

MEASURING = {"open_session", "load", "phase", "verify"}


def snakemake(command, directory, env=None):
    """Snakemake's command in this process; what our rules change in it is put back."""
    import snakemake.script  # it takes a second, and only tests of workflows need it
    from snakemake.cli import main
    from snakemake.logging import logger

    out, err = io.StringIO(), io.StringIO()
    handlers = {one: signal.getsignal(one) for one in (signal.SIGTERM, signal.SIGINT)}
    mask = os.umask(0)
    os.umask(mask)
    status = 0
    try:
        with (
            mock.patch.object(logger, "handlers", list(logger.handlers)),
            mock.patch.object(snakemake.script, "get_source", snakemake.script.get_source),
            mock.patch.dict("os.environ", env or {}),
            contextlib.chdir(directory),
            contextlib.redirect_stdout(out),
            contextlib.redirect_stderr(err),
        ):
            main(command[command.index("snakemake") + 1 :])
    except SystemExit as ended:
        status = ended.code
    finally:
        os.umask(mask)
        for number, handler in handlers.items():
            signal.signal(number, handler)
    assert isinstance(status, int), status
    return Done(status, out.getvalue(), err.getvalue())


def plan(place, *arguments, snakefile=ROOT / "Snakefile"):
    """Rules and numbers of jobs that Snakemake would run."""
    done = snakemake(place.command("-n", *arguments, snakefile=snakefile), place.directory)
    assert done.returncode == 0, done.stdout + done.stderr
    return planned(done.stdout + done.stderr)


def refusal(place, *arguments, env=None):
    """What Snakemake says, in one line, where it must not start anything."""
    before = place.left_behind()
    done = snakemake(place.command(*arguments), place.directory, env)
    text = " ".join((done.stdout + done.stderr).split())
    assert done.returncode != 0, text
    assert "Traceback" not in text
    assert place.left_behind() == before
    return text


def planned(text):
    """Rules and numbers of jobs from Snakemake's table of jobs."""
    table = re.search(r"job +count\n[- ]+\n(.*?)\n\n", text, re.DOTALL)
    if table is None:
        assert "Nothing to be done" in text, text
        return {}
    rows = (line.split() for line in table[1].splitlines())
    return {name: int(count) for name, count in rows if name != "total"}


def edited_workflow(place):
    """A copy of the workflow with a changed script of a measuring rule."""
    home = place.directory / "workflow"
    home.mkdir()
    for name in ("rules", "scripts", "profiles", "report", "envs", "config", "storewise"):
        shutil.copytree(ROOT / name, home / name)
    shutil.copy(ROOT / "Snakefile", home)
    with (home / "scripts" / "worker.py").open("a") as script:
        script.write("\n# changed\n")
    with (home / "rules" / "workload.smk").open("a") as rules:
        rules.write("\n# changed\n")
    return home / "Snakefile"
