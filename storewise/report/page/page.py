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
from markupsafe import Markup

from storewise.analysis.model.tables import Tables
from storewise.analysis.pipeline.build import build_tables
from storewise.analysis.pipeline.load import load_results
from storewise.analysis.pipeline.output import write_csv, write_tables
from storewise.analysis.verdict.decision import Verdict, verdict
from storewise.atomic import write_aside
from storewise.errors import ResultError
from storewise.figures.captions import Made, make_figures, stored_figures, warnings_of
from storewise.figures.style import DARK, engine_colour
from storewise.figures.verdict_picture import write_picture
from storewise.layout import ANALYSIS, FIGURES, REPORT, SUMMARY
from storewise.report.data.embed import packed, plotting_library, script_json
from storewise.report.data.evidence import Evidence, with_ids
from storewise.report.data.filters import Facets
from storewise.report.graphs import Graphs, summary, themed
from storewise.report.page import provenance
from storewise.report.page.glance import Glance, glance, weights_payload
from storewise.report.page.table_view import TableViews
from storewise.report.page.timelines import span, timelines
from storewise.report.tables import hosts, references, servers, stores
from storewise.report.tables.cells import Cell, Table, number_cell, text_cell
from storewise.report.tables.judged import judged_tables
from storewise.report.tables.per_node import node_tables
from storewise.report.tables.questions import plan_tables, question_tables
from storewise.report.tables.steps import step_tables
from storewise.report.tables.verdict import verdict_tables

TEMPLATE = "report.html"
#: More rows than this are folded away until asked for.
FOLD = 25
#: The page's script, in the order in which its parts build on each other.
SCRIPTS = (
    *("core.js", "source.js", "tables.js", "choose.js", "scores.js", "weights.js"),
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
    "host_cpu": "load",
    "busy_nodes": "node-load",
    "latency_by_node": "per-node",
    "slowed_nodes": "slowdown",
    "published": "reference-shapes",
}
#: Tables that points of figures come from.
_DRAWN = (*("summary", "scaling", "plan_summary", "reference_curves", "costs"),)
#: Files that were left out whose names stand in the page's text.
_LEFT_OUT = 1000


@dataclass(frozen=True, slots=True)
class Report:
    """A report as written: where it is, its answer in two lines, and what it says in one."""

    path: Path
    answer: Sequence[str]
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
    decision = write_tables(tables, study_dir / ANALYSIS)
    made = make_figures(tables, study_dir / FIGURES)
    write_picture(tables, decision, study_dir / FIGURES)
    return _write(tables, decision, made, study_dir / REPORT)


def render(study_dir: Path, out: Path) -> Report:
    """Only the page, and ``summary.csv`` beside it.

    Figures of the study's directory that show these very tables are taken from there, others are
    drawn anew, for the page only. Errors as in `make_report`.
    """
    tables = build_tables(load_results(study_dir))
    made = stored_figures(tables, study_dir / FIGURES)
    return _write(tables, verdict(tables), made or make_figures(tables), out)


def _write(tables: Tables, decision: Verdict, made: list[Made], out: Path) -> Report:
    text = html(tables, decision, made, _base(tables.results.directory, out.parent))
    try:
        out.parent.mkdir(parents=True, exist_ok=True)
        summary = with_ids(tables.summary, tables.results.factors)
        write_csv(summary, out.with_name(SUMMARY))
        write_aside(out, text)
    except OSError as error:
        raise ResultError(
            f"{out}: cannot be written: {error.strerror or error}; check the rights of its "
            "directory and the free space"
        ) from error
    return Report(
        out,
        decision.answer.lines,
        decision.finding,
        len(tables.warnings),
        len(tables.results.failed),
    )


def _base(study: Path, page: Path) -> str:
    """The way from the page's directory to the study's, as a link has it."""
    way = Path(os.path.relpath(study.resolve(), page.resolve())).as_posix()
    return "" if way == "." else f"{quote(way)}/"


