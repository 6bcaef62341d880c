"""``storewise run``: a study from its file to its report."""

from __future__ import annotations

from typing import Annotated

import typer

from storewise.cli.console import Scale, Study, say


def run(
    context: typer.Context,
    study: Study,
    profile: Annotated[
        str | None,
        typer.Option("--profile", help="Name under profiles/, or a path; default: this machine."),
    ] = None,
    scale: Scale = None,
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
