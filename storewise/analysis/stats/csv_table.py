"""A plain CSV table as typed columns for the analysis of variance, checked cell by cell.

Every error names the file, the line and the column. Separators are comma, semicolon or tab (what
the heading has most of), line ends any, a byte order mark is ignored; numbers have a decimal point.
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import pandas as pd

from storewise.errors import AnalysisError
from storewise.yamlfile import nearest

_WHOLE = re.compile(r"[+-]?(0|[1-9][0-9]{0,17})")
_NUMBER = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]{1,3})?")
#: Lines that an error lists.
_SHOWN = 5


@dataclass(frozen=True, slots=True)
class PlainTable:
    """The cells as text, without spaces around them, by column; `lines` are those of the file."""

    name: str
    columns: Mapping[str, Sequence[str]]
    lines: Sequence[int]


def parse_table(content: bytes, name: str) -> PlainTable:
    """The table of a CSV file; AnalysisError where it is none. `name` is the file's, for errors."""
    if b"\0" in content:
        raise AnalysisError(
            f"{name}: is not a CSV file: it has zero bytes (UTF-8 text is expected)"
        )
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise AnalysisError(f"{name}, line {line}: is not UTF-8 text; convert it first") from error
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=_separator(text), strict=True)
    heading: list[str] = []
    rows: list[list[str]] = []
    lines: list[int] = []
    try:
        for cells in reader:
            stripped = [cell.strip() for cell in cells]
            if not any(stripped):
                continue
            if not heading:
                heading = _heading(stripped, name, reader.line_num)
            elif len(stripped) != len(heading):
                raise AnalysisError(
                    f"{name}, line {reader.line_num}: {len(stripped)} cells; the heading has "
                    f"{len(heading)}"
                )
            else:
                rows.append(stripped)
                lines.append(reader.line_num)
    except csv.Error as error:
        raise AnalysisError(f"{name}, line {reader.line_num}: is not CSV: {error}") from error
    if not heading:
        raise AnalysisError(f"{name}: is empty; a heading and rows are expected")
    if not rows:
        raise AnalysisError(f"{name}: has a heading but no rows")
    cells_by_column = zip(*rows, strict=True)
    return PlainTable(name, dict(zip(heading, cells_by_column, strict=True)), lines)


def _separator(text: str) -> str:
    first = next((line for line in text.splitlines() if line.strip()), "")
    return max(",;\t", key=first.count)


def _heading(cells: list[str], name: str, line: int) -> list[str]:
    for number, cell in enumerate(cells, start=1):
        if not cell:
            raise AnalysisError(f"{name}, line {line}: column {number} has no name")
        if cells.index(cell) != number - 1:
            raise AnalysisError(f"{name}, line {line}: two columns are called {cell!r}")
    return cells


def observations(
    table: PlainTable,
    response: str,
    factors: Sequence[str],
    *,
    numeric: Sequence[str] = (),
    by: Sequence[str] = (),
    log: bool = False,
) -> pd.DataFrame:
    """The columns that an analysis needs, typed, one row per observation, indexed by its line.

    A column of whole numbers has integers, one of numbers floats, every other one text; `response`
    and `numeric` must be numbers. Raises AnalysisError for columns that are not there or are asked
    for twice, and for cells that are empty or no numbers.
    """
    named = {"--response": [response], "--factors": factors, "--by": by}
    used: dict[str, str] = {}
    for option, names in named.items():
        for column in names:
            if column not in table.columns:
                known = list(table.columns)
                raise AnalysisError(
                    f"{table.name}: {option}: there is no column {column!r}"
                    f"{nearest(column, known)}; columns are {', '.join(known)}"
                )
            if column in used:
                raise AnalysisError(
                    f"{table.name}: column {column!r} is in {used[column]} and in {option}; it can "
                    "have one part only"
                    if used[column] != option
                    else f"{table.name}: {option} names column {column!r} twice"
                )
            used[column] = option
    for column in numeric:
        if column not in factors:
            raise AnalysisError(
                f"{table.name}: --numeric: {column!r} is none of the --factors"
                f"{nearest(column, list(factors))} ({', '.join(factors)})"
            )
    frame = pd.DataFrame(index=pd.Index(table.lines, name="line"))
    for column in used:
        cells = table.columns[column]
        _no_empty(table, column)
        if column == response or column in numeric:
            frame[column] = _numbers(table, column)
        elif all(map(_WHOLE.fullmatch, cells)):
            frame[column] = [int(cell) for cell in cells]
        elif all(map(_NUMBER.fullmatch, cells)) and not any(map(_padded, cells)):
            frame[column] = [float(cell) for cell in cells]
        else:
            frame[column] = pd.Series(list(cells), index=frame.index, dtype=object)
    if log:
        low = frame.index[frame[response] <= 0]
        if len(low):
            raise AnalysisError(
                f"{table.name}, {_lines(list(low))}: column {response!r} has values of 0 or less, "
                "which have no logarithm; leave --log-response away"
            )
    return frame


def _padded(cell: str) -> bool:
    """Whether it is a name of digits, such as 007, that would not come back as it was."""
    digits = cell.lstrip("+-")
    return len(digits) > 1 and digits[0] == "0" and digits[1] not in ".eE"


def _no_empty(table: PlainTable, column: str) -> None:
    empty = [n for n, cell in zip(table.lines, table.columns[column], strict=True) if not cell]
    if empty:
        raise AnalysisError(
            f"{table.name}, {_lines(empty)}: column {column!r} is empty; fill it or take the rows "
            "out: nothing is guessed"
        )


def _numbers(table: PlainTable, column: str) -> list[float]:
    found = []
    for line, cell in zip(table.lines, table.columns[column], strict=True):
        value = float(cell) if _NUMBER.fullmatch(cell) else float("inf")
        if abs(value) == float("inf"):
            comma = " (numbers have a decimal point, no comma)" if "," in cell else ""
            raise AnalysisError(
                f"{table.name}, line {line}: column {column!r} must be a number; found "
                f"{cell!r}{comma}"
            )
        found.append(value)
    return found


def _lines(lines: Sequence[int]) -> str:
    if len(lines) == 1:
        return f"line {lines[0]}"
    more = f" and {len(lines) - _SHOWN} more" if len(lines) > _SHOWN else ""
    return f"lines {', '.join(map(str, lines[:_SHOWN]))}{more}"
