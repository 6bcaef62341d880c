"""``storewise compare`` as one page that asks for nothing, in the look of a study's page."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined

from storewise.analysis.common.frames import grouped, records
from storewise.analysis.common.text import number, seconds
from storewise.atomic import write_aside
from storewise.compare.compare import CORRECTED, Comparison
from storewise.compare.gate import Gate
from storewise.compare.render import (
    gate_lines,
    interval_words,
    ratio_words,
    setting_words,
    statement,
    varying,
)
from storewise.compare.sides import TIME
from storewise.errors import ResultError


def write_comparison(comparison: Comparison, gate: Gate | None, out: Path) -> None:
    """Write the page; ResultError where that is not possible."""
    environment = Environment(
        loader=PackageLoader("storewise.report"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    shown = varying(comparison)
    tables = []
    for (phase, step, measure), rows in grouped(comparison.figures, ["phase", "step", "measure"]):
        unit = rows["unit"].iloc[0]
        name = f"{phase}{f' ({step})' if step else ''}: {measure}"
        title = name + (f", {unit}" if unit and unit != "s" else "")
        tables.append((title, [_row(row, shown) for row in records(rows)]))
    only = [
        (side[0], [(setting_words(row, shown), row) for row in records(rows)])
        for side, rows in grouped(comparison.only, ["side"])
    ]
    page = environment.get_template("compare.html").render(
        comparison=comparison,
        title=f"{Path(comparison.a).name} and {Path(comparison.b).name}",
        tables=tables,
        only=only,
        statement=statement(comparison),
        gate=gate_lines(gate, shown) if gate is not None else (),
    )
    try:
        write_aside(out, page)
    except OSError as error:
        raise ResultError(f"{out}: cannot be written: {error.strerror or error}") from error


def _row(row: Mapping[str, Any], shown: Sequence[str]) -> dict[str, Any]:
    of = seconds if row["kind"] == TIME else number
    known = not math.isnan(row["ratio_low"])
    why = "" if row["why"] == CORRECTED else row["why"]
    return {
        "setting": setting_words(row, shown),
        "a": of(row["mean_a"]),
        "b": of(row["mean_b"]),
        "ratio": "" if math.isnan(row["ratio"]) else ratio_words(row["ratio"]),
        "interval": interval_words(row) + ("*" if row["why"] == CORRECTED else "") if known else "",
        "verdict": f"{row['verdict']}{f' ({why})' if why else ''}",
        "differs": row["p_adj"] < 0.05,
    }
