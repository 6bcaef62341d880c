"""Tables of the page about steps and searches."""

from __future__ import annotations

from typing import Any

from storewise.analysis.common.engines import varying_factors
from storewise.analysis.common.frames import missing, records
from storewise.analysis.common.text import number, seconds
from storewise.analysis.measure.steps import OTHER, PARAMETERS, wide
from storewise.analysis.model.tables import Tables
from storewise.figures.selection import Finder
from storewise.report.data.rows import Mark, marks
from storewise.report.tables.cells import Cell, Table, level_cell, number_cell, text_cell

_HEADS = {"clients": "clients", "rate": "target operations/s", "planned": "operations"}
_TIMES = [f"{t}_{p}" for t in ("response", "service") for p in ("mean", "p50", "p95", "p99")]


def tables_of_steps(tables: Tables) -> list[Table]:
    """The tables that a study with steps or searches has; none otherwise."""
    found = [_steps(tables)] if len(tables.steps) else []
    return found + ([_searches(tables)] if len(tables.searches) else [])


def _steps(tables: Tables) -> Table:
    factors = tables.results.factors
    found = wide(tables.steps, factors)
    names = ["engine", *varying_factors(tables.steps, factors)]
    told = [name for name in PARAMETERS if found[name].notna().any()]
    others = bool(found[OTHER].ne("").any())
    served = "served" in found and found["served"].notna().any()
    times = [name for name in _TIMES if name in found]
    order = {phase: place for place, phase in enumerate(tables.phases_of(found))}
    found = found.sort_values("phase", key=lambda phase: phase.map(order), kind="stable")
    rows = [
        [
            text_cell(row["phase"]),
            *(level_cell(name, row[name]) for name in names),
            number_cell(row["step"], f"{row['step']:g}"),
            *(_told(row[name]) for name in told),
            *([text_cell(row[OTHER])] if others else []),
            text_cell(row["operation"]),
            number_cell(row["operations_per_s"]),
            _interval(row),
            *([_share(row.get("served"))] if served else []),
            number_cell(row["errors"]),
            *(_time(row[name]) for name in times),
        ]
        for row in records(found)
    ]
    heads = ["phase", *names, "step", *(_HEADS[n] for n in told)]
    heads += [*(["with"] if others else []), "operation", "operations/s"]
    heads += ["95 % interval", *(["served"] if served else []), "errors"]
    own = Finder(tables.steps, [*factors, "phase", "step", "operation", *PARAMETERS, OTHER])
    return Table(
        "steps",
        "Steps: throughput over repeats, times from the histograms of all repeats together",
        [*heads, *(name.replace("_", " ") for name in times)],
        rows,
        [Mark("steps", own.find(row), row) for row in records(found)],
    )


def _searches(tables: Tables) -> Table:
    levels = {row["trial"]: row for row in records(tables.results.trials)}
    names = ["engine", *varying_factors(tables.results.trials, tables.results.factors)]
    rows = [
        [
            text_cell(row["phase"]),
            *(level_cell(name, levels[row["trial"]].get(name)) for name in names),
            number_cell(levels[row["trial"]]["repeat"], str(levels[row["trial"]]["repeat"])),
            number_cell(row["clients"], f"{row['clients']:g}"),
            text_cell(
                f"p{row['percentile']:g} of {row['time']} time, all operations together, within "
                f"{row['limit_ms']:g} ms"
            ),
            number_cell(row["rate"] if not missing(row["rate"]) else None),
            text_cell(_word(row)),
        ]
        for row in records(tables.searches)
    ]
    heads = ["phase", *names, "repeat", "clients", "limit", "highest operations/s", "how sure"]
    origins = marks("searches", tables.searches)
    return Table("searches", "Highest rates within a limit", heads, rows, origins)


def _word(row: dict[str, Any]) -> str:
    if missing(row["rate"]):
        return "no rate that was tried met the limit"
    words = "met twice" if row["verified"] else "met once"
    return words if row["bounded"] else f"{words}; no higher rate failed"


def _told(value: Any) -> Cell:
    return number_cell(None) if missing(value) else number_cell(float(value), f"{value:,.4g}")


def _share(value: Any) -> Cell:
    return number_cell(None) if missing(value) else number_cell(value, f"{100 * value:.1f} %")


def _time(value: Any) -> Cell:
    return number_cell(None) if missing(value) else number_cell(value, seconds(value))


def _interval(row: dict[str, Any]) -> Cell:
    if missing(row["low"]) or row["resampled"] == "none":
        return number_cell(None)
    return number_cell(row["low"], f"{number(row['low'])} to {number(row['high'])}")
