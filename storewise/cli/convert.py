"""``storewise convert``: SSEARCH outputs as tables and files that need no database."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated, Literal, TypeVar
from uuid import uuid4

import typer

from storewise.cli.console import Files, killed, outputs_of, say
from storewise.cli.progress import shown
from storewise.errors import QUARANTINE_HINT, StorewiseError
from storewise.processes import in_processes, processors

T = TypeVar("T")
#: Standard input, and as an output standard output.
STDIN = "-"
_DATA_SET = "Data set (--to parquet)"


def convert(
    files: Files,
    to: Annotated[
        Literal["hits", "jsonl", "bson", "parquet"],
        typer.Option(
            "--to",
            help="hits: one table of all hits. parquet: a data set, all documents of all outputs "
            "in a few files. jsonl, bson: all documents, four files for each output.",
        ),
    ],
    output: Annotated[
        str,
        typer.Option(
            "--output",
            "-o",
            help="For parquet the directory of the data set, or s3://BUCKET/PREFIX. For hits the "
            "file: hits.parquet, hits.csv, or hits.tsv; - prints TSV. Else a directory.",
        ),
    ],
    jobs: Annotated[
        int, typer.Option("--jobs", "-j", min=0, help="Processes to use; 0 means all cores.")
    ] = 0,
    by: Annotated[
        Literal["query", "library", "hash"] | None,
        typer.Option(
            "--by",
            help="What documents of one partition share. hash: the file they come from, for "
            "look-ups by id (default).",
            rich_help_panel=_DATA_SET,
        ),
    ] = None,
    sort: Annotated[
        Literal["query", "library", "id"] | None,
        typer.Option(
            "--sort",
            help="How files are sorted; by default as --by says.",
            rich_help_panel=_DATA_SET,
        ),
    ] = None,
    partitions: Annotated[
        int | None,
        typer.Option(
            "--partitions",
            min=1,
            max=256,
            help="Directories of each kind; by default what gives files of the target size.",
            rich_help_panel=_DATA_SET,
        ),
    ] = None,
    target_size: Annotated[
        str | None,
        typer.Option(
            "--target-size",
            help="When a file is full; default 512MB.",
            rich_help_panel=_DATA_SET,
        ),
    ] = None,
    study_fields: Annotated[
        bool | None,
        typer.Option(
            "--study-fields",
            help="Only the fields of the published study.",
            show_default=False,
            rich_help_panel=_DATA_SET,
        ),
    ] = None,
    update: Annotated[
        bool | None,
        typer.Option(
            "--update",
            help="Add those outputs that the data set does not have yet.",
            show_default=False,
            rich_help_panel=_DATA_SET,
        ),
    ] = None,
    quarantine: Annotated[
        bool,
        typer.Option(
            "--quarantine",
            help="Leave out outputs that are not complete, and name them.",
        ),
    ] = False,
    scratch: Annotated[
        Path | None,
        typer.Option(
            "--scratch",
            help="Directory for what is under way to S3; by default one below this directory.",
            rich_help_panel=_DATA_SET,
        ),
    ] = None,
) -> None:
    """Turn SSEARCH outputs into tables and files that need no database.

    **--to parquet** makes a *data set*: a directory with the documents of all outputs in a few
    large, sorted files, which DuckDB, pandas, polars and R read. A *document* is one record as a
    store keeps it: each search gives one, each alignment three (docs/documents.md). If a conversion
    was interrupted, call it again: it resumes where it stopped. docs/dataset.md shows how to query
    a data set.

    **--to hits** makes one table with a row for each alignment. Its first twelve columns are those
    of BLAST's `-outfmt 6`: qseqid sseqid pident length mismatch gapopen qstart qend sstart send
    evalue bitscore. As in BLAST the length counts gaps, and `sstart` is above `send` on the minus
    strand. `.tsv` has these columns and no header line, so that tools for BLAST read it. `.csv`
    (with a header line) and `.parquet` have more: sstrand score gaps gene chromosome.

    **--to jsonl, bson** write all documents, four files for each output.

    An output that is not complete is an error: no data set and no table is written. With
    `--quarantine` such outputs are left out and named. (`jsonl` and `bson` files are written for
    all complete outputs in any case.)

    Example: `storewise convert /data/ssearch --to parquet -o dataset`, or
    `storewise convert results/*.m10.gz --to hits -o hits.tsv`
    """
    processes = jobs or processors()
    only_data_sets = {
        "--by": by,
        "--sort": sort,
        "--partitions": partitions,
        "--target-size": target_size,
        "--study-fields": study_fields,
        "--update": update,
        "--scratch": scratch,
    }
    if to == "parquet":
        from storewise.dataset.memory import limit_arrow_memory

        limit_arrow_memory()  # before the inputs are listed, which imports Arrow
        _data_set(
            sorted(outputs_of(files)),
            output,
            scratch,
            by=by,
            sort=sort,
            partitions=partitions,
            target_size=target_size,
            study_fields=study_fields,
            processes=processes,
            update=bool(update),
            quarantine=quarantine,
        )
        return
    given = [name for name, value in only_data_sets.items() if value is not None]
    if given:
        raise typer.BadParameter(f"is an option of --to parquet, not of {to}", param_hint=given[0])
    paths = outputs_of(files)
    if to == "hits":
        _hits(paths, Path(output), processes, quarantine=quarantine)
        return
    bad: list[str] = []
    work = partial(_convert, form=to, directory=Path(output))
    for name, (made, warnings, error) in _worked("converting", work, paths, processes):
        for path in made:
            typer.echo(path)
        _report_input(name, warnings, error, bad, quarantine=quarantine)
    _raise_if_bad(bad, paths, quarantine=quarantine)


def _data_set(
    paths: Sequence[str],
    output: str,
    scratch: Path | None,
    *,
    by: Literal["query", "library", "hash"] | None,
    sort: Literal["query", "library", "id"] | None,
    partitions: int | None,
    target_size: str | None,
    study_fields: bool | None,
    processes: int,
    update: bool,
    quarantine: bool,
) -> None:
    """Make or update a data set, and say what it holds."""
    from rich.filesize import decimal

    from storewise.dataset.conversion import Options
    from storewise.dataset.conversion import convert as convert_to
    from storewise.dataset.settings import Wanted, parse_size
    from storewise.dataset.storage import storage_of

    wanted = Wanted(
        by=by,
        sort=sort,
        partitions=partitions,
        target_bytes=None if target_size is None else parse_size(target_size),
        study_fields=study_fields,
    )
    options = Options(wanted, processes, update=update, quarantine=quarantine)
    with shown("converting", size=True) as progress:
        done = convert_to(paths, storage_of(output, scratch), options, progress)
    for path, equal in done.equal:
        say(f"left out, equal to {equal}: {path}")
    for path, warning in done.warnings:
        say(f"warning: {path}: {warning}")
    for reason in done.bad:
        say(f"left out: {reason}")
    holds = (
        f"{done.where}: {done.documents:,} documents in {done.files} files, {decimal(done.bytes)}"
    )
    if not done.inputs:
        say(f"{holds}; nothing is new")
    else:
        rate = f", {done.text / 1e6 / done.seconds:.0f} MB/s"
        say(
            f"{holds}; read {done.inputs:,} inputs now, {decimal(done.text)} of text in "
            f"{done.seconds:.1f} s{' (some were read before)' if done.resumed else rate}"
        )


def _worked(
    what: str, work: Callable[[str], T], names: Sequence[str], processes: int
) -> Iterator[tuple[str, T]]:
    """Each name with what the work made of it."""
    with shown(what) as update:
        results = in_processes(work, names, processes, killed=killed)
        for done, (name, result) in enumerate(zip(names, results, strict=True), 1):
            yield name, result
            update(done, len(names))


def _report_input(
    name: str, warnings: Iterable[str], error: str, bad: list[str], *, quarantine: bool
) -> None:
    """Print an input's warnings and its error; append the error to `bad`."""
    for warning in warnings:
        say(f"warning: {name}: {warning}")
    if error:
        bad.append(error)
        say(f"left out: {error}" if quarantine else error)


