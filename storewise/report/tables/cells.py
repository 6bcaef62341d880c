"""Tables of the page: what is shown in a cell and what it sorts by."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pandas as pd

from storewise.analysis.common.engines import BASELINE, title, varying_factors
from storewise.analysis.common.frames import grouped, missing, records
from storewise.analysis.common.text import binary, level, number, seconds
from storewise.analysis.files.parts import SESSION
from storewise.analysis.model.tables import Tables
from storewise.report.data.rows import ROWS, Mark, mark_of, marks, wide_marks


@dataclass(frozen=True, slots=True)
class Cell:
    """One cell; `order` is what it sorts by, `numeric` puts it to the right.

    `note` is a second line; `source` (``table:row``) and its `label` are of a cell that comes from
    another row of a file than the rest of its row.
    """

    text: str
    order: str | float
    numeric: bool = False
    note: str = ""
    source: str = ""
    label: str = ""
    best: bool = False
    """Whether it is of the best group of its column, which its note says too."""


@dataclass(frozen=True, slots=True)
class Table:
    """One table of the page."""

    id: str
    caption: str
    columns: Sequence[str]
    rows: Sequence[Sequence[Cell]]
    marks: Sequence[Mark] = ()
    """Where each row comes from; none where it is no row of a file."""

    def numeric(self, column: int) -> bool:
        """Whether a column holds numbers."""
        return bool(self.rows) and all(row[column].numeric for row in self.rows)


def text_cell(value: Any) -> Cell:
    """A cell of text; missing values are shown as a dash."""
    if missing(value):
        return Cell("–", "")
    return Cell(str(value), str(value))


def number_cell(value: float | None, text: str | None = None) -> Cell:
    """A cell of a number; `text` is its form with a unit."""
    if value is None or not math.isfinite(value):
        return Cell("–", -math.inf, True)
    return Cell(number(value) if text is None else text, float(value), True)


def level_cell(name: str, value: Any) -> Cell:
    """A cell of a factor's level."""
    if name == "engine":
        return text_cell(title(str(value)))
    if isinstance(value, int | float) and not isinstance(value, bool):
        return number_cell(float(value), level(value) if math.isfinite(value) else None)
    return text_cell(value)


def _interval(row: dict[str, Any]) -> Cell:
    if row["resampled"] == "none" or not math.isfinite(row["low"]):
        return Cell("none", -math.inf, True)
    if row["resampled"] == "counted":
        return Cell("counted", float(row["low"]), True)
    basis = " (seconds of one run)" if row["resampled"] == "seconds" else ""
    return Cell(f"{number(row['low'])} to {number(row['high'])}{basis}", float(row["low"]), True)


_MEASURES = {
    "documents_per_s": "documents per second",
    "insert_documents_per_s": "documents per second without parsing",
    "operations_per_s": "operations per second",
}


def rate_table(tables: Tables) -> Table:
    """Throughput over repeats."""
    found = tables.summary[tables.summary["measure"].isin(_MEASURES)]
    found = _phases_in_order(found, tables)
    loads = set(found.loc[found["measure"] == "insert_documents_per_s", "phase"])
    # What loads inserts batches, and a read by id gets documents: they are told in documents alone.
    # A question or a mixture moves any number of them.
    told = found["phase"].isin(loads)
    if tables.results.study.get("workload", "alignments") == "alignments":
        told |= found["phase"] == "read"
    found = found[~(told & (found["measure"] == "operations_per_s"))]
    names = ["engine", *varying_factors(found, tables.results.factors)]
    names += ["step"] if found["step"].nunique() > 1 else []
    rows = [
        [
            text_cell(row["phase"]),
            *(level_cell(n, row[n]) for n in names),
            text_cell(_MEASURES[row["measure"]] + _no_load(row, loads)),
            number_cell(row["mean"]),
            _interval(row),
            number_cell(row["n"], str(row["n"])),
        ]
        for row in records(found)
    ]
    heads = ["phase", *names, "measure", "mean", "95 % interval", "repeats"]
    return Table("rates", "Throughput, mean over repeats", heads, rows, marks("summary", found))


def _no_load(row: dict[str, Any], loads: set[str]) -> str:
    """The files themselves store nothing: said where their rates stand beside those of stores."""
    if row["engine"] != BASELINE:
        return ""
    if row["phase"] in loads:
        return " (parsing only, nothing is loaded)"
    return " (its inserts store nothing)" if row["phase"] == "mixed" else ""


