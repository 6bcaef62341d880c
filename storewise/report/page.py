"""From a study's directory to ``report.html``, ``summary.csv``, tables and figures."""

from __future__ import annotations

import base64
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined, select_autoescape

from storewise.analysis.load import load_results
from storewise.analysis.output import summary_table, write_csv, write_tables, write_text
from storewise.analysis.tables import Tables, build_tables
from storewise.analysis.verdict import Verdict, verdict
from storewise.errors import ResultError
from storewise.figures.captions import Made, make_figures, stored_figures
from storewise.report import cells, content, owners, plans, published, questions, servers, steps

TEMPLATE = "report.html"
#: More rows than this are folded away until asked for.
FOLD = 40


@dataclass(frozen=True, slots=True)
class Report:
    """A report as written: where it is and what it says in one line."""

    path: Path
    finding: str
    warnings: int
    failed: int


def make_report(study_dir: Path) -> Report:
    """Everything from stored results: ``analysis/``, ``figures/``, ``summary.csv`` and
    ``report.html`` in the study's directory.

    Raises ResultError where there are no results or a file cannot be written; a figure that
    cannot be drawn only leaves its reason on the page.
    """
    tables = build_tables(load_results(study_dir))
    found = write_tables(tables, study_dir / "analysis")
    made = make_figures(tables, study_dir / "figures")
    return _write(tables, found, made, study_dir / "report.html")


def render(study_dir: Path, out: Path) -> Report:
    """Only the page, and ``summary.csv`` beside it.

    Figures of the study's directory that show these very tables are taken from there, others are
    drawn anew, for the page only. Errors as in `make_report`.
    """
    tables = build_tables(load_results(study_dir))
    made = stored_figures(tables, study_dir / "figures")
    return _write(tables, verdict(tables), made or make_figures(tables), out)


def _write(tables: Tables, found: Verdict, made: list[Made], out: Path) -> Report:
    text = html(tables, found, made)
    try:
        out.parent.mkdir(parents=True, exist_ok=True)
        write_csv(summary_table(tables), out.with_name("summary.csv"))
        write_text(out, text)
    except OSError as error:
        raise ResultError(
            f"{out}: cannot be written: {error.strerror or error}; check the rights of its "
            "directory and the free space"
        ) from error
    return Report(out, found.finding, len(tables.warnings), len(tables.results.failed))


def html(tables: Tables, found: Verdict, made: list[Made]) -> str:
    """The page as one self-contained text."""
    environment = Environment(
        loader=PackageLoader("storewise.report"),
        # Whatever the inputs hold is text on the page, never markup.
        autoescape=select_autoescape(default=True, default_for_string=True),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    study = tables.results.study
    name = str(study.get("name", tables.results.directory.name))
    page: str = environment.get_template(TEMPLATE).render(
        name=name,
        title=str(study.get("title") or name),
        verdict=found,
        choices=questions.verdict_table(found, tables),
        figures=[_figure(one) for one in made if _wanted(one, tables)],
        tables=[
            cells.rate_table(tables),
            cells.latency_table(tables),
            *questions.tables_of(tables),
            *plans.tables_of_plans(tables),
            cells.storage_table(tables),
            cells.scaling_table(tables),
            *steps.tables_of_steps(tables),
            cells.load_table(tables),
            *servers.load_tables(tables),
            *owners.tables_of_owners(tables),
            cells.verification_table(tables),
        ],
        canary=cells.canary_table(tables),
        fold=FOLD,
        conditions=content.conditions(tables),
        layouts=content.layouts(tables),
        sessions=servers.section(tables),
        published=published.section(tables),
        warnings=tables.warnings,
        quarantined=tables.results.quarantined,
        failed=tables.results.failed,
        files=content.files(tables),
        trials=len(tables.trials),
    )
    return page


def _wanted(made: Made, tables: Tables) -> bool:
    """Whether a study is of the kind that a figure is about."""
    if made.spec.servers and tables.nodes.empty:
        return False
    if made.spec.plans and tables.plans.empty:
        return False
    if made.spec.steps and tables.steps.empty:
        return False
    if made.spec.slowed and tables.slowdown.empty:
        return False
    return bool(tables.results.references) or not made.spec.references


def _figure(made: Made) -> dict[str, Any]:
    image = None
    if made.svg is not None:
        image = "data:image/svg+xml;base64," + base64.b64encode(made.svg).decode("ascii")
    return {
        "id": f"figure-{made.spec.name}",
        "heading": made.spec.heading,
        "caption": made.spec.caption,
        "image": image,
        "why": made.why,
    }