def _raise_if_bad(bad: Sequence[str], names: Sequence[str], *, quarantine: bool) -> None:
    """Raise StorewiseError if there are bad inputs, unless `quarantine` leaves them out."""
    if bad and not quarantine:
        raise StorewiseError(
            f"{len(bad)} of {len(names)} outputs are not complete {QUARANTINE_HINT}"
        )


def _convert(name: str, *, form: str, directory: Path) -> tuple[Iterable[Path], Iterable[str], str]:
    """Convert one input; returns its files, its warnings, and an error ("" if none)."""
    from storewise.ssearch.convert import convert_file

    try:
        done = convert_file(name, form, directory)
    except StorewiseError as error:
        return (), (), str(error)
    return done.paths, done.warnings, ""


def _hits(names: Sequence[str], output: Path, processes: int, *, quarantine: bool) -> None:
    """Write one table of hits. If an input is bad: StorewiseError, and no file is written."""
    from storewise.atomic import aside
    from storewise.ssearch.hits import form_of, join

    form, to_stdout = form_of(output), str(output) == STDIN
    bad: list[str] = []
    try:
        output.parent.mkdir(parents=True, exist_ok=True)
        with ExitStack() as stack:
            beside = None if to_stdout else output.parent
            parts = Path(stack.enter_context(TemporaryDirectory(prefix=".hits-", dir=beside)))
            work = partial(_part, form=form, directory=parts)

            def made() -> Iterator[Path]:
                for name, (part, warnings, error) in _worked("converting", work, names, processes):
                    _report_input(name, warnings, error, bad, quarantine=quarantine)
                    if part is not None:
                        yield part
                        part.unlink()
                _raise_if_bad(bad, names, quarantine=quarantine)

            if to_stdout:
                join(made(), form, sys.stdout.buffer)
                return
            with aside(output) as place, place.open("wb") as file:
                join(made(), form, file)
    except (PermissionError, FileExistsError, NotADirectoryError, IsADirectoryError) as error:
        raise StorewiseError(f"{output}: cannot be written: {error.strerror}") from error
    say(f"wrote {output}")


def _part(name: str, *, form: str, directory: Path) -> tuple[Path | None, Iterable[str], str]:
    """Write the hits of one input; returns the file, warnings, and an error ("" if none)."""
    from storewise.ssearch.hits import write_hits

    place = directory / uuid4().hex
    try:
        return place, write_hits(name, form, place), ""
    except StorewiseError as error:
        place.unlink(missing_ok=True)
        return None, (), str(error)
