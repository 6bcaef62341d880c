"""A plain CSV table as typed columns for the analysis of variance, checked cell by cell.

Every error names the file, and the line and column where it has one. Separators are comma,
semicolon or tab (what the heading has most of); numbers have a decimal point.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pandas as pd

from storewise.errors import AnalysisError
from storewise.yamlfile import nearest


def observations(
    path: Path,
    response: str,
    factors: Sequence[str],
    *,
    numeric: Sequence[str] = (),
    by: Sequence[str] = (),
) -> pd.DataFrame:
    """The columns for an analysis, one row per observation; the index has the lines of the file.

    Columns with only numbers are numeric, all others text; `response` and `numeric` must be
    numeric. Raises AnalysisError for a file that is no CSV table, for columns that are missing or
    given twice, and for cells that are empty or not numeric.
    """
    cells = _cells(path)
    used = [response, *factors, *by]
    for option, names in (("--response", [response]), ("--factors", factors), ("--by", by)):
        for column in names:
            if column not in cells:
                known = list(map(str, cells))
                raise AnalysisError(
                    f"{path}: {option}: there is no column {column!r}{nearest(column, known)}; "
                    f"columns are {', '.join(known)}"
                )
            if used.count(column) > 1:
                raise AnalysisError(
                    f"{path}: {option}: column {column!r} is named twice; a column can have only "
                    "one role"
                )
    for column in numeric:
        if column not in factors:
            raise AnalysisError(
                f"{path}: --numeric: {column!r} is none of the --factors"
                f"{nearest(column, list(factors))} ({', '.join(factors)})"
            )
    frame = pd.DataFrame(index=cells.index)
    for column in used:
        text, numbers = cells[column], pd.to_numeric(cells[column], errors="coerce")
        words = ~np.isfinite(numbers)
        empty = text == ""
        wrong = empty | (words & (column == response or column in numeric))
        if wrong.any():
            found, more = text[wrong].iloc[0], int(wrong.sum()) - 1
            lines = f"line {text.index[wrong][0]}" + (f" and {more} more" if more else "")
            comma = " (numbers have a decimal point, no comma)" if "," in found else ""
            why = (
                f"must be a number; found {found!r}{comma}"
                if found
                else ("is empty; fill it or take the rows out: nothing is guessed")
            )
            raise AnalysisError(f"{path}, {lines}: column {column!r} {why}")
        frame[column] = text if words.any() else numbers
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
    except (OSError, ValueError) as error:  # pandas' own are of the latter, too
        why = getattr(error, "strerror", None) or error
        raise AnalysisError(f"{path}: cannot be read as a CSV table in UTF-8: {why}") from error
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
