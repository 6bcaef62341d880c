"""A plain CSV table as typed columns for the analysis of variance, checked cell by cell.

Every error names the file, and the line and column where it has one. Separators are comma,
semicolon or tab (what the heading has most of); numbers have a decimal point.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pandas as pd

from storewise.analysis.common.text import some_of
from storewise.errors import AnalysisError
from storewise.yamlfile import nearest

#: Lines that an error lists.
_SHOWN = 5


def observations(
    path: Path,
    response: str,
    factors: Sequence[str],
    *,
    numeric: Sequence[str] = (),
    by: Sequence[str] = (),
) -> pd.DataFrame:
    """The columns that an analysis needs, typed, one row per observation, indexed by its line.

    A column of numbers has numbers, every other one text; `response` and `numeric` must be numbers.
    Raises AnalysisError for a file that is no such table, for columns that are not there or are
    asked for twice, and for cells that are empty or no numbers.
    """
    cells = _cells(path)
    used: dict[str, str] = {}
    for option, names in (("--response", [response]), ("--factors", factors), ("--by", by)):
        for column in names:
            if column not in cells:
                known = list(map(str, cells))
                raise AnalysisError(
                    f"{path}: {option}: there is no column {column!r}{nearest(column, known)}; "
                    f"columns are {', '.join(known)}"
                )
            if column in used:
                twice = (
                    f"twice in {option}"
                    if used[column] == option
                    else (f"in {used[column]} and in {option}")
                )
                raise AnalysisError(
                    f"{path}: column {column!r} is {twice}; it can have one part only"
                )
            used[column] = option
    for column in numeric:
        if column not in factors:
            raise AnalysisError(
                f"{path}: --numeric: {column!r} is none of the --factors"
                f"{nearest(column, list(factors))} ({', '.join(factors)})"
            )
    frame = pd.DataFrame(index=cells.index)
    for column in used:
        text = cells[column]
        if (text == "").any():
            raise AnalysisError(
                f"{path}, {_lines(text == '')}: column {column!r} is empty; fill it or take the "
                "rows out: nothing is guessed"
            )
        numbers = pd.to_numeric(text, errors="coerce")
        wrong = ~np.isfinite(numbers)
        if wrong.any() and (column == response or column in numeric):
            found = text[wrong].iloc[0]
            comma = " (numbers have a decimal point, no comma)" if "," in found else ""
            raise AnalysisError(
                f"{path}, {_lines(wrong)}: column {column!r} must be a number; found {found!r}"
                f"{comma}"
            )
        frame[column] = text if wrong.any() else numbers
    return frame


def _cells(path: Path) -> pd.DataFrame:
    """The cells of a CSV file as text, without spaces around them; the index has its lines."""
    try:
        with path.open(encoding="utf-8-sig") as file:
            separator = max(",;\t", key=next((line for line in file if line.strip()), "").count)
        rows = pd.read_csv(
            path,
            sep=separator,
            header=None,
            dtype=str,
            keep_default_na=False,
            skip_blank_lines=False,
            encoding="utf-8-sig",
        )
    except OSError as error:
        raise AnalysisError(f"{path}: cannot be read: {error.strerror or error}") from error
    except UnicodeDecodeError as error:
        raise AnalysisError(f"{path}: is not UTF-8 text; convert it first") from error
    except pd.errors.EmptyDataError as error:
        raise AnalysisError(f"{path}: is empty; a heading and rows are expected") from error
    except pd.errors.ParserError as error:
        raise AnalysisError(f"{path}: is not CSV: {error}") from error
    rows = pd.DataFrame({column: rows[column].str.strip() for column in rows})
    rows.index += 1
    rows = rows[(rows.notna() & (rows != "")).any(axis=1)]
    heading, rows = rows.iloc[0], rows.iloc[1:]
    if rows.empty:
        raise AnalysisError(f"{path}: has a heading but no rows")
    if heading.isna().any() or (heading == "").any():
        raise AnalysisError(f"{path}, line {heading.name}: a column has no name")
    if heading.duplicated().any():
        twice = heading[heading.duplicated()].iloc[0]
        raise AnalysisError(f"{path}, line {heading.name}: two columns are called {twice!r}")
    return rows.set_axis(heading.to_list(), axis=1)


def _lines(chosen: pd.Series) -> str:
    """The lines of the chosen rows in words."""
    lines = [str(line) for line in chosen.index[chosen]]
    return f"line{'s' if len(lines) > 1 else ''} {some_of(lines, _SHOWN)}"
