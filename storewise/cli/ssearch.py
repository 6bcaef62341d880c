"""``storewise inspect``, ``manifest`` and ``init``: what outputs of searches there are."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from shlex import quote
from typing import Annotated

import orjson
import typer

from storewise.cli.console import (
    RESULTS,
    Columns,
    Files,
    Force,
    InputFormat,
    Jobs,
    Quarantine,
    input_format,
    killed,
    outputs_of,
    say,
)
from storewise.cli.progress import shown
from storewise.errors import END_NOT_VISIBLE, NOT_VISIBLE, QUARANTINE_HINT, StorewiseError
from storewise.processes import in_processes, processors
from storewise.s3.uri import is_remote

#: Files that are named as not complete.
MOST_NAMED = 5


def inspect(files: Files, jobs: Jobs = 1, form: InputFormat = "", columns: Columns = "") -> None:
    """Check outputs of searches: what each file holds, and whether it is complete.

    Prints one JSON object a line for each file, with the numbers of queries, hits, alignments and
    documents. A *document* is one record as a store keeps it: each search gives one, each alignment
    three (the query's aligned row, the library's row, and the scores).

    Exit status 0 only if all files are complete.

    Example: `storewise inspect /data/ssearch --jobs 0 > inspected.jsonl`
    """
    from storewise.ssearch.inspect import inspect_file

    complete = True
    paths = outputs_of(files)
    with shown("inspecting") as update:
        work = partial(inspect_file, input_format=input_format(form, columns))
        contents = in_processes(work, paths, jobs or processors(), killed=killed)
        for done, content in enumerate(contents, 1):
            typer.echo(orjson.dumps(content).decode())
            complete = complete and bool(content["complete"])
            update(done, len(paths))
    raise typer.Exit(0 if complete else 1)


def manifest(
    inputs: Annotated[
        list[str] | None,
        typer.Argument(help="Directories, globs, files, @FILE with a path a line, s3://..."),
    ] = None,
    output: Annotated[Path, typer.Option("--output", "-o", help="Parquet file to write.")] = Path(
        "manifest.parquet"
    ),
    jobs: Jobs = 0,
    quarantine: Quarantine = False,
    form: InputFormat = "",
    columns: Columns = "",
    study: Annotated[
        str | None,
        typer.Option(help="Instead: make this study's list of inputs again."),
    ] = None,
) -> None:
    """List outputs of searches with their digests and counts, as a table: one row for each file.

    Each file is read once; a second call reads only new and changed files. With `--study` the
    study's list of inputs is made again, so that its next run finds files that were added.

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
            input_format=input_format(form, columns),
            processes=jobs or processors(),
            on_bad_input="quarantine" if quarantine else "fail",
            progress=lambda files, total, *_: update(files, total),
        )
    for bad in made.bad:
        say(f"left out: {bad.reason}")
    for path, equal in made.duplicates:
        say(f"left out, equal to {equal}: {path}")
    for path, warning in made.warnings:
        say(f"warning: {path}: {warning}")
    if made.end == NOT_VISIBLE:
        say(END_NOT_VISIBLE)
    say(
        f"{output}: {made.files} files, {made.bytes} bytes, {made.documents} documents; "
        f"{made.digested} read now, {made.reused} known"
    )


def init(
    directory: Annotated[
        str, typer.Argument(help="Directory of outputs of searches, or s3://BUCKET/PREFIX/.")
    ],
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="Study file to write.")
    ] = None,
    force: Force = False,
    quarantine: Quarantine = False,
    form: InputFormat = "",
    columns: Columns = "",
) -> None:
    """Write a study for your own outputs of searches: which store should hold them?

    Examines the outputs for about ten seconds: how many there are, how large, and which are not
    complete. The study compares the stores that this machine can run with the files themselves: it
    loads all documents, reads them by id, and asks a biologist's questions. `init` prints what it
    chose (stores, a sample of files, the questions) and how long the run will take. Read the study,
    change it, and run it.

    Example: `storewise init /data/ssearch -o mine.yaml`, then `storewise run mine.yaml`
    """
    from rich.filesize import decimal

    from storewise.cli.cost import estimated
    from storewise.estimate.render import time_text
    from storewise.run.doctor import examine
    from storewise.ssearch.inputs.survey import survey
    from storewise.study.load import load_study
    from storewise.study.template import (
        SAMPLE_FILES,
        check_outputs,
        first_stores,
        path_of,
        questions_of,
        write_study,
    )
    from storewise.workloads.alignments.queries import QUESTIONS

    path = path_of(directory, output, force=force)
    asked_format = input_format(form, columns)
    check_outputs(directory, asked_format)
    engines = [one.name for one in examine(first_stores()) if one.runs]
    with shown("looking at files") as update:
        found = survey(directory, update, input_format=asked_format)
    part = "" if found.read == found.files else f" (of {found.read} files that were read)"
    say(
        f"{directory}: {found.files} files, {decimal(found.bytes)}; {found.documents:,} documents"
        f"{part}: one for each search, three for each alignment"
    )
    if len(found.formats) > 1:
        some = ", ".join(f"{name} ({path})" for name, path in found.formats.items())
        raise StorewiseError(
            f"{directory}: files of several formats: {some}; a study has one: name the files of one"
        )
    for reason in found.incomplete[:MOST_NAMED]:
        say(f"not complete: {reason}")
    if found.incomplete and not quarantine:
        raise StorewiseError(
            f"{len(found.incomplete)} of {found.files} outputs are not complete or cannot be read; "
            f"no study was written {QUARANTINE_HINT}"
        )
    if not found.documents and not found.looked:
        raise StorewiseError(
            f"{directory}: {found.files} files with no search result; no study was written"
        )
    if found.incomplete:
        say(f"the run goes on without these {len(found.incomplete)}, and its report names them")
    sample = found.files > SAMPLE_FILES
    if sample:
        say(f"a sample of {SAMPLE_FILES} files for a first look: take out `sample` for all of them")
    asked = questions_of(genes=found.genes, scores=found.scores)
    if left := [question for question in QUESTIONS if question not in asked]:
        fields = {"no gene": found.genes, "no e-value": found.scores}
        lacking = " and ".join(field for field, there in fields.items() if not there)
        say(f"not asked, because most hits have {lacking}: {', '.join(left)}")
    say(f"stores that run here: {', '.join(engines)}")
    write_study(
        directory,
        path,
        engines=engines,
        genes=found.genes,
        scores=found.scores,
        sample=sample,
        quarantine=quarantine,
        input_format=asked_format,
    )
    plan = load_study(str(path))
    trials = plan.trials()
    try_out = not is_remote(directory)
    expected = estimated(plan, trials, {}, RESULTS / plan.name, here=True, try_out=try_out)
    say(
        f"wrote {path}: {len(trials)} trials, which take about {time_text(expected.seconds)} on "
        "this machine"
    )
    say(f"look at it, then: storewise run {quote(str(path))}")
