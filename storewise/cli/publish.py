"""``storewise publish`` and ``storewise pull``: a study's results to S3 and back."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from shlex import quote
from typing import Annotated

import typer

from storewise.cli.console import RESULTS, DryRun, Force, Results, Scale, has_results, say
from storewise.cli.progress import shown
from storewise.errors import ResultError, StorewiseError, translate_errors
from storewise.layout import CONFIG, STUDY, TRIALS
from storewise.s3.uri import is_remote, parse
from storewise.study.publication import Publish, as_publish


def publish(
    what: Annotated[
        str | None,
        typer.Argument(
            metavar="STUDY|RESULTS",
            help="A study, or a directory of results; default: the only one below results/.",
        ),
    ] = None,
    to: Annotated[
        str | None,
        typer.Argument(metavar="s3://BUCKET/PREFIX", help="Where to; default: the study says."),
    ] = None,
    name: Annotated[
        str | None, typer.Option(help="Your own, at the end of the folder's name.")
    ] = None,
    tag: Annotated[
        list[str] | None,
        typer.Option(metavar="KEY=VALUE", help="On every object, beside the study's."),
    ] = None,
    scale: Scale = None,
    dry_run: DryRun = False,
    results: Results = RESULTS,
) -> None:
    """Copy a study's results, logs, report and config to S3.

    They go into a folder that is named by the time of the run, the study and your name for it; the
    folder is printed. Only new and changed files are sent, also after an interruption.
    `MANIFEST.json` comes last. Each object has tags and a SHA-256 that S3 checks. Endpoint, region
    and credentials are those of every AWS tool.

    Example: `storewise publish demo s3://my-bucket/studies --name first`
    """
    if is_remote(what):
        what, to = to, what
    directory, of_study, written = _source(what, scale, results)
    settings = _settings(of_study, to, name, tag or ())
    from storewise.publish.push import carry_out, plan_of, remember, summary
    from storewise.publish.results import OLD_REPORT, config_aside, report_is_old, write_config

    _refuse_live(directory, "publish it when it has ended")
    with translate_errors(kind=ResultError):
        if report_is_old(directory):
            say(f"{directory}: {OLD_REPORT}")
    if dry_run:
        with (
            translate_errors(kind=ResultError),
            config_aside(directory, written) as config,
            shown("reading") as tell,
        ):
            todo = plan_of(directory, settings, tell, config)
        prefix = len(todo.folder.key)
        for file in todo.sending:
            typer.echo(f"{file.place.key[prefix:]}\t{file.digest.size}")
        say(f"{todo.folder}: {len(todo.sending)} of {len(todo.manifest.files)} files would go up")
        return
    with translate_errors(kind=ResultError), shown("reading") as tell:
        write_config(directory, written)
        todo = plan_of(directory, settings, tell)
    with shown("uploading", size=True) as tell:
        carry_out(todo, tell)
    say(summary(todo))
    typer.echo(str(todo.folder))
    # By what is remembered Snakemake sees that the rule `publish` of a study has run.
    if of_study is None or (of_study.to, of_study.name) == (settings.to, settings.name):
        with translate_errors(kind=ResultError):
            remember(directory, todo)


def pull(
    folder: Annotated[
        str, typer.Argument(metavar="s3://BUCKET/PREFIX/FOLDER", help="As `publish` printed it.")
    ],
    directory: Annotated[
        Path,
        typer.Argument(
            metavar="DIR", help="A checkout of Storewise; results go to DIR/results/STUDY."
        ),
    ] = Path(),
    force: Force = False,
) -> None:
    """Copy published results back from S3, to analyse them anywhere.

    Each file is checked against the manifest. After an interruption the same command goes on. A
    file that is there and differs is replaced only with `--force`.

    Example: `storewise pull s3://my-bucket/studies/20261122T081721Z-demo-first`
    """
    from rich.filesize import decimal

    from storewise.publish.pull import fetch, missing, named, publication
    from storewise.publish.results import foreign_trials, forget_run

    place = parse(folder).folder()
    published = publication(place)
    target = directory / "results" / published.study
    _refuse_live(target, "pull into another directory")
    with translate_errors(kind=ResultError), shown("checking") as tell:
        wanted, differing = missing(published, target, tell)
    foreign = foreign_trials(target, [entry.path for entry in published.files])
    if differing and not force:
        raise ResultError(
            f"{len(differing)} files are there and differ from those of {place}: "
            f"{named(differing)}; pull into another directory, or replace them with --force"
        )
    if foreign and not force:
        raise ResultError(
            f"{target} has trials that are not of {place}: {named(foreign)}; both would be "
            "analysed as one study: pull into another directory, or mix them with --force"
        )
    with translate_errors(kind=ResultError), shown("fetching", size=True) as tell:
        fetch(place, wanted, target, tell)
        if any(path.is_relative_to(target / TRIALS) for path in differing):
            forget_run(target, published.run)
    size = decimal(sum(entry.bytes for entry in wanted))
    say(
        f"{target}: {len(published.files)} files, {len(wanted)} of them fetched now ({size}), all "
        "with the SHA-256 that was published"
    )
    if foreign:
        say(f"trials that are not of the publication are analysed too: {named(foreign)}")
    study = Path("results") / published.study / CONFIG / f"{published.study}.yaml"
    say(
        f"analyse them in {directory.resolve()}: snakemake analysis --config "
        f"study={quote(str(study))}"
    )
    typer.echo(str(target))


def _source(
    what: str | None, scale: str | None, results: Path
) -> tuple[Path, Publish | None, list[Path]]:
    """Results, what the study says of publishing, and the study's files where they are known."""
    from storewise.publish.results import stored_study, study_files
    from storewise.run.runner import workflow_home

    if what is None:
        known = sorted(path.parent for path in results.glob(f"*/{STUDY}"))
        if len(known) != 1:
            names = ", ".join(path.name for path in known) or "none"
            raise ResultError(f"name a study: those with results below {results} are {names}")
        what = str(known[0])
    path = Path(what)
    if has_results(path):
        stored = as_publish(stored_study(path).get("publish"))
        return path, Publish.model_validate(stored) if stored else None, []
    from storewise.study.load import find_study, load_study

    home = workflow_home()
    study = load_study(what, scale=scale, root=home, many=True)
    directory = results / study.name
    if not directory.is_dir():
        raise ResultError(f"study {study.name} has no results: there is no {directory}")
    return directory, study.publish, study_files(find_study(what, home), home)


