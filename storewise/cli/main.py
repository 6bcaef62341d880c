"""The command line, `storewise`."""

from __future__ import annotations

import errno
import os
import sys
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, cast

import orjson
import typer
from rich.console import Console

from storewise import __version__
from storewise.cli.analyse import analyse
from storewise.cli.compare import compare
from storewise.cli.cost import cost
from storewise.cli.hosts import doctor, profiles_app, sessions
from storewise.cli.measures import measures
from storewise.cli.progress import shown
from storewise.cli.publish import publish, pull
from storewise.cli.watch import watch
from storewise.errors import StorewiseError
from storewise.processes import in_processes

if TYPE_CHECKING:
    from storewise.ssearch.convert import Converted

app = typer.Typer(
    name="storewise",
    help="Which data store should hold my sequence-search results, on my cluster?",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode="markdown",
    pretty_exceptions_enable=False,
)
_errors = Console(stderr=True)

Jobs = Annotated[
    int, typer.Option("--jobs", "-j", min=0, help="Processes to use; 0 means all cores.")
]


def say(text: str) -> None:
    """A message for the user, on standard error so that output can be piped."""
    _errors.print(f"storewise: {text}", markup=False, highlight=False, soft_wrap=True)


def main() -> None:
    """Entry point: an expected error is one message and exit status 2, never a traceback."""
    if sys.getfilesystemencoding() != "utf-8":
        # In another locale names that are not ASCII could be neither opened nor printed, here or
        # in any program that is started. Only Python's start can change it.
        os.environ["PYTHONUTF8"] = "1"
        os.execv(sys.executable, [sys.executable, "-X", "utf8", *sys.orig_argv[1:]])
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


def _killed(name: str) -> StorewiseError:
    return StorewiseError(
        f"{name}: a process that read it, or a file after it, was killed (out of memory?); try "
        "again with fewer --jobs"
    )


@app.command()
def inspect(
    files: Annotated[list[str], typer.Argument(help="SSEARCH -m 10 outputs; - is standard input.")],
    jobs: Jobs = 1,
) -> None:
    """Say what SSEARCH outputs hold and whether they are complete: one JSON object a line.

    Exit status 0 only if all files are complete.

    Example: `storewise inspect results/*.m10.gz --jobs 0 > inspected.jsonl`
    """
    from storewise.ssearch.inspect import inspect_file

    complete = True
    with shown("inspecting") as update:
        reports = in_processes(inspect_file, files, jobs or os.cpu_count() or 1, killed=_killed)
        for done, report in enumerate(reports, 1):
            typer.echo(orjson.dumps(report).decode())
            complete = complete and bool(report["complete"])
            update(done, len(files))
    raise typer.Exit(0 if complete else 1)


def _convert_one(to: str, outdir: Path, name: str) -> Converted | StorewiseError:
    from storewise.ssearch.convert import convert_file

    try:
        return convert_file(name, to, outdir)
    except StorewiseError as error:
        return error


@app.command()
def convert(
    files: Annotated[list[str], typer.Argument(help="SSEARCH -m 10 outputs; - is standard input.")],
    to: Annotated[str, typer.Option("--to", help="jsonl, bson or parquet.")],
    output: Annotated[Path, typer.Option("--output", "-o", help="Directory for the documents.")],
    jobs: Jobs = 1,
) -> None:
    """Write the documents of SSEARCH outputs as files, usable without a database.

    A bad file is named and nothing of it is written; the others are converted all the same.
    Exit status 0 only if all were converted.

    Example: `storewise convert results/*.m10.gz --to parquet -o documents --jobs 0`
    """
    if to not in {"jsonl", "bson", "parquet"}:
        raise typer.BadParameter(f"{to!r} is none of jsonl, bson, parquet", param_hint="--to")
    good = True
    with shown("converting") as update:
        work = partial(_convert_one, to, output)
        results = in_processes(work, files, jobs or os.cpu_count() or 1, killed=_killed)
        for done, (name, found) in enumerate(zip(files, results, strict=True), 1):
            if isinstance(found, StorewiseError):
                good = False
                say(str(found))
            else:
                for path in found.paths:
                    typer.echo(path)
                for warning in found.warnings:
                    say(f"warning: {name}: {warning}")
            update(done, len(files))
    raise typer.Exit(0 if good else 1)


@app.command()
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
        str, typer.Option("--digest", help="full, sampled (huge inputs) or parsed (checks all).")
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
    if digest not in {"full", "sampled", "parsed"}:
        raise typer.BadParameter(f"{digest!r} is none of full, sampled, parsed")
    with shown("digesting") as update:
        found = build_manifest(
            list_inputs(inputs),
            output,
            processes=jobs or os.cpu_count() or 1,
            digest=cast(Any, digest),
            on_bad_input="quarantine" if quarantine else "fail",
            progress=lambda files, total, *_: update(files, total),
        )
    for bad in found.bad:
        say(f"left out: {bad.reason}")
    for path, equal in found.duplicates:
        say(f"left out, equal to {equal}: {path}")
    for path, warning in found.warnings:
        say(f"warning: {path}: {warning}")
    documents = "" if found.documents is None else f", {found.documents} documents"
    say(
        f"{output}: {found.files} files, {found.bytes} bytes{documents}; "
        f"{found.digested} read now, {found.reused} known"
    )


@app.command()
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


app.add_typer(profiles_app, name="profiles")
app.command()(doctor)
app.command()(sessions)
app.command()(measures)
app.command()(analyse)
app.command()(compare)
app.command()(watch)
app.command()(publish)
app.command()(pull)
app.command()(cost)


@app.command(context_settings={"allow_extra_args": True, "ignore_unknown_options": True})
def run(
    context: typer.Context,
    study: Annotated[str, typer.Argument(help="Name under config/studies, or a YAML file.")],
    profile: Annotated[
        str | None,
        typer.Option("--profile", help="Name under profiles/, or a path; default: this machine."),
    ] = None,
    scale: Annotated[str | None, typer.Option("--scale", help="One of the study's scales.")] = None,
    cores: Annotated[int | None, typer.Option("--cores", min=1, help="For Snakemake.")] = None,
    retry_failed: Annotated[
        bool, typer.Option("--retry-failed", help="Try trials again that were given up.")
    ] = False,
    many: Annotated[
        bool, typer.Option("--many", help="More trials than 20,000, or jobs than 200,000.")
    ] = False,
) -> None:
    """Run a study to its report, trying failed trials again as the study says.

    Further arguments go to Snakemake. Exit status 0 if every trial was measured, 1 if some were
    given up (the report is there and names them), 3 if the report could not be published.

    Example: `storewise run demo`, or `storewise run mine.yaml --profile slurm`
    """
    from storewise.publish.results import published_at
    from storewise.run.runner import NOT_PUBLISHED, results_of, run_study

    status = run_study(
        study,
        profile=profile,
        scale=scale,
        cores=cores,
        retry_failed=retry_failed,
        many=many,
        extra=context.args,
        say=say,
    )
    if status in {0, 1, NOT_PUBLISHED}:
        report, finding = results_of(study, scale)
        if report is not None:
            typer.echo(finding)
            typer.echo(f"Report: {report}")
            if place := published_at(report.parent):
                typer.echo(f"Published: {place}")
    raise typer.Exit(status)
