"""Shared by commands: options, messages, and the search for a study's results."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any, Literal

import orjson
import typer
from rich.console import Console

from storewise.errors import ResultError, StorewiseError
from storewise.layout import RECORD, STUDY, TRIALS

Study = Annotated[str, typer.Argument(help="Name under config/studies, or a YAML file.")]
Scale = Annotated[str | None, typer.Option(help="One of the study's scales.")]
Many = Annotated[bool, typer.Option("--many", help="Also more than 20,000 trials.")]
DryRun = Annotated[bool, typer.Option("--dry-run", "-n", help="Only say what would be done.")]
Results = Annotated[Path, typer.Option(help="Directory with the studies' results.")]
Measured = Annotated[
    str, typer.Argument(help="A study, its name below results/, or a directory of results.")
]
JsonLines = Annotated[bool, typer.Option("--json", help="One JSON object a line.")]
Format = Annotated[Literal["text", "json"], typer.Option("--format", help="Of the output.")]
Files = Annotated[
    list[str],
    typer.Argument(
        help="Outputs of searches: files, directories, globs, @FILE with a path a line, s3://...; "
        "- is standard input."
    ),
]
Jobs = Annotated[
    int, typer.Option("--jobs", "-j", min=0, help="Processes to use; 0 means all cores.")
]
Quarantine = Annotated[
    bool,
    typer.Option("--quarantine", help="Leave out outputs that are not complete, and name them."),
]
InputFormat = Annotated[
    str,
    typer.Option(
        "--format",
        help="Format of the outputs, where their first bytes do not show it: m10, blast7, blast6, "
        "fasta8c, fasta8, diamond, mmseqs2, last.",
    ),
]
Columns = Annotated[
    str,
    typer.Option(
        help='With --format: columns that the outputs do not name, such as "qseqid sseqid pident '
        'length evalue bitscore ..."; std stands for the usual twelve.',
    ),
]
Force = Annotated[bool, typer.Option("--force", help="Replace what is there.")]
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
    """Whether a directory holds the results of a study, or of its first run, which goes on."""
    return (directory / TRIALS).is_dir() or any(
        (directory / name).is_file() for name in (STUDY, RECORD)
    )


def results_of(what: str | None, results: Path) -> Path:
    """The rule by which commands find a study's results: a directory that holds some, the name of
    one below `results`, or the file of a study whose results are there. None means the study that
    runs now, else the one that ran last.

    Raises ResultError where there are none, or several studies run.
    """
    from storewise.yamlfile import nearest

    known = [path for path in sorted(results.glob("*/")) if has_results(path)]
    if what is None:
        return _running_or_last(known, results)
    names = [Path(what), results / what]
    if what.endswith((".yaml", ".yml")):
        names.append(results / Path(what).stem)
    for path in names:
        if has_results(path):
            return path
    studies = [path.name for path in known]
    raise ResultError(
        f"{what}: there are no results of a study, neither in this directory nor in "
        f"{names[-1]}{nearest(what, studies)}; studies below {results} are "
        f"{', '.join(studies) or 'none'}"
    )


def _running_or_last(known: Sequence[Path], results: Path) -> Path:
    from storewise.session.coordination.lease import lease_files, looks_stale

    live = [path for path in known if not all(map(looks_stale, lease_files(path)))]
    if len(live) > 1:
        names = ", ".join(path.name for path in live)
        raise ResultError(f"several studies run below {results}: name one of {names}")
    records = [path / RECORD for path in known if (path / RECORD).is_file()]
    if not live and not records:
        raise ResultError(f"nothing runs or has run below {results}; name a directory of results")
    return live[0] if live else max(records, key=lambda path: path.stat().st_mtime).parent


def killed(name: str) -> StorewiseError:
    """The message when a process that reads inputs was killed from outside."""
    return StorewiseError(
        f"{name}: a process that read it, or a file after it, was killed (out of memory?); try "
        "again with fewer --jobs"
    )


def input_format(form: str, columns: str) -> str:
    """The text of an `InputFormat` of the options `--format` and `--columns`; BadParameter for an
    unknown format or columns."""
    if not form:
        if columns:
            raise typer.BadParameter("needs --format, such as blast6", param_hint="--columns")
        return ""
    from storewise.errors import ConfigError
    from storewise.ssearch.formats.registry import parse_format

    try:
        return parse_format(f"{form} {columns}").text
    except ConfigError as error:
        raise typer.BadParameter(str(error), param_hint="--format") from error


def outputs_of(names: Iterable[str]) -> list[str]:
    """The rule by which commands find outputs: files, `-`, directories with all below them,
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
