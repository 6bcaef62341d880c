"""What commands share: options, messages, and how they find a study's results."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import orjson
import typer
from rich.console import Console

from storewise.errors import ResultError, StorewiseError
from storewise.layout import STUDY, TRIALS

Study = Annotated[str, typer.Argument(help="Name under config/studies, or a YAML file.")]
Scale = Annotated[str | None, typer.Option("--scale", help="One of the study's scales.")]
Results = Annotated[Path, typer.Option("--results", help="Directory with the studies' results.")]
JsonLines = Annotated[bool, typer.Option("--json", help="One JSON object a line.")]
Files = Annotated[
    list[str],
    typer.Argument(
        help="SSEARCH -m 10 outputs: files, directories, globs, @FILE with a path a line, "
        "s3://...; - is standard input."
    ),
]
Jobs = Annotated[
    int, typer.Option("--jobs", "-j", min=0, help="Processes to use; 0 means all cores.")
]
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


def results_of(what: str, results: Path) -> Path:
    """The rule by which commands find a study's results: a directory that holds some, the name of
    one below `results`, or the file of a study whose results are there."""
    from storewise.yamlfile import nearest

    names = [Path(what), results / what]
    if what.endswith((".yaml", ".yml")):
        names.append(results / Path(what).stem)
    for path in names:
        if has_results(path):
            return path
    known = sorted(path.parent.name for path in results.glob(f"*/{TRIALS}"))
    raise ResultError(
        f"{what}: there are no results of a study, neither in this directory nor in "
        f"{names[-1]}{nearest(what, known)}; studies below {results} are "
        f"{', '.join(known) or 'none'}"
    )


def killed(name: str) -> StorewiseError:
    """What is said where a process that reads inputs was killed from outside."""
    return StorewiseError(
        f"{name}: a process that read it, or a file after it, was killed (out of memory?); try "
        "again with fewer --jobs"
    )


def outputs_of(names: Iterable[str]) -> list[str]:
    """The rule by which commands find SSEARCH outputs: files, `-`, directories with all below them,
    globs, lists (`@FILE`), and places on S3. What names no file stays as it is: whoever reads it
    says what is wrong."""
    import glob

    from storewise.errors import InputError
    from storewise.s3.uri import is_remote
    from storewise.ssearch.inputs.paths import list_inputs

    paths: list[str] = []
    for name in names:
        there = Path(name)
        several = name.startswith("@") or is_remote(name) or there.is_dir()
        try:
            if several or (glob.has_magic(name) and not there.is_symlink() and not there.exists()):
                paths += list_inputs([name])
                continue
        except InputError:
            if name.startswith("@"):
                raise
        paths.append(name)
    return paths
