"""A comparison for people (tables that fit 80 columns), for programs (JSON) and as CSV."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

import pandas as pd
from rich import box
from rich.console import Console
from rich.measure import Measurement
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from storewise.analysis.common.frames import grouped, json_value, missing, records
from storewise.analysis.common.text import level, number, seconds, setting, some_of
from storewise.compare.compare import ALPHA, COLUMNS, CORRECTED, Comparison
from storewise.compare.gate import Gate
from storewise.compare.sides import TIME

#: Ratios beyond these are not told apart in a terminal: nothing is known there.
_LEAST, _MOST = 0.001, 1000.0
#: Narrowest column of words beside numbers.
_WORD = 10
#: Columns that no table needs.
_WIDEST = 10_000
_COLOURS = {"faster": "green", "slower": "red", "smaller": "green", "larger": "yellow"}


def print_text(comparison: Comparison, gate: Gate | None, console: Console) -> None:
    """Write the comparison as text; colours only where the console is a terminal."""
    if comparison.machines:
        _say(f"{comparison.machines}.", console)
    console.print(f"A: {comparison.a}\nB: {comparison.b}", markup=False, highlight=False)
    _print_differences(comparison, console)
    shown = varying(comparison)
    for (phase, step, measure), rows in grouped(comparison.figures, ["phase", "step", "measure"]):
        unit = rows["unit"].iloc[0]
        title = f"{phase}{f' ({step})' if step else ''}: {measure}"
        title += f", {unit}" if unit and unit != "s" else ""
        _print_figures(title, rows, shown, console)
    _print_only(comparison, shown, console)
    for note in comparison.notes:
        _say(f"Note: {note.removesuffix('.')}.", console)
    _say(f"\n{statement(comparison)}", console)
    if gate is not None:
        for line in gate_lines(gate, shown):
            _say(line, console)


def _say(text: str, console: Console) -> None:
    console.print(Text(text))


def _put(table: Table, console: Console) -> None:
    """A table at the console's width, but never so narrow that a number would lose digits."""
    before = console.width
    options = console.options.update(max_width=_WIDEST)
    console.width = max(before, Measurement.get(console, options, table).minimum + 1)
    console.print(Padding(table, (0, 0, 0, 1)))
    console.width = before


def _heading(text: str, console: Console) -> None:
    console.print()
    console.print(Text(text, style="bold"))


def _table(*names: str, whole: Sequence[str] = ()) -> Table:
    """A table; the columns `whole` are of numbers, which are never broken."""
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, 1), show_edge=False)
    for name in names:
        table.add_column(
            name,
            justify="right" if name in whole else "left",
            overflow="fold",
            no_wrap=name in whole,
            min_width=_WORD if whole and name not in whole else None,
        )
    return table


def _print_differences(comparison: Comparison, console: Console) -> None:
    if not comparison.differences:
        _heading("No difference of config, versions, hosts or seeds.", console)
        return
    _heading("What differs beside the figures", console)
    table = _table("", "A", "B")
    for one in comparison.differences:
        table.add_row(Text(one.what), Text(one.a or "-"), Text(one.b or "-"))
    _put(table, console)


def _print_figures(title: str, rows: pd.DataFrame, shown: Sequence[str], console: Console) -> None:
    _heading(title, console)
    table = _table("setting", "A", "B", "B/A", "95 %", "verdict", whole=("A", "B", "B/A", "95 %"))
    for row in records(rows):
        of = seconds if row["kind"] == TIME else number
        known = not math.isnan(row["ratio_low"])
        verdict = str(row["verdict"])
        words = Text(verdict, style=_COLOURS.get(verdict, ""))
        starred = row["why"] == CORRECTED
        if row["why"] and not starred:
            words.append(f" ({row['why']})")
        table.add_row(
            Text(setting_words(row, shown)),
            of(row["mean_a"]),
            of(row["mean_b"]),
            "-" if math.isnan(row["ratio"]) else ratio_words(row["ratio"]),
            interval_words(row) + ("*" if starred else "") if known else "-",
            words,
        )
    _put(table, console)


def ratio_words(value: float) -> str:
    """A ratio with as many digits as say something."""
    return f"{value:.2f}" if 0.1 <= value < 100 else number(value)


def interval_words(row: Mapping[str, Any]) -> str:
    """The 95 % interval of a row's ratio."""
    of, low, high = row["ratio"], row["ratio_low"], row["ratio_high"]
    least = f"<{_LEAST:g}" if low < _LEAST <= of else ratio_words(low)
    if of <= _MOST < high:
        return f"{least} to >{_MOST:g}"
    return f"{least}-{ratio_words(high)}"


