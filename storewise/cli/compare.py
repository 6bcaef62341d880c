"""``storewise compare``: old and new, as two levels of one study or as two studies."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from storewise.cli.console import RESULTS, Format, Results, print_json, results_of, say
from storewise.errors import ResultError


def compare(
    old: Annotated[
        str, typer.Argument(help="A study: its name below results/, a directory, or its file.")
    ],
    new: Annotated[
        str | None, typer.Argument(help="The one that is set against it; not with --by.")
    ] = None,
    by: Annotated[
        str | None,
        typer.Option(
            metavar="FACTOR=OLD:NEW",
            help="Compare two levels of a factor of one study, which were in the same rounds.",
        ),
    ] = None,
    interleave: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="With --by: write the study that measures both levels in the same rounds.",
        ),
    ] = None,
    unchanged: Annotated[
        list[str] | None,
        typer.Option(help="Engines that are the same in both studies: controls."),
    ] = None,
    measure: Annotated[
        list[str] | None,
        typer.Option(help="Only these, such as operations_per_s or p99."),
    ] = None,
    phase: Annotated[list[str] | None, typer.Option(help="Only these phases.")] = None,
    fail_if_slower: Annotated[
        str | None,
        typer.Option(
            metavar="10%",
            help="Exit with status 1 where a rate of new is shown to be lower, or a time longer, "
            "by more than this.",
        ),
    ] = None,
    strict: Annotated[
        bool,
        typer.Option(
            "--strict",
            help="With --fail-if-slower: exit with 1 also where it cannot be told.",
        ),
    ] = False,
    format_: Format = "text",
    results: Results = RESULTS,
) -> None:
    """Set new against old: two levels of a factor of one study, or two studies.

    A difference is told where both were measured in the same rounds: `--by` with a study that
    `--interleave` wrote. Two studies ran on different days: their ratios are shown, but without
    `--unchanged` no difference is told, because the machine may be the reason. Exit status 0; 1
    where `--fail-if-slower` finds something; 2 for what cannot be compared.

    Example: `storewise compare demo --by sqlite.cache_mib=2:64 --interleave cache.yaml`, then
    `storewise run cache.yaml` and `storewise compare cache --by sqlite.cache_mib=2:64`
    """
    from rich.console import Console

    from storewise.compare.compare import Selection, compare_levels, compare_studies
    from storewise.compare.gate import gate as gate_of
    from storewise.compare.gate import parse_limit
    from storewise.compare.render import as_json, gate_lines, print_text, varying

    factor, levels = _by(by) if by is not None else ("", ())
    if (by is None) == (new is None):
        raise ResultError("name two studies, or one with --by FACTOR=OLD:NEW")
    if interleave is not None:
        _interleave(old, factor, levels, interleave)
        return
    if strict and fail_if_slower is None:
        raise ResultError("--strict is for --fail-if-slower PERCENT, which is not given")
    limit = parse_limit(fail_if_slower) if fail_if_slower is not None else None
    selection = Selection(_names(phase), _names(measure), _names(unchanged))
    before = _tables(results_of(old, results))
    if new is None:
        comparison = compare_levels(before, factor, levels, selection)
    else:
        comparison = compare_studies(before, _tables(results_of(new, results)), selection)
    gate = gate_of(comparison, limit) if limit is not None else None
    if format_ == "json":
        print_json(as_json(comparison, gate))
        for line in gate_lines(gate, varying(comparison)) if gate is not None else ():
            say(line)
    else:
        print_text(comparison, gate, Console(highlight=False))
    if gate is not None and gate.fails(strict=strict):
        raise typer.Exit(1)


def _interleave(study: str, factor: str, levels: Sequence[str], out: Path) -> None:
    from storewise.compare.interleave import write_interleaved
    from storewise.run.runner import workflow_home

    if not factor:
        raise ResultError("--interleave is for one study with --by FACTOR=OLD:NEW")
    plan = write_interleaved(study, factor, levels, out, workflow_home())
    say(f"wrote {out}: {len(plan.trials())} trials in {plan.repeats} rounds; `storewise run {out}`")


def _by(text: str) -> tuple[str, tuple[str, str]]:
    """Factor and both levels of FACTOR=OLD:NEW."""
    factor, equals, levels = text.partition("=")
    old, colon, new = levels.partition(":")
    if not (factor and equals and colon and old and new) or ":" in new or old == new:
        raise ResultError(f"--by {text!r}: expected FACTOR=OLD:NEW, such as engine=sqlite:duckdb")
    return factor.strip(), (old.strip(), new.strip())


def _names(options: Sequence[str] | None) -> tuple[str, ...]:
    names = [name.strip() for option in options or () for name in option.split(",")]
    return tuple(name for name in names if name)


def _tables(directory: Path) -> Any:
    from storewise.analysis.pipeline.build import measured_tables
    from storewise.analysis.pipeline.load import load_results

    return measured_tables(load_results(directory))