def _settings(
    of_study: Publish | None, to: str | None, name: str | None, tags: Sequence[str]
) -> Publish:
    """The study's settings with those of the command line on top."""
    from pydantic import ValidationError

    data = of_study.model_dump() if of_study is not None else {}
    if to is not None:
        data["to"] = to
    if "to" not in data:
        raise StorewiseError(
            "where to? name s3://BUCKET/PREFIX, or give the study the key `publish`"
        )
    if name is not None:
        data["name"] = name
    for text in tags:
        key, equals, value = text.partition("=")
        if not equals:
            raise StorewiseError(f"--tag {text!r}: expected KEY=VALUE")
        data.setdefault("tags", {})[key] = value
    try:
        return Publish.model_validate(data)
    except ValidationError as error:
        raise StorewiseError(error.errors()[0]["msg"].removeprefix("Value error, ")) from error


def _refuse_live(directory: Path, advice: str) -> None:
    """A run that is measuring, on whatever host, changes its results meanwhile."""
    from storewise.session.coordination.lease import live_leases
    from storewise.session.coordination.run_record import read_record

    live = [lease.name for lease in live_leases(directory, say)]
    record = read_record(directory)
    if record is not None and record.ended is None and record.process.alive():
        live.append(record.run)
    if live:
        raise ResultError(f"{directory}: run {live[0]} is measuring it; {advice}")
