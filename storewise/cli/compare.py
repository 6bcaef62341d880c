"""``storewise compare``: two studies, or two versions of one, side by side."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from storewise.cli.console import RESULTS, Results, print_json, results_of, say
from storewise.errors import ResultError


def compare(
    a: Annotated[str, typer.Argument(help="A study's name below results/, or a directory.")],
    b: Annotated[str, typer.Argument(help="The one that is set against it.")],
    by: Annotated[
        list[str] | None,
        typer.Option(
            "--by",
            metavar="FACTOR=LEVEL_A:LEVEL_B",
            help="Compare two levels of a factor; an empty one for a study without the factor.",
        ),
    ] = None,
    measure: Annotated[
        list[str] | None,
        typer.Option("--measure", help="Only these measures, such as operations_per_s, or p99."),
    ] = None,
    phase: Annotated[list[str] | None, typer.Option("--phase", help="Only these phases.")] = None,
    fail_if_slower: Annotated[
        str | None,
        typer.Option(
            "--fail-if-slower",
            metavar="10%",
            help="Exit with status 1 where a rate of B is shown to be lower, or a time longer, by "
            "more than this.",
        ),
    ] = None,
    strict: Annotated[
        bool,
        typer.Option(
            "--strict",
            help="With --fail-if-slower: exit with 1 also where it is not clear, or B lacks it.",
        ),
    ] = False,
    format_: Annotated[
        Literal["text", "json", "csv"], typer.Option("--format", help="Of the output.")
    ] = "text",
    html: Annotated[
        Path | None,
        typer.Option("--html", help="Also write the comparison as one page, to look at or mail."),
    ] = None,
    results: Results = RESULTS,
) -> None:
    """Set two studies' results side by side.

    Where the machines were not the same, the first line says how fast each was. Then come config,
    versions and hosts, and each rate, time and size of equal settings with the interval of its
    ratio.

    A difference is called faster or slower only where it is clear after a correction for the number
    of comparisons (Holm's method). Exit status 0; 1 where `--fail-if-slower` finds something; 2 for
    studies that cannot be compared.

    Example: `storewise compare before/demo results/demo --fail-if-slower 10%`, or
    `storewise compare demo demo --by engine=sqlite:duckdb`
    """
    from rich.console import Console

    from storewise.compare.compare import By, Selection
    from storewise.compare.compare import compare as compared
    from storewise.compare.gate import gate as gate_of
    from storewise.compare.gate import parse_limit
    from storewise.compare.render import as_csv, as_json, gate_lines, print_text

    if strict and fail_if_slower is None:
        raise ResultError("--strict is for --fail-if-slower PERCENT, which is not given")
    limit = parse_limit(fail_if_slower) if fail_if_slower is not None else None
    levels = tuple(By(*_by(text)) for text in by or ())
    selection = Selection(levels, _names(measure), _names(phase))
    before, after = results_of(a, results), results_of(b, results)
    tables = _tables(before)
    other = tables if after.resolve() == before.resolve() else _tables(after)
    comparison = compared(tables, other, selection)
    gate = gate_of(comparison, limit) if limit is not None else None
    if html is not None:
        from storewise.report.page.comparison import write_comparison

        write_comparison(comparison, gate, html)
        say(f"wrote {html}")
    if format_ == "json":
        print_json(as_json(comparison, gate))
    elif format_ == "csv":
        typer.echo(as_csv(comparison), nl=False)
    else:
        print_text(comparison, gate, Console(highlight=False))
    if gate is None:
        return
    if format_ != "text":
        for line in gate_lines(gate, comparison.factors):
            say(line)
    elif len(gate.unsure) and not gate.fails(strict=strict):
        say(
            f"warning: of {len(gate.unsure)} rates and times it cannot be told whether they are "
            "slower by more than the limit; more repeats would tell (--strict fails)"
        )
    if gate.fails(strict=strict):
        raise typer.Exit(1)


def _by(text: str) -> tuple[str, str, str]:
    """Factor and both levels of FACTOR=LEVEL_A:LEVEL_B."""
    factor, equals, levels = text.partition("=")
    a, colon, b = levels.partition(":")
    if not (factor and equals and colon) or ":" in b or not (a or b):
        raise ResultError(
            f"--by {text!r}: expected FACTOR=LEVEL_A:LEVEL_B, such as engine=sqlite:duckdb"
        )
    return factor.strip(), a.strip(), b.strip()


def _names(options: Sequence[str] | None) -> tuple[str, ...]:
    names = [name.strip() for option in options or () for name in option.split(",")]
    return tuple(name for name in names if name)


def _tables(directory: Path) -> Any:
    from storewise.analysis.pipeline.build import measured_tables
    from storewise.analysis.pipeline.load import load_results

    return measured_tables(load_results(directory))
