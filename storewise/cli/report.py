"""``storewise report``: the page again from stored results, and as one file to mail."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from storewise.cli.console import RESULTS, Measured, Results, results_of, say
from storewise.layout import study_name


def report(
    study: Measured,
    bundle: Annotated[
        bool,
        typer.Option("--bundle", help="Also write STUDY-report.zip: the page with all its links."),
    ] = False,
    results: Results = RESULTS,
) -> None:
    """Make a study's page again from its stored results; nothing is measured.

    Writes `report.html`, `summary.csv`, `analysis/` and `figures/` in the directory of results.
    The links of the page lead to these files and to `trials/`. To mail the page, use `--bundle`:
    the zip file has the page and everything that it links to.

    Example: `storewise report demo`, or `storewise report demo --bundle`
    """
    from rich.filesize import decimal

    from storewise.cli.progress import working
    from storewise.publish.bundle import write_bundle
    from storewise.report.page.page import make_report

    directory = results_of(study, results)
    with working(f"analysing {directory} and drawing its figures"):
        made = make_report(directory)
    typer.echo(made.finding)
    typer.echo(f"Page: {made.path}")
    if bundle:
        file = Path(f"{study_name(directory)}-report.zip")
        files = write_bundle(directory, file)
        typer.echo(f"Bundle: {file} ({files} files, {decimal(file.stat().st_size)})")
    elif made.failed:
        say(f"{made.failed} trials failed; the page names them")
