"""``storewise convert``: outputs of searches as tables and files that need no database."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated, Any, Literal, TypeVar
from uuid import uuid4

import typer

from storewise.cli.console import (
    Columns,
    Files,
    InputFormat,
    Jobs,
    Quarantine,
    input_format,
    killed,
    outputs_of,
    say,
)
from storewise.cli.progress import shown
from storewise.errors import QUARANTINE_HINT, StorewiseError, translate_errors
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
    jobs: Jobs = 0,
    form: InputFormat = "",
    columns: Columns = "",
    by: Annotated[
        Literal["query", "library", "hash"] | None,
        typer.Option(
            help="What documents of one partition share. hash: the file they come from, for "
            "look-ups by id (default).",
            rich_help_panel=_DATA_SET,
        ),
    ] = None,
    sort: Annotated[
        Literal["query", "library", "id"] | None,
        typer.Option(
            help="How files are sorted; by default as --by says.",
            rich_help_panel=_DATA_SET,
        ),
    ] = None,
    partitions: Annotated[
        int | None,
        typer.Option(
            min=1,
            max=256,
            help="Directories of each kind; by default what gives files of the target size.",
            rich_help_panel=_DATA_SET,
        ),
    ] = None,
    target_size: Annotated[
        str | None,
        typer.Option(
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
    quarantine: Quarantine = False,
    scratch: Annotated[
        Path | None,
        typer.Option(
            help="Directory for what is under way to S3; by default one below this directory.",
            rich_help_panel=_DATA_SET,
        ),
    ] = None,
) -> None:
    """Turn outputs of searches into tables and files that need no database.

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
    asked = input_format(form, columns)
    if to == "parquet":
        from storewise.dataset.memory import limit_arrow_memory

        limit_arrow_memory()  # before the inputs are listed, which imports Arrow
        from storewise.dataset.conversion import Options
        from storewise.dataset.settings import Wanted, parse_size
        from storewise.dataset.storage import storage_of

        size = None if target_size is None else parse_size(target_size)
        wanted = Wanted(by, partitions, size, study_fields, sort=sort, input_format=asked or None)
        options = Options(wanted, processes, update=bool(update), quarantine=quarantine)
        _data_set(sorted(outputs_of(files)), storage_of(output, scratch), options)
        return
    only_data_sets = {
        "--by": by,
        "--sort": sort,
        "--partitions": partitions,
        "--target-size": target_size,
        "--study-fields": study_fields,
        "--update": update,
        "--scratch": scratch,
    }
    given = [name for name, value in only_data_sets.items() if value is not None]
    if given:
        raise typer.BadParameter(f"is an option of --to parquet, not of {to}", param_hint=given[0])
    inputs = _Inputs(outputs_of(files), asked, processes, quarantine)
    if to == "hits":
        _hits(inputs, Path(output))
        return
    from storewise.ssearch.convert import convert_file

    for paths in inputs.each(partial(convert_file, to=to, outdir=output, input_format=asked)):
        for path in paths:
            typer.echo(path)


def _data_set(paths: Sequence[str], storage: Any, options: Any) -> None:
    """Make or update a data set, and print its counts."""
    from rich.filesize import decimal

    from storewise.dataset.conversion import convert as convert_to

    with shown("converting", size=True) as progress:
        done = convert_to(paths, storage, options, progress)
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
        return
    rate = f", {done.text / 1e6 / done.seconds:.0f} MB/s"
    say(
        f"{holds}; read {done.inputs:,} inputs now, {decimal(done.text)} of text in "
        f"{done.seconds:.1f} s{' (some were read before)' if done.resumed else rate}"
    )


@dataclass(frozen=True, slots=True)
class _Inputs:
    """The inputs of a conversion; `quarantine` leaves those out that are not complete."""

    names: Sequence[str]
    format: str
    processes: int
    quarantine: bool

    def each(self, convert_one: Callable[[str], tuple[T, list[str]]]) -> Iterator[T]:
        """Yield the result of `convert_one` for each complete input, in their order.

        `convert_one` returns a result and warnings; these are printed like errors. Bad inputs raise
        StorewiseError at the end, unless they are left out.
        """
        bad = 0
        work = partial(_result_or_error, convert_one)
        with shown("converting") as update:
            results = in_processes(work, self.names, self.processes, killed=killed)
            for done, (name, result) in enumerate(zip(self.names, results, strict=True), 1):
                if isinstance(result, str):
                    bad += 1
                    say(f"left out: {result}" if self.quarantine else result)
                else:
                    for warning in result[1]:
                        say(f"warning: {name}: {warning}")
                    yield result[0]
                update(done, len(self.names))
        if bad and not self.quarantine:
            raise StorewiseError(
                f"{bad} of {len(self.names)} outputs are not complete {QUARANTINE_HINT}"
            )


def _result_or_error(convert_one: Callable[[str], T], name: str) -> T | str:
    """Convert one input; return the error of a bad one: the others are still converted."""
    try:
        return convert_one(name)
    except StorewiseError as error:
        return str(error)


def _hits(inputs: _Inputs, output: Path) -> None:
    """Write one table of hits. If an input is bad: StorewiseError, and no file is written."""
    from storewise.atomic import aside
    from storewise.ssearch.hits import form_of, join

    form = form_of(output)

    def parts(directory: str) -> Iterator[Path]:
        work = partial(_part, form=form, directory=Path(directory), input_format=inputs.format)
        for part in inputs.each(work):
            yield part
            part.unlink()

    if str(output) == STDIN:
        with TemporaryDirectory(prefix=".hits-") as directory:
            join(parts(directory), form, sys.stdout.buffer)
        return
    with translate_errors(f"{output}: cannot be written", advice="check its directory and disk"):
        output.parent.mkdir(parents=True, exist_ok=True)
        with (
            TemporaryDirectory(prefix=".hits-", dir=output.parent) as directory,
            aside(output) as place,
            place.open("wb") as file,
        ):
            join(parts(directory), form, file)
    say(f"wrote {output}")


def _part(name: str, *, form: str, directory: Path, input_format: str) -> tuple[Path, list[str]]:
    """Write the hits of one input; returns the file and warnings."""
    from storewise.ssearch.hits import write_hits

    place = directory / uuid4().hex
    return place, write_hits(name, form, place, input_format=input_format)
