"""A plain CSV table as typed columns for the analysis of variance, checked cell by cell.

Every error names the file, the line and the column. Separators are comma, semicolon or tab (what
the heading has most of), line ends any, a byte order mark is ignored; numbers have a decimal point.
"""

from __future__ import annotations

import csv
import io
import math
import re
from collections.abc import Sequence
from dataclasses import dataclass

import pandas as pd

from storewise.analysis.common.text import some_of
from storewise.errors import AnalysisError
from storewise.yamlfile import nearest

_WHOLE = re.compile(r"[+-]?(0|[1-9][0-9]{0,17})")
_NUMBER = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]{1,3})?")
#: Lines that an error lists.
_SHOWN = 5


@dataclass(frozen=True, slots=True)
class PlainTable:
    """The cells as text, without spaces around them; the index has the lines of the file."""

    name: str
    cells: pd.DataFrame


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
    first = next((line for line in text.splitlines() if line.strip()), "")
    separator = max(",;\t", key=first.count)
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=separator, strict=True)
    heading: list[str] = []
    rows: dict[int, list[str]] = {}
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
                rows[reader.line_num] = stripped
    except csv.Error as error:
        raise AnalysisError(f"{name}, line {reader.line_num}: is not CSV: {error}") from error
    if not heading:
        raise AnalysisError(f"{name}: is empty; a heading and rows are expected")
    if not rows:
        raise AnalysisError(f"{name}: has a heading but no rows")
    lines = pd.Index(list(rows), name="line")
    return PlainTable(name, pd.DataFrame(list(rows.values()), lines, heading, dtype=object))


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
            if column not in table.cells:
                known = list(map(str, table.cells))
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
    frame = table.cells[list(used)].copy()
    for column in used:
        cells = frame[column]
        if len(empty := cells.index[cells == ""]):
            raise AnalysisError(
                f"{table.name}, {_lines(list(empty))}: column {column!r} is empty; fill it or take "
                "the rows out: nothing is guessed"
            )
        if column == response or column in numeric:
            frame[column] = _numbers(table.name, cells)
        elif all(map(_WHOLE.fullmatch, cells)):
            frame[column] = cells.map(int).astype("int64")
        elif all(map(_NUMBER.fullmatch, cells)) and not any(map(_padded, cells)):
            frame[column] = cells.map(float).astype(float)
    if log and len(low := frame.index[frame[response] <= 0]):
        raise AnalysisError(
            f"{table.name}, {_lines(list(low))}: column {response!r} has values of 0 or less, "
            "which have no logarithm; leave --log-response away"
        )
    return frame


def _padded(cell: str) -> bool:
    """Whether it is a name of digits, such as 007, that would not come back as it was."""
    digits = cell.lstrip("+-")
    return len(digits) > 1 and digits[0] == "0" and digits[1] not in ".eE"


def _numbers(name: str, cells: pd.Series) -> pd.Series:
    values = cells.map(lambda cell: float(cell) if _NUMBER.fullmatch(cell) else math.inf)
    for line, cell in cells[values.abs() == math.inf].items():
        comma = " (numbers have a decimal point, no comma)" if "," in cell else ""
        raise AnalysisError(
            f"{name}, line {line}: column {cells.name!r} must be a number; found {cell!r}{comma}"
        )
    return values.astype(float)


def _lines(lines: Sequence[int]) -> str:
    if len(lines) == 1:
        return f"line {lines[0]}"
    return f"lines {some_of(list(map(str, lines)), _SHOWN)}"
