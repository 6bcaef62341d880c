"""The evidence tables of the page: rows of the analysis's tables, each with some of its columns.

One renderer makes all of them: what a cell looks like follows from the unit of its column, or from
the column `unit` of its row. What is the same in all rows stands in the caption. A row keeps the
rows of the CSV file that it was made of.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pandas as pd

from storewise.analysis.common.engines import title, varying_factors
from storewise.analysis.common.frames import grouped, missing, records
from storewise.analysis.common.text import (
    binary,
    count,
    level,
    number,
    rows_as_text,
    seconds,
    some_of,
)
from storewise.analysis.measure.derived import times_asked
from storewise.analysis.model.tables import Tables

#: Rows of a table that are in the page; the file has all.
MOST_ROWS = 2_000
#: Signs of a text in a cell: plans and evidence are longer.
_SIGNS = 160
#: Lines of the plans that DuckDB draws.
_BOXES = re.compile(r"[\u2500-\u257f]+")
#: The engine and the factors that tell rows from each other, as a key of a `Spec`.
SETTING = "setting"
#: Unit -> how a number of it is written; others stand after the number.
UNITS: Mapping[str, Callable[[float], str]] = {
    "s": seconds,
    "B": binary,
    "bytes": binary,
    "B/s": lambda value: f"{binary(value)}/s",
    "%": lambda value: f"{number(value)} %",
    "share": "{:.3g} %".format,
    "count": count,
    "level": level,
    "questions": times_asked,
    "p": lambda value: "< 0.001" if value < 0.001 else f"{value:.3f}",
}


#: Columns of these units, in whatever table; others have none.
_COLUMNS: Mapping[str, tuple[str, ...]] = {
    "s": (
        *("p50", "p90", "p95", "p99", "p99.9", "p99.99", "max", "seconds", "load", "after"),
        *("recovery_time", "unavailable_time", "unavailable_time_node"),
        *("queue_time", "ready_time", "stop_time"),
        *("service_mean", "service_p50", "service_p95", "service_p99"),
        *("response_mean", "response_p50", "response_p95", "response_p99"),
    ),
    "B": ("store_bytes", "node_bytes", "client_rss", "store_rss", "memory_used", "bytes"),
    "B/s": (
        *("disk_write", "disk_read", "network_received"),
        *("canary_disk_write", "canary_disk_read"),
    ),
    "%": ("cpu_user", "cpu_system", "cpu_iowait", "disk_busy"),
    "share": (
        *("share", "over_limit", "relative", "served", "weight"),
        *("share_of_input", "share_of_raw_input"),
    ),
    "count": (
        *("operations", "errors", "lost_documents", "found", "files", "inodes"),
        *("expected", "counted", "checked", "lost", "wrong"),
    ),
    "p": ("p", "p_adj"),
}
_UNIT_OF = {name: unit for unit, names in _COLUMNS.items() for name in names}
_HEADS = {
    "n": "repeats",
    "mean": "mean, 95 % interval",
    "operations_per_s": "operations/s, 95 % interval",
    "inodes": "files and directories",
    "client_cpu": "busiest client, cores",
    "client_rss": "memory of clients",
    "router_cpu": "routers, cores",
    "store_cpu": "server, cores",
    "store_rss": "memory of the server",
    "store_bytes": "size of the store",
    "node_bytes": "size of servers' directories",
    "canary_cpu": "digests per s",
    "open_ports": "OPEN PORTS",
    "kept": "kept: remove it by hand",
    "other": "step",
    "title": "what",
    "choice": "store",
    "configuration": "deployment",
    "a": "one",
    "b": "the other",
    "p_adj": "p, adjusted",
    "reject": "differ",
    "f": "F",
    "eta_sq_partial": "partial η²",
    "omega_sq": "ω²",
    "r2": "R²",
}


@dataclass(frozen=True, slots=True)
class Spec:
    """A table of the page: rows of ``analysis/<csv>.csv`` with some of its `columns`; `csv` is `id`
    where none is named.

    `keys` stand first; SETTING is the engine, the factors that vary, and the step. `wide` names a
    column whose levels become columns (those of `columns` that are there), with their means; rows
    are then told by `keys`.
    """

    id: str
    caption: str
    columns: Sequence[str]
    keys: Sequence[str] = ()
    rows: Callable[[pd.DataFrame, Tables], pd.DataFrame] = lambda table, _: table
    csv: str = ""
    wide: str = ""


@dataclass(frozen=True, slots=True)
class Cell:
    """Text, sort key and second line of a cell."""

    text: str
    order: str | float = ""
    note: str = ""

    @property
    def numeric(self) -> bool:
        return isinstance(self.order, float)


#: A cell of which nothing is known.
EMPTY = Cell("–")


@dataclass(frozen=True, slots=True)
class Line:
    """A row of the page: its cells, and where it comes from (``csv:3-5``)."""

    cells: Sequence[Cell]
    source: str = ""

    @property
    def label(self) -> str:
        """The label of its source: the table and its rows, counted from 1."""
        csv, _, rows = self.source.partition(":")
        counted = re.sub(r"\d+", lambda row: str(int(row[0]) + 1), rows).replace("-", "–")
        return f"{csv} {some_of(counted.split(','), 2)}"


@dataclass(frozen=True, slots=True)
class Table:
    """A table for the template; `count` is the number of all rows, including those not shown."""

    id: str
    caption: str
    heads: Sequence[str] = ()
    lines: Sequence[Line] = ()
    count: int = 0

    def numeric(self, place: int) -> bool:
        """Whether a column holds numbers."""
        return any(line.cells[place].numeric for line in self.lines)


def render(spec: Spec, frames: Mapping[str, pd.DataFrame], tables: Tables) -> Table:
    """A table; without rows where the study has none.

    Columns with one value in all rows are in its caption; empty columns are left out.
    """
    csv = spec.csv or spec.id
    frame = frames.get(csv, pd.DataFrame())
    frame = spec.rows(frame, tables) if len(frame) else frame
    if frame.empty:
        return Table(spec.id, spec.caption)
    keys = [name for key in spec.keys for name in _key(key, frame, tables)]
    if spec.wide:
        rows = list(_wide(frame, spec, keys))
    else:
        rows = [(row, [int(at)]) for at, row in zip(frame.index, records(frame), strict=True)]
    units = {**dict.fromkeys(keys, "level"), **{one: _UNIT_OF.get(one, "") for one in spec.columns}}
    shown = rows[:MOST_ROWS]
    columns = {
        _HEADS.get(name, name.replace("_", " ")): [_cell(name, unit, row) for row, _ in shown]
        for name, unit in units.items()
    }
    columns = {head: cells for head, cells in columns.items() if set(cells) != {EMPTY}}
    same = [head for head, cells in columns.items() if len(shown) > 1 and len(set(cells)) == 1]
    said = ", ".join(f"{head} {columns.pop(head)[0].text}" for head in same)
    return Table(
        spec.id,
        f"{spec.caption}; all rows: {said}" if said else spec.caption,
        list(columns),
        [
            Line(cells, _source(csv, row, labels))
            for (row, labels), *cells in zip(shown, *columns.values(), strict=True)
        ],
        len(rows),
    )


def _key(key: str, frame: pd.DataFrame, tables: Tables) -> list[str]:
    """A key; of SETTING the engine, factors that vary, and the step where there are several."""
    if key != SETTING:
        return [key]
    names = ["engine", *varying_factors(frame, tables.results.factors)]
    return [*names, "step"] if "step" in frame and frame["step"].nunique() > 1 else names


def _wide(
    frame: pd.DataFrame, spec: Spec, keys: Sequence[str]
) -> Iterable[tuple[dict[str, Any], list[int]]]:
    """One row per keys; keys may be missing in some rows, such as the factors of servers in those
    of embedded stores. Bounds of an interval and maxima go with their column."""
    more = [name for name in ("low", "high", "max") if name in frame]
    for levels, group in grouped(frame, keys):
        row = dict(zip(keys, levels, strict=True))
        for one in records(group):
            name = str(one[spec.wide])
            row[name] = one["mean"]
            row |= {f"{name}_{of}": one[of] for of in more}
        yield row, list(map(int, group.index))


def _source(csv: str, row: Mapping[str, Any], labels: Sequence[int]) -> str:
    if "source_row" in row:  # of the verdict: what it was made of
        return f"{row['source_table']}:{row['source_row']}" if row["source_row"] else ""
    return f"{csv}:{rows_as_text(labels)}"


def _cell(name: str, unit: str, row: Mapping[str, Any]) -> Cell:
    """A cell of a column; the unit of a mean may be in its row."""
    value = row.get(name)
    if name == "mean":
        unit = unit or str(row.get("unit") or "")
    if missing(value) or value == "":
        return EMPTY
    if isinstance(value, bool):
        return Cell("yes" if value else "no", str(value))
    if not isinstance(value, int | float):
        named = name == "engine" or (name in "ab" and row.get("factor") == "engine")
        text = " ".join(_BOXES.sub(" ", title(str(value)) if named else str(value)).split())
        return Cell(text[:_SIGNS] + ("…" if len(text) > _SIGNS else ""), text)
    return Cell(_number(value, unit), float(value), _note(name, row, unit))


def _number(value: float, unit: str) -> str:
    if value == 0 or math.isinf(value):
        return "0" if value == 0 else "never" if unit == "questions" else "unbounded"
    if unit == "share":
        value *= 100
    if unit in UNITS:
        return UNITS[unit](value)
    text = f"{value:,.0f}" if float(value).is_integer() and abs(value) < 1e6 else number(value)
    return f"{text} {unit}" if unit not in ("", "1") else text


def _note(name: str, row: Mapping[str, Any], unit: str) -> str:
    """The second line of a cell: the 95 % interval or the maximum."""
    prefix = "" if name == "mean" else f"{name}_"
    low, high, most = (row.get(f"{prefix}{end}") for end in ("low", "high", "max"))
    if most is not None and not missing(most) and most != row[name]:
        return f"max. {_number(float(most), unit)}"
    if low is None or high is None or missing(low) or missing(high) or low == high:
        return ""
    unit = unit if unit in UNITS else ""  # that of the value stands above already
    return f"{_number(float(low), unit)} to {_number(float(high), unit)}"
