"""What commands share: options, messages, and how they find a study's results."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import orjson
import typer
from rich.console import Console

from storewise.layout import STUDY, TRIALS

Study = Annotated[str, typer.Argument(help="Name under config/studies, or a YAML file.")]
Scale = Annotated[str | None, typer.Option("--scale", help="One of the study's scales.")]
Results = Annotated[Path, typer.Option("--results", help="Directory with the studies' results.")]
JsonLines = Annotated[bool, typer.Option("--json", help="One JSON object a line.")]
RESULTS = Path("results")
_errors = Console(stderr=True)


def say(text: str) -> None:
    """A message for the user, on standard error so that output can be piped."""
    _errors.print(f"storewise: {text}", markup=False, highlight=False, soft_wrap=True)


def print_json(value: Any) -> None:
    """A value on standard output, in lines for people too."""
    typer.echo(json.dumps(value, indent=1, ensure_ascii=False, allow_nan=False))


def print_line(record: Any, default: Callable[[Any], Any] | None = None) -> None:
    """A dataclass on standard output, as a JSON object in one line."""
    typer.echo(orjson.dumps(asdict(record), default=default).decode())


def has_results(directory: Path) -> bool:
    """Whether a directory holds the results of a study."""
    return (directory / TRIALS).is_dir() or (directory / STUDY).is_file()


def live_runs(directory: Path) -> list[str]:
    """The runs that measure into a directory of results, on whatever host."""
    from storewise.session.coordination.run import live_leases

    return [lease.name for lease in live_leases(directory)]
