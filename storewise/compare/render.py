"""A comparison as text for people, and as plain data."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

import pandas as pd
from rich.console import Console
from rich.measure import Measurement
from rich.table import Table
from rich.text import Text

from storewise.analysis.common.frames import grouped, json_value, records
from storewise.analysis.common.text import number, seconds, setting, some_of
from storewise.analysis.decision.compare import CONTROLS, COUNTED, DAYS, SAME_ROUNDS
from storewise.compare.compare import Comparison
from storewise.compare.figures import TIME
from storewise.compare.gate import DIFFERENT_DAYS, Gate

_HEADINGS = {
    SAME_ROUNDS: "Measured in the same rounds",
    CONTROLS: "Different days, beside settings that are unchanged",
    DAYS: DIFFERENT_DAYS.capitalize(),
    COUNTED: "Counted: different from 1.2 times on",
}
_COLOURS = {"faster": "green", "slower": "red", "smaller": "green", "larger": "yellow"}


def print_text(comparison: Comparison, gate: Gate | None, console: Console) -> None:
    """Write the comparison as text, with colours if the console supports them."""
    if comparison.machines:
        console.print(Text(f"{comparison.machines}."))
    console.print(Text(f"Old: {comparison.old}\nNew: {comparison.new}"))
    if comparison.differences:
        _head("Different conditions", console)
        table = Table("", "only old", "only new", box=None)
        for one in comparison.differences:
            table.add_row(*(Text(word or "-", overflow="fold") for word in one))
        _put(table, console)
    shown = varying(comparison)
    for basis, title in _HEADINGS.items():
        rows = comparison.figures[comparison.figures["basis"] == basis]
        if len(rows):
            _head(title, console)
            _put(_figures(rows, shown), console)
    for (side,), rows in grouped(comparison.only, ["side"]):
        words = "; ".join(_words(row, shown) for row in records(rows))
        console.print(Text(f"\nOnly in {side}: {words}."))
    console.print(Text(f"\n{statement(comparison)}"))
    for line in gate_lines(gate, shown) if gate is not None else ():
        console.print(Text(line))


def _head(title: str, console: Console) -> None:
    console.print(Text(f"\n{title}", style="bold underline"))


def _put(table: Table, console: Console) -> None:
    """Write a table at the console's width, but wide enough for all digits."""
    before, options = console.width, console.options.update(max_width=10_000)
    console.width = max(before, Measurement.get(console, options, table).minimum)
    console.print(table)
    console.width = before


def _figures(rows: pd.DataFrame, shown: Sequence[str]) -> Table:
    """Table rows: the name of each figure, and below it a row per setting."""
    table = Table("", box=None)
    for name in ("old", "new", "new/old", "95 %"):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("", no_wrap=True)
    names = [_figure(row) for row in records(rows)]
    for row, name, last in zip(records(rows), names, ["", *names], strict=False):
        of = seconds if row["kind"] == TIME else number
        cells: list[str | Text] = [
            *(of(row["old"]), of(row["new"]), ratio_words(row["ratio"]), interval_words(row)),
            Text(row["answer"], style=_COLOURS.get(row["answer"], "")),
        ]
        if name != last:
            table.add_row(Text(name, style="bold", overflow="fold"))
        table.add_row(Text(f"  {setting(row, shown) or 'all'}", overflow="fold"), *cells)
    return table


def ratio_words(value: float) -> str:
    """A ratio as text, with its significant digits."""
    return f"{value:.2f}" if 0.1 <= value < 100 else number(value)


def interval_words(row: Mapping[str, Any]) -> str:
    """The 95 % interval of a row's ratio as text; empty if it has none."""
    low, high = row["low"], row["high"]
    if math.isnan(low):
        return ""
    least = ratio_words(low) if low > 0.001 else "<0.001"
    return f"{least}-{ratio_words(high) if high < 1000 else '>1000'}"


def statement(comparison: Comparison) -> str:
    """The number of figures by answer, and the method, as text."""
    figures = comparison.figures
    words = ", ".join(f"{n} {answer}" for answer, n in figures["answer"].value_counts().items())
    rounds = [f"{figures[f'n_{side}'].max()} rounds of {side}" for side in ("old", "new")]
    text = f"{len(figures)} figures: {words}. Geometric means of {' and '.join(rounds)}."
    if figures["p"].notna().any():
        text += (
            " An interval is that of its ratio alone; the chance of any false difference among all "
            "of them is at most 5 % (Student's t, Holm's method)."
        )
    if (figures["basis"] == DAYS).any():
        text += (
            " To tell, measure old and new in the same rounds (`storewise compare STUDY --by "
            "FACTOR=OLD:NEW --interleave FILE`), or name engines that are the same in both, with "
            "three settings or more (`--unchanged ENGINE`)."
        )
    return text


def gate_lines(gate: Gate, shown: Sequence[str]) -> list[str]:
    """The results of the gate, one per line."""
    limit = f"{100 * gate.limit:g} %"
    lines = [
        f"Slower by more than {limit}: {_words(row, shown)}: new/old {ratio_words(row['ratio'])} "
        f"({interval_words(row)})"
        for row in records(gate.slower)
    ]
    for (reason,), rows in grouped(gate.unsure, ["reason"]):
        listed = some_of([_words(row, shown) for row in records(rows)], 3, "; ")
        lines.append(f"Cannot be told whether slower by more than {limit}: {listed}: {reason}")
    lines.append(
        f"Rates and times: {len(gate.slower)} slower by more than {limit}, {gate.held} not, "
        f"{len(gate.unsure)} cannot be told."
    )
    return lines


def varying(comparison: Comparison) -> list[str]:
    """The factors that differ between rows."""
    names = list(comparison.factors)
    both = pd.concat([comparison.figures[names], comparison.only[names]]).astype(object)
    return [name for name in names if both[name].nunique() > 1]


def _figure(row: Mapping[str, Any]) -> str:
    """``read (clients 4): operations_per_s``."""
    return f"{row['phase']}{f' ({step})' if (step := row['step']) else ''}: {row['measure']}"


def _words(row: Mapping[str, Any], shown: Sequence[str]) -> str:
    return ", ".join(filter(None, [setting(row, shown), _figure(row)]))


def as_json(comparison: Comparison, gate: Gate | None) -> dict[str, Any]:
    """The comparison as JSON values; unknown values are None."""
    tables = {"figures": comparison.figures, "only": comparison.only}
    data = asdict(comparison) | {name: json_value(records(one)) for name, one in tables.items()}
    if gate is not None:
        slower, unsure = (json_value(records(one)) for one in (gate.slower, gate.unsure))
        data["gate"] = {"limit": gate.limit, "slower": slower, "unsure": unsure, "held": gate.held}
    return data
