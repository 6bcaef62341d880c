"""``storewise inspect``, ``convert``, ``manifest`` and ``init``: from SSEARCH outputs on."""

from __future__ import annotations

import os
from collections.abc import Iterable
from functools import partial
from pathlib import Path
from typing import Annotated, Literal

import orjson
import typer

from storewise.cli.console import say
from storewise.cli.progress import shown
from storewise.errors import StorewiseError
from storewise.processes import in_processes

Files = Annotated[list[str], typer.Argument(help="SSEARCH -m 10 outputs; - is standard input.")]
Jobs = Annotated[
    int, typer.Option("--jobs", "-j", min=0, help="Processes to use; 0 means all cores.")
]


def _killed(name: str) -> StorewiseError:
    return StorewiseError(
        f"{name}: a process that read it, or a file after it, was killed (out of memory?); try "
        "again with fewer --jobs"
    )


def inspect(files: Files, jobs: Jobs = 1) -> None:
    """Say what SSEARCH outputs hold and whether they are complete: one JSON object a line.

    Exit status 0 only if all files are complete.

    Example: `storewise inspect results/*.m10.gz --jobs 0 > inspected.jsonl`
    """
    from storewise.ssearch.inspect import inspect_file

    complete = True
    with shown("inspecting") as update:
        contents = in_processes(inspect_file, files, jobs or os.cpu_count() or 1, killed=_killed)
        for done, content in enumerate(contents, 1):
            typer.echo(orjson.dumps(content).decode())
            complete = complete and bool(content["complete"])
            update(done, len(files))
    raise typer.Exit(0 if complete else 1)


def convert(
    files: Files,
    to: Annotated[
        Literal["jsonl", "bson", "parquet"], typer.Option("--to", help="Form of the documents.")
    ],
    output: Annotated[Path, typer.Option("--output", "-o", help="Directory for the documents.")],
    jobs: Jobs = 1,
) -> None:
    """Write the documents of SSEARCH outputs as files, usable without a database.

    A bad file is named and nothing of it is written; the others are converted all the same.
    Exit status 0 only if all were converted.

    Example: `storewise convert results/*.m10.gz --to parquet -o documents --jobs 0`
    """
    good = True
    work = partial(_convert, form=to, directory=output)
    with shown("converting") as update:
        results = in_processes(work, files, jobs or os.cpu_count() or 1, killed=_killed)
        for done, (paths, warnings, error) in enumerate(results, 1):
            for path in paths:
                typer.echo(path)
            for warning in warnings:
                say(f"warning: {files[done - 1]}: {warning}")
            if error:
                good = False
                say(error)
            update(done, len(files))
    raise typer.Exit(0 if good else 1)


def _convert(name: str, *, form: str, directory: Path) -> tuple[Iterable[Path], Iterable[str], str]:
    """The documents' files, warnings, and why there are none."""
    from storewise.ssearch.convert import convert_file

    try:
        done = convert_file(name, form, directory)
    except StorewiseError as error:
        return (), (), str(error)
    return done.paths, done.warnings, ""


def manifest(
    inputs: Annotated[
        list[str] | None,
        typer.Argument(help="Directories, globs, files, @FILE with a path a line, s3://..."),
    ] = None,
    output: Annotated[Path, typer.Option("--output", "-o", help="Parquet file to write.")] = Path(
        "manifest.parquet"
    ),
    jobs: Jobs = 0,
    digest: Annotated[
        Literal["full", "sampled", "parsed"],
        typer.Option("--digest", help="sampled: for huge inputs; parsed: checks all."),
    ] = "full",
    quarantine: Annotated[
        bool, typer.Option("--quarantine", help="Go on without bad files and list them.")
    ] = False,
    study: Annotated[
        str | None,
        typer.Option("--study", help="Instead: list the inputs of this study anew."),
    ] = None,
) -> None:
    """Digest and count SSEARCH outputs: one row per file, each file read once.

    Only new and changed files are read again, also after a kill. With --study the study's list
    of inputs is renewed, so that the next run finds files that were added.

    Example: `storewise manifest /data/ssearch -o manifest.parquet`, or
    `storewise manifest --study mine`
    """
    from storewise.ssearch.inputs.manifest import build_manifest
    from storewise.ssearch.inputs.paths import list_inputs

    if study is not None:
        if inputs:
            raise typer.BadParameter("a study names its inputs itself", param_hint="INPUTS")
        from storewise.run.runner import renew_inputs

        say(renew_inputs(study))
        return
    if not inputs:
        raise typer.BadParameter("name inputs or --study", param_hint="INPUTS")
    with shown("digesting") as update:
        made = build_manifest(
            list_inputs(inputs),
            output,
            processes=jobs or os.cpu_count() or 1,
            digest=digest,
            on_bad_input="quarantine" if quarantine else "fail",
            progress=lambda files, total, *_: update(files, total),
        )
    for bad in made.bad:
        say(f"left out: {bad.reason}")
    for path, equal in made.duplicates:
        say(f"left out, equal to {equal}: {path}")
    for path, warning in made.warnings:
        say(f"warning: {path}: {warning}")
    documents = "" if made.documents is None else f", {made.documents} documents"
    say(
        f"{output}: {made.files} files, {made.bytes} bytes{documents}; "
        f"{made.digested} read now, {made.reused} known"
    )


def init(
    directory: Annotated[
        str, typer.Argument(help="Directory of SSEARCH -m 10 outputs, or s3://BUCKET/PREFIX/.")
    ],
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="Study file to write.")
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace an existing file.")] = False,
) -> None:
    """Write a commented study for a directory of your own SSEARCH outputs.

    Example: `storewise init /data/ssearch -o config/studies/mine.yaml`
    """
    from storewise.study.template import write_study

    path = write_study(directory, output, force=force)
    say(f"wrote {path}; look at it, then: storewise run {path}")