def latency_table(tables: Tables) -> Table:
    """Latency percentiles, one row per operation and time."""
    found = tables.latency_summary
    names = ["engine", *varying_factors(found, tables.results.factors)]
    names += ["step"] if len(found) and found["step"].nunique() > 1 else []
    keys = ["phase", *names, "operation", "time"]
    order = list(dict.fromkeys(found["percentile"]))
    if found.empty:
        return Table("latency", "Latency", [*keys, "operations"], [])
    wide = _wide(found, [*keys, "count"], "percentile", "value")
    wide = _phases_in_order(_equal_times_once(wide, [*keys[:-1], "count", *order]), tables)
    rows = [
        [
            *(level_cell(k, row[k]) for k in keys),
            *(number_cell(row[p], seconds(row[p])) for p in order),
            number_cell(row["count"], f"{row['count']:,.0f}"),
        ]
        for row in records(wide)
    ]
    return Table(
        "latency",
        "Latency percentiles from the histograms of all workers and repeats together",
        [*keys, *order, "operations"],
        rows,
        wide_marks("latency_summary", wide),
    )


def _wide(found: pd.DataFrame, keys: Sequence[str], column: str, value: str) -> pd.DataFrame:
    """One row per `keys`, one column per value of `column`; keys may be missing in some rows,
    such as the factors of servers in those of embedded stores."""
    return pd.DataFrame(
        [
            {
                **dict(zip(keys, key, strict=True)),
                **dict(zip(group[column], group[value], strict=True)),
                ROWS: tuple(group.index),
            }
            for key, group in grouped(found, keys)
        ]
    )


def _equal_times_once(wide: pd.DataFrame, same: list[str]) -> pd.DataFrame:
    """One row where response and service time are equal, as in any closed loop."""
    both = wide.duplicated(same, keep=False)
    merged = wide.assign(time=wide["time"].where(~both, "service = response"))
    return merged.drop_duplicates([*same, "time"])


def _phases_in_order(found: pd.DataFrame, tables: Tables) -> pd.DataFrame:
    order = {phase: place for place, phase in enumerate(tables.phases_of(found))}
    return found.sort_values("phase", key=lambda names: names.map(order), kind="stable")


def storage_table(tables: Tables) -> Table:
    """Bytes on disk over repeats."""
    found = tables.storage_summary
    names = ["engine", *varying_factors(found, tables.results.factors)]
    measures = ["store_bytes", "bytes_per_document", "share_of_input", "share_of_raw_input"]
    measures.append("node_bytes")
    present = [m for m in measures if m in set(found["measure"])]
    heads = {
        "store_bytes": "size on disk",
        "bytes_per_document": "bytes per document",
        "share_of_input": "against the inputs as they lie on disk",
        "share_of_raw_input": "against the inputs decompressed",
        "node_bytes": "data directories of the servers at their end",
    }
    rows, origins = [], []
    if not found.empty:
        wide = _wide(found, names, "measure", "mean").reindex(columns=[*names, *present, ROWS])
        origins = wide_marks("storage_summary", wide)
        rows = [
            [
                *(level_cell(n, row[n]) for n in names),
                *(number_cell(row[m], _size(row[m]) if m in _SIZES else None) for m in present),
            ]
            for row in records(wide)
        ]
    told = [*names, *(heads[m] for m in present)]
    return Table("storage", "Storage after the load", told, rows, origins)


_SIZES = ("store_bytes", "node_bytes")


def _size(value: float) -> str:
    return binary(value) if math.isfinite(value) else "–"


def scaling_table(tables: Tables) -> Table:
    """Speed-up and efficiency."""
    found = tables.scaling[tables.scaling["measure"] == "documents_per_s"]
    found = _phases_in_order(found[found["level"] > found["base"]], tables)
    rows = []
    if not found.empty:
        # The factor of a row has its levels in the row's own column.
        alone = set(found["factor"]) if found["factor"].nunique() == 1 else set()
        held = [
            n for n in varying_factors(tables.scaling, tables.results.factors) if n not in alone
        ]
        rows = [
            [
                text_cell(row["phase"]),
                level_cell("engine", row["engine"]),
                *(level_cell(n, math.nan if n == row["factor"] else row[n]) for n in held),
                text_cell(f"{row['factor']} {row['base']:g} → {row['level']:g}"),
                text_cell({"speedup": "speed-up"}.get(row["quantity"], row["quantity"])),
                number_cell(row["mean"]),
                _interval(row),
            ]
            for row in records(found)
        ]
        heads = ["phase", "engine", *held, "from → to", "quantity", "mean", "95 % interval"]
    else:
        heads = ["phase", "engine", "from → to", "quantity", "mean", "95 % interval"]
    return Table("scaling", "Scaling", heads, rows, marks("scaling", found))