def html(tables: Tables, decision: Verdict, made: list[Made], base: str = "") -> str:
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
    environment.filters["ticks"] = ticks
    study = tables.results.study
    name = str(study.get("name", tables.results.directory.name))
    evidence = Evidence(tables)
    facets = Facets(tables, evidence)
    graphs = Graphs(evidence, facets)
    views = TableViews(facets)
    trials, series = timelines(tables)
    sessions, published = servers.section(tables), references.section(tables)
    parts = {
        "choices": views.all_of(verdict_tables(decision)),
        "tables": views.all_of(_measured(tables)),
        "judged": [(heading, views.one(table)) for heading, table in judged_tables(tables)],
        "session_tables": views.all_of(sessions.tables if sessions else ()),
        "published_tables": views.all_of(published.tables if published else ()),
        "canary": views.one(hosts.canary_table(tables)),
        # What is left out is to be found in the page by any means, without a script too.
        "quarantine": views.one(_quarantine(tables), _LEFT_OUT),
    }
    data = {
        "base": base,
        "facets": facets.payload(),
        "dark": DARK,
        "tables": views.data,
        "trials": trials,
        "weights": weights_payload(decision),
    }
    screen = glance(tables, decision, warnings_of(made))
    page: str = environment.get_template(TEMPLATE).render(
        **parts,
        base=base,
        name=name,
        title=screen.chart.title,
        verdict=decision,
        glance=screen,
        short={c.name: c.short for c in decision.criteria},
        colour=engine_colour,
        summary_text=summary_text(screen),
        figures=[_figure(one, tables, graphs) for one in made if one.svg is not None],
        timelines=[packed(one) for one in series],
        span=span(tables),
        fold=FOLD,
        provenance=provenance.provenance(tables),
        layouts=provenance.layouts(tables),
        sessions=sessions,
        published=published,
        quarantined=tables.results.quarantined,
        failed=tables.results.failed,
        attempts=tables.results.attempts,
        files=provenance.files(tables),
        trials=len(tables.trials),
        data=script_json(data),
        evidence=packed(evidence.payload([*views.sources, *_DRAWN])),
        library=plotting_library(),
        scripts=SCRIPTS,
    )
    return page


def ticks(text: str) -> Markup:
    """What stands between backticks as code."""
    parts = text.split("`")
    return Markup("").join(
        Markup("<code>{}</code>").format(part) if place % 2 else part
        for place, part in enumerate(parts)
    )


def summary_text(screen: Glance) -> str:
    """The first screen as text, for a mail or a ticket."""
    uses = [f"- {one.use.words}: {one.words}" for one in screen.answer.uses]
    return "\n".join(
        [
            f"{screen.chart.title} ({', '.join(screen.chart.facts)})",
            *screen.answer.lines,
            *(["If you mostly ...", *uses] if uses else []),
        ]
    )


def _measured(tables: Tables) -> list[Table]:
    node_load = hosts.node_load_table(tables)
    return [
        stores.rate_table(tables),
        stores.latency_table(tables),
        *question_tables(tables),
        *plan_tables(tables),
        stores.storage_table(tables),
        stores.scaling_table(tables),
        *step_tables(tables),
        hosts.client_load_table(tables),
        *([node_load] if node_load.rows else []),
        *node_tables(tables),
        stores.verification_table(tables),
    ]


def _quarantine(tables: Tables) -> Table:
    rows = [
        [text_cell(bad.path), _place(bad.line), _place(bad.offset), text_cell(bad.reason)]
        for bad in tables.results.quarantined
    ]
    return Table("quarantine", "Files that were left out", ["file", "line", "byte", "reason"], rows)


def _place(number: str) -> Cell:
    """A line or byte of a file; none where it is the file as a whole that is bad."""
    if number.isdigit():
        return number_cell(float(number), lambda _: number)
    return text_cell(number or None)


def _figure(made: Made, tables: Tables, graphs: Graphs) -> dict[str, Any]:
    image = "data:image/svg+xml;base64," + base64.b64encode(themed(made.svg or b"")).decode("ascii")
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
    }
