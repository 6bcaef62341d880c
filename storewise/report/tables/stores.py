"""Tables of the page about stores: rates, times, scaling, and what they stored."""

from __future__ import annotations

import math
from collections.abc import Sequence

import pandas as pd

from storewise.analysis.common.engines import BASELINE, CEILING
from storewise.analysis.common.frames import grouped, missing, records
from storewise.analysis.common.text import binary, count, number, seconds
from storewise.analysis.model.columns import EFFICIENCY, OTHER
from storewise.analysis.model.tables import Tables
from storewise.report.data.rows import ROWS, wide_marks
from storewise.report.tables import cells
from storewise.report.tables.cells import Cell, Column, Row, Show, Table

_MEASURES = {
    "documents_per_s": "documents per second",
    "insert_documents_per_s": "documents per second without parsing",
    "operations_per_s": "operations per second",
}


def rate_table(tables: Tables) -> Table:
    """Throughput over repeats."""
    rates = tables.rates[tables.rates["measure"].isin(_MEASURES)]
    rates = _of_stores(rates)
    rates = cells.in_order_of_phases(rates, tables)
    loads = set(rates.loc[rates["measure"] == "insert_documents_per_s", "phase"])
    # What loads inserts batches, and a read by id gets documents: they are told in documents alone.
    # A question or a mixture moves any number of them.
    in_documents = rates["phase"].isin(loads)
    if tables.results.study.get("workload", "alignments") == "alignments":
        in_documents |= rates["phase"] == "read"
    rates = rates[~(in_documents & (rates["measure"] == "operations_per_s"))]

    def measure(row: Row) -> str:
        # The files themselves store nothing: said where their rates stand beside those of stores.
        note = ""
        if row["engine"] == BASELINE and row["phase"] in loads:
            note = " (parsing only, nothing is loaded)"
        elif row["engine"] == BASELINE and row["phase"] == "mixed":
            note = " (its inserts store nothing)"
        return _MEASURES[row["measure"]] + note

    columns = [
        *cells.texts("phase"),
        *cells.levels(cells.row_keys(rates, tables)),
        Column("measure", lambda row: cells.text_cell(measure(row))),
        cells.mean(),
        *cells.figures(str, n="repeats"),
    ]
    return cells.table_of("rates", "Throughput, mean over repeats", rates, "summary", columns)


def _of_stores(rates: pd.DataFrame) -> pd.DataFrame:
    """Rates without those of the null engine, which stores nothing: figures show the client's
    ceiling."""
    return rates if rates.empty else rates[rates["engine"] != CEILING]


def latency_table(tables: Tables) -> Table:
    """Latency percentiles, one row per operation and time."""
    times = tables.latency_summary
    keys = ["phase", *cells.row_keys(times, tables), "operation", "time"]
    if times.empty:
        return Table("latency", "Latency", [*keys, "operations"], [])
    percentiles = list(dict.fromkeys(times["percentile"]))
    counts = times.assign(count=times.groupby(keys, dropna=False)["count"].transform("max"))
    wide = wide_of(counts, [*keys, "count"], "percentile", "mean")
    # One row where response and service time are equal, as in any closed loop.
    same = [*keys[:-1], "count", *percentiles]
    both = wide.duplicated(same, keep=False)
    wide = wide.assign(time=wide["time"].where(~both, "service = response"))
    wide = cells.in_order_of_phases(wide.drop_duplicates([*same, "time"]), tables)
    return Table.of(
        "latency",
        "Latency: means over repeats of each trial's percentiles; too few: fewer than ten "
        "operations of a trial lie above it",
        records(wide),
        [
            *cells.levels(keys),
            *map(_percentile, percentiles),
            *cells.figures(cells.whole, count="operations"),
        ],
        wide_marks("summary", wide),
    )


def _percentile(name: str) -> Column:
    """A percentile, where the sample tells it."""

    def cell(row: Row) -> Cell:
        few = missing(row[name])
        return Cell("too few", -math.inf, True) if few else cells.number_cell(row[name], seconds)

    return Column(name, cell)


def wide_of(table: pd.DataFrame, keys: Sequence[str], column: str, value: str) -> pd.DataFrame:
    """One row per `keys`, one column per value of `column`; keys may be missing in some rows,
    such as the factors of servers in those of embedded stores."""
    return pd.DataFrame(
        [
            {
                **dict(zip(keys, key, strict=True)),
                **dict(zip(group[column], group[value], strict=True)),
                ROWS: tuple(group.index),
            }
            for key, group in grouped(table, keys)
        ]
    )


def scaling_table(tables: Tables) -> Table:
    """Efficiency: speed-up over the ratio of the levels."""
    rows = _of_stores(tables.summary[tables.summary["measure"] == EFFICIENCY])
    rows = cells.in_order_of_phases(rows, tables)
    columns = [
        *cells.levels(["phase", *cells.row_keys(rows, tables)]),
        *cells.texts(**{OTHER: "level"}),
        cells.mean("efficiency"),
    ]
    caption = "Scaling: speed-up over the ratio of the levels; 1 is ideal"
    return cells.table_of("scaling", caption, rows, "summary", columns)


_SIZES: dict[str, tuple[str, Show]] = {
    "store_bytes": ("size on disk", binary),
    "bytes_per_document": ("bytes per document", number),
    "share_of_input": ("share of the inputs on disk", number),
    "share_of_raw_input": ("share of the inputs decompressed", number),
    "node_bytes": ("whole directories of servers", binary),
    "node_bytes_per_document": ("these per document", number),
    "holds_from": ("documents from which on 90 % of them is data", count),
    "files": ("files", count),
    "inodes": ("files and directories", count),
    "metadata_operations": ("metadata operations of the load, at least", count),
}


def storage_table(tables: Tables) -> Table:
    """Bytes on disk and files over repeats."""
    sizes = tables.storage_summary
    names = [name for name in cells.row_keys(sizes, tables) if name != "step"]
    present = [name for name in _SIZES if name in set(sizes["measure"])]
    wide = wide_of(sizes, names, "measure", "mean").reindex(columns=[*names, *present, ROWS])
    caption = "Storage after the load"
    if "node_bytes" in present:
        caption += (
            ": what the data take, by which stores are judged, and what the whole directories of "
            "servers take, with logs and files of fixed size"
        )
    if "inodes" in present:
        caption += (
            "; files are those of all workers or servers together, of the files themselves the "
            "inputs too"
        )
    return Table.of(
        "storage",
        caption,
        records(wide),
        [
            *cells.levels(names),
            *(
                c
                for name in present
                for c in cells.figures(_SIZES[name][1], **{name: _SIZES[name][0]})
            ),
        ],
        wide_marks("summary", wide),
    )


def verification_table(tables: Tables) -> Table:
    """What the verification found."""
    numbers = ["expected", "counted", "checked", "lost", "wrong"]
    return cells.table_of(
        "verification",
        "Verification: documents by kind",
        tables.verification,
        "verification",
        [*cells.texts("trial", "kind"), *cells.figures(cells.whole, *numbers)],
    )
