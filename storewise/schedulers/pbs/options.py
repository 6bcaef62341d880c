"""What profiles/pbs says on the command lines of its submit and status commands."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import dataclass, field

from storewise.study.host_classes import DATA, WORK

DIALECTS = ("openpbs", "torque")
#: Classes of nodes that the workflow's rules name: database nodes, and everything else. A study's
#: factor `node_class` may name more, which the profile says with ``--classes``.
NODE_CLASSES = (DATA, WORK)
#: Environment variables that reach every job besides the named ones: what the run tells its jobs.
ALWAYS_EXPORTED = ("PYTHONPATH",)
EXPORTED_PREFIX = "STOREWISE_"


@dataclass(frozen=True, slots=True)
class SubmitOptions:
    """Where jobs run and how they are asked for. Mappings are by node class."""

    dialect: str = "openpbs"
    classes: tuple[str, ...] = NODE_CLASSES
    queue: dict[str, str] = field(default_factory=dict)
    select: dict[str, str] = field(default_factory=dict)
    place: dict[str, str] = field(default_factory=dict)
    account: str = ""
    walltime: int = 60
    """Minutes, for a job whose rule names no runtime."""
    disk: str = ""
    """The site's resource for node-local disk; empty: `disk_mb` is not asked for."""
    export: tuple[str, ...] = ()
    extra: tuple[str, ...] = ()
    """More words for qsub, as they are."""
    timeout: float = 60.0
    attempts: int = 5
    check_size: bool = True
    """Whether a job that is larger than every node is refused."""


def by_class(text: str, classes: Sequence[str] = NODE_CLASSES) -> dict[str, str]:
    """``VALUE`` for all node classes, or ``CLASS:VALUE`` for one. An empty value means none."""
    head, colon, value = text.partition(":")
    if colon and head in classes:
        return {head: value} if value else {}
    return dict.fromkeys(classes, text) if text else {}


def _positive(text: str) -> int:
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError(f"{text} is less than 1")
    return number


def submit_options(arguments: Sequence[str]) -> tuple[SubmitOptions, str]:
    """The options and the jobscript of ``storewise-pbs-submit``; ends with a usage message and
    status 2 where they are wrong."""
    parser = argparse.ArgumentParser(
        prog="storewise-pbs-submit",
        description="Submits a Snakemake jobscript to PBS and prints the job's id.",
        allow_abbrev=False,
    )
    parser.add_argument("--dialect", choices=DIALECTS, default="openpbs")
    parser.add_argument("--classes", default="", metavar="NAMES")
    for name in ("--queue", "--select", "--place"):
        parser.add_argument(name, action="append", default=[], metavar="[CLASS:]VALUE")
    parser.add_argument("--account", default="")
    parser.add_argument("--walltime", type=_positive, default=60, metavar="MINUTES")
    parser.add_argument("--disk", default="", metavar="RESOURCE")
    parser.add_argument("--export", default="", metavar="NAMES")
    parser.add_argument("--extra", default="", metavar="WORDS")
    parser.add_argument("--timeout", type=float, default=60.0, metavar="SECONDS")
    parser.add_argument("--attempts", type=_positive, default=5)
    parser.add_argument("--no-size-check", action="store_false", dest="check_size")
    parser.add_argument("jobscript")
    values = vars(parser.parse_args(arguments))
    # Imported late: a quick start counts, and few profiles have extra words.
    import shlex

    classes = tuple(dict.fromkeys((*NODE_CLASSES, *values["classes"].split())))
    for name in ("queue", "select", "place"):
        texts = values[name]
        values[name] = {k: v for text in texts for k, v in by_class(text, classes).items()}
    export, extra = tuple(values["export"].split()), tuple(shlex.split(values["extra"]))
    jobscript = values.pop("jobscript")
    values |= {"classes": classes, "export": export, "extra": extra}
    return SubmitOptions(**values), jobscript


@dataclass(frozen=True, slots=True)
class StatusOptions:
    """How often and how long qstat is asked. All times in seconds."""

    dialect: str = "openpbs"
    every: float = 10.0
    """The shortest time between two calls of qstat, for all jobs of a run together."""
    timeout: float = 30.0
    grace: float = 60.0
    """For how long after its submission a job may be unknown to the server."""


def status_options(arguments: Sequence[str]) -> tuple[StatusOptions, str]:
    """The options and the job id of ``storewise-pbs-status``."""
    parser = argparse.ArgumentParser(
        prog="storewise-pbs-status",
        description="Prints running, success or failed for a job of PBS.",
        allow_abbrev=False,
    )
    parser.add_argument("--dialect", choices=DIALECTS, default="openpbs")
    parser.add_argument("--every", type=float, default=10.0, metavar="SECONDS")
    parser.add_argument("--timeout", type=float, default=30.0, metavar="SECONDS")
    parser.add_argument("--grace", type=float, default=60.0, metavar="SECONDS")
    parser.add_argument("job")
    values = parser.parse_args(arguments)
    return StatusOptions(values.dialect, values.every, values.timeout, values.grace), values.job