def _print_only(comparison: Comparison, shown: Sequence[str], console: Console) -> None:
    for side, rows in grouped(comparison.only, ["side"]):
        _heading(f"Only in {side[0]}", console)
        lines: dict[str, list[str]] = {}
        for row in records(rows):
            words = setting_words(row, shown)
            step = f" ({row['step']})" if row["step"] else ""
            place = f"{words}: {row['phase']}{step}" + (f", {row['why']}" if row["why"] else "")
            lines.setdefault(place, []).append(str(row["measure"]))
        for place, measures in lines.items():
            console.print(Padding(Text(f"{place}: {', '.join(measures)}"), (0, 0, 0, 1)))


def statement(comparison: Comparison) -> str:
    """How many figures there are of each verdict, and how they were judged."""
    counts = comparison.figures["verdict"].value_counts()
    words = ", ".join(f"{count} {word}" for word, count in counts.items())
    starred = (comparison.figures["why"] == CORRECTED).any()
    return (
        f"{len(comparison.figures)} figures: {words}. Means over repeats "
        f"({_repeats(comparison, 'a')} in A, {_repeats(comparison, 'b')} in B) are geometric; B/A "
        "has its 95 % interval (Welch, on logarithms). A difference is called one where p, "
        f"adjusted over the settings of a phase and measure by Holm's method, is below {ALPHA:g}."
        + (" *: the interval alone excludes 1, but not after that correction." if starred else "")
    )


def _repeats(comparison: Comparison, side: str) -> str:
    counts = comparison.figures[f"n_{side}"]
    least, most = int(counts.min()), int(counts.max())
    return str(least) if least == most else f"{least} to {most}"


def gate_lines(gate: Gate, shown: Sequence[str]) -> list[str]:
    """What the limit makes of the comparison, a line each."""
    limit = f"{100 * gate.limit:g} %"
    lines = [
        f"Slower by more than {limit}: {_figure(row, shown)}: B/A {ratio_words(row['ratio'])} "
        f"({interval_words(row)})"
        for row in records(gate.slower)
    ]
    for reason, rows in grouped(gate.unsure, ["reason"]):
        names = [_figure(row, shown) for row in records(rows)]
        listed = some_of(names, 3, "; ")
        lines.append(f"Cannot be told whether slower by more than {limit}: {listed}: {reason[0]}")
    lines.append(
        f"Rates and times: {len(gate.slower)} slower by more than {limit}, {gate.held} not, "
        f"{len(gate.unsure)} cannot be told."
    )
    return lines


def _figure(row: Mapping[str, Any], shown: Sequence[str]) -> str:
    step = f" ({row['step']})" if row["step"] else ""
    return f"{setting_words(row, shown)}, {row['phase']}{step}, {row['measure']}"


def varying(comparison: Comparison) -> list[str]:
    """Factors that tell rows apart; the engine always does. One that only some engines have does
    so if it has several levels there."""
    both = pd.concat(
        [comparison.figures[list(comparison.factors)], comparison.only[list(comparison.factors)]]
    )
    return [
        name
        for name in comparison.factors
        if name == "engine" or len({str(one) for one in both[name] if not missing(one)}) > 1
    ]


def setting_words(row: Mapping[str, Any], shown: Sequence[str]) -> str:
    """The levels of the factors that tell settings apart, in a few words."""
    engine = [level(row["engine"])] if "engine" in shown and not missing(row["engine"]) else []
    rest = setting(row, [name for name in shown if name != "engine"])
    return ", ".join([*engine, *([rest] if rest else [])]) or "all"


def as_json(comparison: Comparison, gate: Gate | None) -> dict[str, Any]:
    """The comparison as plain data; what is unknown is None."""
    data: dict[str, Any] = {
        "a": comparison.a,
        "b": comparison.b,
        "canary": comparison.canary,
        "machines": comparison.machines,
        "differences": [asdict(one) for one in comparison.differences],
        "factors": list(comparison.factors),
        "figures": json_value(records(comparison.figures)),
        "only": json_value(records(comparison.only)),
        "notes": list(comparison.notes),
        "correction": "holm",
        "alpha": ALPHA,
    }
    if gate is not None:
        data["gate"] = {
            "limit": gate.limit,
            "slower": json_value(records(gate.slower)),
            "unsure": json_value(records(gate.unsure)),
            "held": gate.held,
        }
    return data


def as_csv(comparison: Comparison) -> str:
    """The figures, then what only one side has (verdict: ``only in A``), as CSV."""
    rows = json_value(records(comparison.figures))
    rows += [
        {**row, "verdict": f"only in {row['side']}"} for row in json_value(records(comparison.only))
    ]
    table = pd.DataFrame(rows, columns=[*comparison.factors, *COLUMNS], dtype=object)
    return table.to_csv(index=False, lineterminator="\n")
