"""Tables of the page about steps and searches."""

from __future__ import annotations

from storewise.analysis.common.engines import varying_factors
from storewise.analysis.common.frames import missing, records
from storewise.analysis.common.text import number, seconds
from storewise.analysis.measure.steps import limit_words, wide
from storewise.analysis.model.columns import OTHER, PARAMETERS
from storewise.analysis.model.tables import Tables
from storewise.figures.selection import Finder
from storewise.report.data.rows import Mark, marks
from storewise.report.tables import cells
from storewise.report.tables.cells import Cell, Column, Row, Table

_TOGETHER = ", all operations together,"
_HEADS = {"clients": "clients", "rate": "target operations/s", "planned": "operations"}
_TIMES = [f"{t}_{p}" for t in ("response", "service") for p in ("mean", "p50", "p95", "p99")]


def step_tables(tables: Tables) -> list[Table]:
    """The tables that a study with steps or searches has; none otherwise."""
    steps = [_steps(tables)] if len(tables.steps) else []
    return steps + ([_searches(tables)] if len(tables.searches) else [])


def _steps(tables: Tables) -> Table:
    factors = tables.results.factors
    steps = cells.in_order_of_phases(wide(tables.steps, factors), tables)
    served = "served" in steps and steps["served"].notna().any()
    columns = [
        *cells.levels(["phase", "engine", *varying_factors(tables.steps, factors)]),
        *cells.figures(cells.plain, "step"),
        *cells.figures(
            "{:,.4g}".format, **{n: _HEADS[n] for n in PARAMETERS if steps[n].notna().any()}
        ),
        *(cells.texts(**{OTHER: "with"}) if steps[OTHER].ne("").any() else []),
        *cells.texts("operation"),
        Column(f"operations/s{cells.WITH_INTERVAL}", _rate),
        *(cells.figures(lambda share: f"{100 * share:.1f} %", "served") if served else []),
        *cells.figures(number, "errors"),
        *cells.figures(seconds, **{n: n.replace("_", " ") for n in _TIMES if n in steps}),
    ]
    finder = Finder(tables.steps, [*factors, "phase", "step", "operation", *PARAMETERS, OTHER])
    rows = records(steps)
    return Table.of(
        "steps",
        "Steps: throughput over repeats, times from the histograms of all repeats together",
        rows,
        columns,
        [Mark("summary", finder.find(row), row) for row in rows],
    )


def _rate(row: Row) -> Cell:
    return cells.mean_cell({**row, "mean": row["operations_per_s"]})


def _searches(tables: Tables) -> Table:
    trials = tables.results.trials
    by_trial = {row["trial"]: row for row in records(trials)}
    return Table.of(
        "searches",
        "Highest rates within a limit",
        [{**by_trial[row["trial"]], **row} for row in records(tables.searches)],
        [
            *cells.levels(["phase", "engine", *varying_factors(trials, tables.results.factors)]),
            *cells.figures(str, "repeat"),
            *cells.figures(cells.plain, "clients"),
            Column("limit", lambda row: cells.text_cell(limit_words(row, _TOGETHER))),
            *cells.figures(number, rate="highest operations/s"),
            Column("how sure", lambda row: cells.text_cell(_certainty(row))),
        ],
        marks("searches", tables.searches),
    )


def _certainty(row: Row) -> str:
    if missing(row["rate"]):
        return "no rate that was tried met the limit"
    words = "met twice" if row["verified"] else "met once"
    return words if row["bounded"] else f"{words}; no higher rate failed"
