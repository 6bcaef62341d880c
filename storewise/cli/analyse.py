"""``storewise analyse``: analysis of variance of a study's results or of a plain CSV table."""

from __future__ import annotations

import csv
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from storewise.cli.console import RESULTS, Format, Results, print_json, results_of, say
from storewise.cli.progress import shown
from storewise.errors import AnalysisError
from storewise.layout import ANALYSIS

#: Groups that a reason names.
SHOWN = 3


def analyse(
    study: Annotated[
        str | None,
        typer.Argument(
            help="A study, its name below results/, or a directory of results; a CSV file is the "
            "same as --table."
        ),
    ] = None,
    table: Annotated[Path | None, typer.Option(help="A plain CSV table.")] = None,
    response: Annotated[
        str | None,
        typer.Option(
            help="What is explained: a column; of a study a measure (`operations_per_s`) or a "
            "percentile of the service times (`p99`).",
        ),
    ] = None,
    factors: Annotated[
        str | None,
        typer.Option(metavar="A,B", help="What explains it: columns, or factors."),
    ] = None,
    numeric: Annotated[
        str | None,
        typer.Option(metavar="B", help="Factors that are numbers: a straight line."),
    ] = None,
    by: Annotated[
        str | None,
        typer.Option(metavar="C,D", help="A table for each level of these columns."),
    ] = None,
    log_response: Annotated[
        bool | None,
        typer.Option(
            "--log-response/--no-log-response",
            help="Take logarithms of the response; by default of a study's rates and times only.",
        ),
    ] = None,
    repeats: Annotated[
        int,
        typer.Option(min=1, help="Rows are means of so many equal repeats."),
    ] = 1,
    type_: Annotated[int, typer.Option("--type", min=1, max=3, help="Of the sums of squares.")] = 2,
    interactions: Annotated[
        Literal["auto", "all", "2", "none"],
        typer.Option(
            help="auto: all that the rows can carry, the others are named; all, or 2 (pairs): "
            "these, or an error; none.",
        ),
    ] = "auto",
    robust: Annotated[
        bool,
        typer.Option("--robust", help="F and p from covariance HC3, for unequal variances."),
    ] = False,
    tukey: Annotated[
        str | None,
        typer.Option(metavar="A", help="Tukey's HSD of all pairs of its levels, too."),
    ] = None,
    phase: Annotated[str | None, typer.Option(help="Of a study, this phase only.")] = None,
    format_: Format = "text",
    results: Results = RESULTS,
) -> None:
    """Which factors explain a rate or a time, and how much of it? (Analysis of variance.)

    Of a study all tables of its analysis are written anew (`results/STUDY/analysis/`), and its
    finding is printed first.

    Sums of squares are of type 2 unless `--type` says otherwise; factors that are no numbers are
    coded sum-to-zero. Per term: degrees of freedom, sum of squares, F, p, partial eta squared, and
    omega squared (a share of all variance, below 0 where F is below 1). With `--format json` the
    output is one list of objects; with `--tukey`, too, an object of two lists, `variance` and
    `tukey`. Warnings go to standard error.

    Example: `storewise analyse demo`, or
    `storewise analyse --table t.csv --response runtime_ms --factors engine,threads`
    """
    if study is None and table is None:
        raise AnalysisError("what is to be analysed? Give a study, or --table FILE")
    if study is not None and table is not None:
        raise AnalysisError("give a study or --table FILE, not both")
    source = table or Path(study or "")
    if study is not None and (not source.is_file() or source.suffix in {".yaml", ".yml"}):
        source = results_of(study, results)
    from storewise.analysis.stats.anova import Specification

    order, strict = {"auto": (None, False), "all": (None, True), "none": (1, True)}.get(
        interactions, (2, True)
    )
    finding = ""
    spec = Specification(
        response or "",
        tuple(_names(factors)),
        tuple(_names(numeric)),
        log_response,
        repeats,
        type_,
        order,
        strict,
        robust,
        tukey,
    )
    if table is not None or source.is_file():
        from storewise.analysis.stats.anova_groups import groups
        from storewise.analysis.stats.csv_table import observations

        if not (spec.response and spec.factors):
            raise AnalysisError(f"{source}: a table needs --response COLUMN and --factors A,B")
        if phase is not None:
            raise AnalysisError("--phase is for a study's results; of a table give --by COLUMN")
        frame = observations(
            source, spec.response, spec.factors, numeric=spec.numeric, by=_names(by)
        )
        try:
            analyses = groups(frame, _names(by), replace(spec, log=bool(log_response)))
        except AnalysisError as error:
            raise AnalysisError(f"{source}: {error}") from error
    else:
        from storewise.analysis.judge.anova import study_analyses
        from storewise.analysis.pipeline.load import load_results
        from storewise.analysis.pipeline.output import write_study

        if repeats > 1:
            raise AnalysisError("--repeats is for tables of means; a study's repeats are all there")
        with shown("reading trials") as update:
            stored = load_results(source, progress=update)
        tables, verdict = write_study(stored, source / ANALYSIS)
        finding = verdict.finding
        analyses = study_analyses(tables, spec, by=_names(by), phase=phase)
    _say_not_possible(analyses.not_possible)
    if not analyses.groups and (response is not None or factors is not None):
        raise AnalysisError(f"{source}: no analysis of variance is possible of what was asked")
    _print(analyses.groups, finding, json=format_ == "json", pairs=tukey is not None)


def _say_not_possible(reasons: Sequence[tuple[str, str]]) -> None:
    """Each reason once, with the first few of those that it holds for."""
    names: dict[str, list[str]] = {}
    for name, reason in reasons:
        names.setdefault(reason, []).append(name)
    for reason, of in names.items():
        more = f"; and {len(of) - SHOWN} more" if len(of) > SHOWN else ""
        say(f"no analysis of variance of {'; '.join(of[:SHOWN])}{more}: {reason}")


def _print(groups: Sequence[Any], finding: str, *, json: bool, pairs: bool) -> None:
    from storewise.analysis.stats.anova_groups import group_warnings, json_rows, text_lines

    for warning in group_warnings(groups):
        say(f"warning: {warning}")
    if json:
        rows = json_rows(groups)
        print_json({"variance": rows, "tukey": json_rows(groups, pairs=True)} if pairs else rows)
        return
    if finding:
        typer.echo(f"{finding[:1].upper()}{finding[1:]}\n")
    for line in text_lines(groups):
        typer.echo(line)


def _names(option: str | None) -> list[str]:
    """The names of a list with commas; one that has a comma itself stands in double quotes."""
    if option is None:
        return []
    cells = next(csv.reader([option], skipinitialspace=True), [])
    names = [cell.strip() for cell in cells]
    if not all(names):
        raise AnalysisError(f"{option!r}: a name in this list is empty")
    return names
