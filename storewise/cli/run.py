"""``storewise run``: a study from its file to its report."""

from __future__ import annotations

from typing import Annotated

import typer

from storewise.cli.console import DryRun, Many, Scale, Study, say


def run(
    study: Study,
    arguments: Annotated[
        list[str] | None,
        typer.Argument(metavar="-- ARGUMENT", help="What follows -- goes to it."),
    ] = None,
    profile: Annotated[
        str | None,
        typer.Option(help="Name under profiles/, or a path; default: this machine."),
    ] = None,
    scale: Scale = None,
    cores: Annotated[int | None, typer.Option(min=1, help="For Snakemake.")] = None,
    dry_run: DryRun = False,
    verbose: Annotated[
        bool, typer.Option("--verbose", help="Show Snakemake's log, and keep none.")
    ] = False,
    retry_failed: Annotated[
        bool, typer.Option("--retry-failed", help="Try trials again that were given up.")
    ] = False,
    many: Many = False,
) -> None:
    """Run a study to its report, trying failed trials again as the study says.

    What follows `--` goes to Snakemake, whose log is results/STUDY/logs/run.log. Exit status 0 if
    every trial was measured, 1 if some were given up (the report is there and names them), 2 after
    an error, 3 if the report could not be published.

    Example: `storewise run demo`, or `storewise run mine.yaml --profile slurm`
    """
    from storewise.run.live_view import view_of
    from storewise.run.outcome import outcome
    from storewise.run.profiles import find_profile
    from storewise.run.runner import (
        NOT_PUBLISHED,
        Request,
        plan_study,
        results_of,
        run_study,
        workflow_home,
    )

    if profile is not None:
        find_profile(profile, workflow_home())
    request = Request(study, profile, scale, cores, many, arguments or ())
    with view_of(say, plain=verbose) as view:
        if dry_run:
            raise typer.Exit(plan_study(request, view, verbose=verbose))
        status = run_study(request, view, retry_failed=retry_failed, verbose=verbose)
    if status in {0, 1, NOT_PUBLISHED}:
        plan = request.study()
        for line in outcome(plan, study, results_of(plan), logged=not verbose, failed=status == 1):
            typer.echo(line)
    raise typer.Exit(status)
