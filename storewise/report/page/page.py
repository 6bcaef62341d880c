"""From a study's directory to ``report.html``, ``summary.csv``, tables and figures."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined, select_autoescape
from markupsafe import Markup, escape

from storewise.analysis.common.warnings import grouped_warnings
from storewise.analysis.measure.conditions import conditions
from storewise.analysis.model.tables import Tables
from storewise.analysis.pipeline.load import load_results
from storewise.analysis.pipeline.output import write_csv, write_study
from storewise.analysis.pipeline.parallel import Progress
from storewise.analysis.verdict.answer import Answer
from storewise.analysis.verdict.decision import Verdict
from storewise.analysis.verdict.export import verdict_table
from storewise.atomic import write_aside
from storewise.errors import ResultError
from storewise.figures.drawing import for_page
from storewise.figures.make import Made, make_figures, warnings_of
from storewise.figures.style import page_colour, page_colours
from storewise.figures.texts import texts
from storewise.figures.verdict_chart import KEY, VerdictChart, verdict_chart
from storewise.figures.verdict_picture import write_picture
from storewise.layout import ANALYSIS, FIGURES, REPORT, SUMMARY
from storewise.report.data.embed import packed, plain
from storewise.report.data.evidence import evidence
from storewise.report.page.methods import methods, published
from storewise.report.page.timelines import timelines
from storewise.report.shown import HOSTS, PUBLISHED, TABLES, VERDICT
from storewise.report.tables import Cell, Line, Spec, Table, render

TEMPLATE = "report.html"
#: More rows than this are folded away until asked for.
FOLD = 25
#: The page's script, in the order in which its parts build on each other.
SCRIPTS = (
    *("core.js", "source.js", "tables.js", "scores.js", "weights.js"),
    *("timelines.js", "start.js"),
)
#: Figure -> the table of the page that has its numbers.
_TABLES = {
    "throughput": "rates",
    "latency": "latency",
    "scaling": "rates",
    "latency_over_throughput": "steps",
    "plans": "plans",
    "storage": "storage",
    "costs": "costs",
    "host_cpu": "load",
    "latency_by_node": "per-node",
    "published": "published-table",
}
#: Tables that points of figures come from, beside those of the page's tables.
_DRAWN = ("plans", "reference_curves", "summary")


@dataclass(frozen=True, slots=True)
class Report:
    """A report as written: where it is, its answer in a line, and how many trials failed."""

    path: Path
    finding: str
    failed: int


def make_report(
    study_dir: Path, *, processes: int | None = None, progress: Progress | None = None
) -> Report:
    """Everything from stored results: ``analysis/``, ``figures/``, ``summary.csv`` and
    ``report.html`` in the study's directory; each table and each figure is made once.

    At most `processes` read trials; `progress` as in `load_results`. Raises ResultError where there
    are no results or a file cannot be written; a figure that cannot be drawn only leaves its
    reason on the page.
    """
    results = load_results(study_dir, processes=processes, progress=progress)
    tables, decision = write_study(results, study_dir / ANALYSIS)
    chart = verdict_chart(tables, decision)
    page = study_dir / REPORT
    try:
        made = make_figures(tables, study_dir / FIGURES)
        write_picture(decision.answer, chart, study_dir / FIGURES)
        write_csv(tables.summary, study_dir / SUMMARY)
        write_aside(page, html(tables, decision, made, chart))
    except OSError as error:
        raise ResultError(
            f"{error.filename or page}: cannot be written: {error.strerror or error}; check the "
            "permissions of its directory and the free space"
        ) from error
    return Report(page, decision.finding, len(tables.results.failed))


def html(tables: Tables, decision: Verdict, made: Sequence[Made], chart: VerdictChart) -> str:
    """The page as one self-contained text, for the study's directory."""
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
    frames = {**tables.frames(), "verdict": verdict_table(decision)}
    measured = conditions(tables)

    def made_of(*specs: Spec) -> list[Table]:
        every = (render(one, frames, tables) for one in specs)
        return [table for table in every if table.lines]

    span, trials, series = timelines(tables)
    parts = {
        "verdict_table": made_of(VERDICT),
        "tables": made_of(*TABLES),
        "hosts": made_of(*HOSTS),
        "published_tables": made_of(PUBLISHED),
        "quarantined": _quarantined(tables),
    }
    sources = {*_sources(chain.from_iterable(parts.values())), *_DRAWN}
    data = {"trials": trials, "weights": _weights(decision)}
    page: str = environment.get_template(TEMPLATE).render(
        **parts,
        name=name,
        title=chart.title,
        verdict=decision,
        chart=chart,
        key=KEY,
        groups=grouped_warnings([*tables.warnings, *warnings_of(made)]),
        titles={c.name: c.title for c in decision.criteria},
        colour=page_colour,
        colours=Markup(page_colours()),
        summary_text=summary_text(chart, decision.answer),
        methods=methods(tables, measured),
        conditions=measured,
        figures=[_figure(one) for one in made if one.picture],
        timelines=[packed(one) for one in series],
        span=span,
        fold=FOLD,
        published=published(tables),
        failed=tables.results.failed,
        attempts=tables.results.attempts,
        trials=len(tables.trials),
        data=plain(data),
        evidence=packed(evidence(tables, frames, sorted(sources))),
        scripts=SCRIPTS,
    )
    return page


def ticks(text: str) -> Markup:
    """Text with the parts between backticks as code."""
    return Markup(re.sub("`(.*?)`", r"<code>\1</code>", str(escape(text))))


def summary_text(chart: VerdictChart, answer: Answer) -> str:
    """The first screen as text, for a mail or a ticket."""
    uses = [f"- {one.use.words}: {one.words}" for one in answer.uses]
    left_out = [text for text, _ in chart.left_out]
    return "\n".join(
        [
            f"{chart.title} ({', '.join([*chart.facts, *left_out])})",
            *answer.lines,
            *(["If you mostly ...", *uses] if uses else []),
            *([chart.pays] if chart.pays else []),
        ]
    )


def _weights(verdict: Verdict) -> dict[str, Any]:
    """The data with which the page judges the stores by other weights: see ``js/scores.js``."""
    return {
        **verdict.sliders,
        "titles": {c.name: c.title for c in verdict.criteria},
        "named": verdict.decision.named,
        "uses": [dict(one.shares) for one in verdict.answer.uses],
    }


def _quarantined(tables: Tables) -> list[Table]:
    lines = [
        Line([Cell(text or "–") for text in (bad.path, bad.line, bad.offset, bad.reason)])
        for bad in tables.results.quarantined
    ]
    caption = "Quarantined files: incomplete, so they were left out entirely"
    heads = ["file", "line", "byte", "reason"]
    return [Table("quarantined", caption, heads, lines, len(lines))] if lines else []


def _sources(tables: Iterable[Table]) -> set[str]:
    """The names of the CSV files that the tables' rows come from."""
    return {line.source.split(":")[0] for one in tables for line in one.lines if line.source}


def _figure(made: Made) -> dict[str, Any]:
    """A figure as the template takes it: the legend and each panel as SVG."""
    return {
        "name": made.name,
        "table": _TABLES.get(made.name, ""),
        "id": f"figure-{made.name}",
        **texts()[made.name],
        "parts": [Markup(for_page(one)) for one in made.picture.parts] if made.picture else [],
    }
