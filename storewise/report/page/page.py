"""From a study's directory to ``report.html``, ``summary.csv``, tables and figures."""

from __future__ import annotations

import base64
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote

from jinja2 import Environment, PackageLoader, StrictUndefined, select_autoescape

from storewise.analysis.model.tables import Tables
from storewise.analysis.pipeline.build import build_tables
from storewise.analysis.pipeline.load import load_results
from storewise.analysis.pipeline.output import summary_table, write_csv, write_tables
from storewise.analysis.verdict.decision import Verdict, verdict
from storewise.atomic import write_aside
from storewise.errors import ResultError
from storewise.figures.captions import Made, make_figures, stored_figures
from storewise.figures.selection import style_of
from storewise.figures.style import DARK
from storewise.report.data.embed import packed, plotting_library, script_json
from storewise.report.data.evidence import Evidence
from storewise.report.data.filters import Facets
from storewise.report.data.headlines import with_ids
from storewise.report.graphs import Graphs, summary
from storewise.report.page import conditions as content
from storewise.report.page.table_view import SHOWN, TableView, view
from storewise.report.page.timelines import span, timelines
from storewise.report.tables import cells, judged, questions, servers, steps
from storewise.report.tables import per_node as owners
from storewise.report.tables import query_plans as plans
from storewise.report.tables import references as published
from storewise.report.tables import verdict as verdictview
from storewise.report.tables.cells import Table

TEMPLATE = "report.html"
#: More rows than this are folded away until asked for.
FOLD = 25
#: The page's script, in the order in which its parts build on each other.
SCRIPTS = (
    *("core.js", "source.js", "tables.js", "choose.js"),
    *("figures.js", "timelines.js", "start.js"),
)
#: Figure -> the table of the page that has its numbers.
_TABLES = {
    "throughput": "rates",
    "nodes": "rates",
    "latency": "latency",
    "scaling": "scaling",
    "clients": "steps",
    "latency_over_throughput": "steps",
    "runtime": "steps",
    "plans": "plans",
    "storage": "storage",
    "costs": "judged-costs",
    "capacity": "judged-capacity_curve",
    "host_cpu": "load",
    "busy_nodes": "node-load",
    "latency_by_node": "per-node",
    "slowed_nodes": "slowdown",
    "published": "reference-values",
}
#: Tables that points of figures come from.
_DRAWN = (
    *("summary", "latency_summary", "scaling", "steps", "storage_summary", "plan_summary"),
    *("reference_curves", "costs", "capacity_curve", "knees"),
)


#: Files that were left out whose names stand in the page's text.
_LEFT_OUT = 1000


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
    text = html(tables, found, made, _base(tables.results.directory, out.parent))
    try:
        out.parent.mkdir(parents=True, exist_ok=True)
        summary = with_ids(summary_table(tables), tables.results.factors)
        write_csv(summary, out.with_name("summary.csv"))
        write_aside(out, text)
    except OSError as error:
        raise ResultError(
            f"{out}: cannot be written: {error.strerror or error}; check the rights of its "
            "directory and the free space"
        ) from error
    return Report(out, found.finding, len(tables.warnings), len(tables.results.failed))


def _base(study: Path, page: Path) -> str:
    """The way from the page's directory to the study's, as a link has it."""
    way = Path(os.path.relpath(study.resolve(), page.resolve())).as_posix()
    return "" if way == "." else f"{quote(way)}/"


def html(tables: Tables, found: Verdict, made: list[Made], base: str = "") -> str:
    """The page as one self-contained text; `base` leads from it to the study's directory and is
    empty or ends with a slash."""
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
    evidence = Evidence(tables)
    facets = Facets(tables, evidence)
    graphs = Graphs(evidence, facets, style_of(tables))
    shown = Shown(facets)
    told, series = timelines(tables)
    sessions, references = servers.section(tables), published.section(tables)
    parts = {
        "choices": shown.all_of(verdictview.verdict_tables(found)),
        "tables": shown.all_of(_measured(tables)),
        "judged": [
            (heading, shown.one(table))
            for heading, table in judged.tables_of_judged(tables, skip=(verdictview.NAME,))
        ],
        "session_tables": shown.all_of(sessions.tables if sessions else ()),
        "published_tables": shown.all_of(references.tables if references else ()),
        "canary": shown.one(cells.canary_table(tables)),
        # What is left out is to be found in the page by any means, without a script too.
        "quarantine": shown.one(_quarantine(tables), _LEFT_OUT),
    }
    data = {
        "base": base,
        "facets": facets.payload(),
        "dark": DARK,
        "tables": shown.data,
        "trials": told,
    }
    page: str = environment.get_template(TEMPLATE).render(
        **parts,
        base=base,
        name=name,
        title=str(study.get("title") or name),
        verdict=found,
        figures=[_figure(one, tables, graphs) for one in made if one.spec.concerns(tables)],
        timelines=[packed(one) for one in series],
        span=span(tables),
        fold=FOLD,
        conditions=content.conditions(tables),
        layouts=content.layouts(tables),
        sessions=sessions,
        published=references,
        warnings=tables.warnings,
        quarantined=tables.results.quarantined,
        failed=tables.results.failed,
        attempts=tables.results.attempts,
        files=content.files(tables),
        trials=len(tables.trials),
        data=script_json(data),
        evidence=packed(evidence.payload([*shown.sources, *_DRAWN])),
        library=plotting_library(),
        scripts=SCRIPTS,
    )
    return page


class Shown:
    """The tables of one page, with what its script needs of them."""

    def __init__(self, facets: Facets) -> None:
        self._facets = facets
        self.data: dict[str, Any] = {}
        self.sources: list[str] = []
        """The CSV files that rows and cells come from."""

    def one(self, table: Table, shown: int = SHOWN) -> TableView:
        found = view(table, self._facets, shown)
        self.data[table.id] = found.data
        self.sources += [m.csv for m in table.marks]
        self.sources += [c.source.split(":")[0] for r in table.rows for c in r if c.source]
        return found

    def all_of(self, tables: Sequence[Table]) -> list[TableView]:
        return [self.one(table) for table in tables]


def _measured(tables: Tables) -> list[Table]:
    return [
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
    ]


def _quarantine(tables: Tables) -> Table:
    rows = [
        [
            cells.text_cell(one.path),
            _place(one.line),
            _place(one.offset),
            cells.text_cell(one.reason),
        ]
        for one in tables.results.quarantined
    ]
    return Table("quarantine", "Files that were left out", ["file", "line", "byte", "reason"], rows)


def _place(text: str) -> cells.Cell:
    """A line or byte of a file; none where it is the file as a whole that is bad."""
    return cells.number_cell(float(text), text) if text.isdigit() else cells.text_cell(text or None)


def _figure(made: Made, tables: Tables, graphs: Graphs) -> dict[str, Any]:
    image, chart = None, None
    if made.svg is not None:
        image = "data:image/svg+xml;base64," + base64.b64encode(made.svg).decode("ascii")
        chart = made.spec.make(tables)
    if chart is not None and chart.still:
        chart = None
    return {
        "name": made.spec.name,
        "graph": script_json(graphs.payload(chart)) if chart is not None else None,
        "summary": summary(chart) if chart is not None else "",
        "table": _TABLES.get(made.spec.name, ""),
        "id": f"figure-{made.spec.name}",
        "heading": made.spec.heading,
        "caption": made.spec.caption,
        "image": image,
        "why": made.why,
    }