#: Lines of a table about hosts; of a study with more, each trial has the host that tells most.
MOST_LINES = 2_000
_LOAD = {
    "client_cpu": ("busiest client process, cores", None),
    "client_rss": ("memory of clients", binary),
    "router_cpu": ("routers beside them, cores", None),
    "cpu_user": ("CPU user, %", None),
    "cpu_system": ("CPU system, %", None),
    "cpu_iowait": ("CPU iowait, %", None),
    "memory_used": ("memory used", binary),
    "disk_write": ("disk write per s", binary),
    "disk_read": ("disk read per s", binary),
    "disk_busy": ("disk busy, %", None),
}


def load_table(tables: Tables) -> Table:
    """Load of clients and their hosts: the mean over a phase, the maximum in brackets.

    Of more than MOST_LINES lines those of the host with the busiest client of each phase.
    """
    found = tables.host[tables.host["metric"].isin(_LOAD) & (tables.host["phase"] != SESSION)]
    own = ["trial", "phase", "step", "host"]
    clients = found[found["metric"] == "client_cpu"].drop_duplicates(own)
    caption = "Load of clients and hosts: mean (maximum)"
    if len(clients) > MOST_LINES:
        busiest = clients.sort_values("mean", ascending=False, kind="stable")
        clients = busiest.drop_duplicates(own[:3])
        caption += "; of each phase the host with the busiest client, all are in analysis/host.csv"
    place = pd.MultiIndex.from_frame(found[own])
    found = found[place.isin(pd.MultiIndex.from_frame(clients[own]))]
    present = [m for m in _LOAD if m in set(found["metric"])]
    rows: list[list[Cell]] = []
    origins: list[Mark] = []
    several = found["host"].nunique() > 1
    for key, group in found.groupby(own, sort=True):
        by_metric = {row["metric"]: row for row in records(group)}
        cells = [text_cell(key[0]), text_cell(key[1])]
        cells += [text_cell(key[3])] if several else []
        for metric in present:
            row = by_metric.get(metric)
            if row is None:
                cells.append(number_cell(math.nan))
                continue
            show = _LOAD[metric][1] or number
            cells.append(number_cell(row["mean"], f"{show(row['mean'])} ({show(row['max'])})"))
        rows.append(cells)
        origins.append(mark_of("host", group, trial=key[0], phase=key[1]))
    heads = ["trial", "phase", *(["host"] if several else []), *(_LOAD[m][0] for m in present)]
    return Table("load", caption, heads, rows, origins)


def verification_table(tables: Tables) -> Table:
    """What the verification found."""
    numbers = ["expected", "counted", "checked", "lost", "wrong"]
    rows = [
        [
            text_cell(row["trial"]),
            text_cell(row["kind"]),
            *(
                number_cell(row[n], f"{row[n]:,.0f}" if math.isfinite(row[n]) else None)
                for n in numbers
            ),
        ]
        for row in records(tables.verification)
    ]
    return Table(
        "verification",
        "Verification: documents by kind",
        ["trial", "kind", *numbers],
        rows,
        marks("verification", tables.verification),
    )


def canary_table(tables: Tables) -> Table:
    """The canary before each trial; of more than MOST_LINES hosts the slowest of each trial."""
    found: pd.DataFrame = tables.canary
    keys = ["trial", "taken_by", "host"]
    caption = "Canary before each trial: how fast the machine was"
    taken = found[found["metric"] == "canary_cpu"]
    if len(taken) > MOST_LINES:
        slowest = taken.sort_values("value", kind="stable").drop_duplicates(keys[:2])
        place = pd.MultiIndex.from_frame(found[keys])
        found = found[place.isin(pd.MultiIndex.from_frame(slowest[keys]))]
        caption += "; the slowest host of each, all are in analysis/canary.csv"
    rows: list[list[Cell]] = []
    origins: list[Mark] = []
    for (trial, by, host), group in found.groupby(keys, sort=True):
        values = dict(zip(group["metric"], group["value"], strict=True))
        origins.append(mark_of("canary", group, trial=trial))
        rows.append(
            [
                text_cell(trial),
                text_cell(by),
                text_cell(host),
                number_cell(values.get("canary_cpu", math.nan)),
                *(
                    number_cell(v, f"{binary(v)}/s" if math.isfinite(v) else None)
                    for v in (
                        values.get("canary_disk_write", math.nan),
                        values.get("canary_disk_read", math.nan),
                    )
                ),
            ]
        )
    return Table(
        "canary",
        caption,
        ["trial", "host of", "host", "digests per s", "disk write", "disk read"],
        rows,
        origins,
    )
