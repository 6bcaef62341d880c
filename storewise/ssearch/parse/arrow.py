"""Alignments and searches as Arrow record batches, without a copy of what columns hold."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt
import orjson
import pyarrow as pa

from storewise.documents import ID_BYTES, PARAMS_COLUMN, Document, Kind, fields
from storewise.ssearch.parse.columns import NO_INTEGER, Columns, TextColumn
from storewise.ssearch.parse.documents import ids

_ID = pa.binary(ID_BYTES)
TYPES = {"id": _ID, "int": pa.int64(), "float": pa.float64(), "str": pa.string()}


@lru_cache
def arrow_schema(kind: Kind, *, study_fields: bool = False) -> pa.Schema:
    """The columns of a kind; of open fields all others are one JSON object, in ``params``."""
    columns = [
        pa.field(field.name, TYPES[field.type], nullable=field.name != "_id")
        for field in fields(kind, study_fields=study_fields)
    ]
    if kind.open_fields:
        columns.append(pa.field(PARAMS_COLUMN, pa.string()))
    return pa.schema(columns)


def _ids(array: npt.NDArray[np.uint8]) -> Any:
    return pa.Array.from_buffers(_ID, len(array), [None, pa.py_buffer(array)])


def _texts(rows: int, ends: npt.NDArray[np.int32], data: Any, has: Any = None) -> Any:
    valid = None if has is None else pa.py_buffer(np.packbits(has != 0, bitorder="little"))
    return pa.Array.from_buffers(pa.string(), rows, [valid, pa.py_buffer(ends), pa.py_buffer(data)])


def _text(column: TextColumn, rows: int, has: Any = None) -> Any:
    return _texts(rows, column.ends[: rows + 1], column.data, has)


def _numbers(values: Any, missing: npt.NDArray[np.bool_]) -> Any:
    return pa.array(values, mask=missing) if missing.any() else pa.array(values)


def _frames(columns: Columns) -> Any:
    frame = columns.frame[: len(columns)]
    ends = np.zeros(len(frame) + 1, np.int32)
    has = frame != 0
    np.cumsum(has, out=ends[1:])
    return _texts(len(frame), ends, frame[has], None if has.all() else has)


def record_batches(
    columns: Columns, digest: bytes, *, study_fields: bool = False
) -> tuple[pa.RecordBatch, pa.RecordBatch, pa.RecordBatch]:
    """The rna, gs and align documents of whole columns. They share the columns' memory."""
    rows = len(columns)
    if not rows:
        rna, gs, align = (
            batch_of(kind, [], study_fields=study_fields)
            for kind in (Kind.RNA, Kind.GS, Kind.ALIGN)
        )
        return rna, gs, align
    own = {
        kind: _ids(ids(digest, kind, columns.first, rows))
        for kind in (Kind.RNA, Kind.GS, Kind.ALIGN)
    }
    tasks = np.frombuffer(
        b"".join(task * count for task, count in columns.repeated(lambda run: run.task)), np.uint8
    ).reshape(rows, ID_BYTES)
    ti = _ids(tasks)
    result = []
    sides = ((Kind.RNA, "query"), (Kind.GS, "library"))
    for (kind, which), has in zip(sides, columns.has[2:, :rows], strict=True):
        start, stop = columns.integer(f"{which}_start"), columns.integer(f"{which}_stop")
        values = {
            "_id": own[kind],
            "t": pa.array(np.full(rows, kind.code)),
            "b": pa.array(start),
            "e": pa.array(stop),
            "l": pa.array(np.abs(stop - start)),
            "s": _text(columns.text(which), rows, None if has.all() else has),
            "ti": ti,
        }
        if kind is Kind.GS:
            values["seqid"] = _text(columns.text("seqid"), rows)
        result.append(_batch(kind, values, study_fields=study_fields))
    values = {
        "_id": own[Kind.ALIGN],
        "t": pa.array(np.full(rows, Kind.ALIGN.code)),
        "f": _frames(columns),
        "rna": own[Kind.RNA],
        "gs": own[Kind.GS],
        "ti": ti,
    }
    for field, name in (("b", "bits"), ("e", "expect"), ("i", "ident"), ("si", "sim"), ("z", "z")):
        reals = columns.real(name)
        values[field] = _numbers(reals, np.isnan(reals))
    for field, name in (("s_w", "s_w"), ("o", "overlap"), ("p", "score")):
        integers = columns.integer(name)
        values[field] = _numbers(integers, integers == NO_INTEGER)
    if not study_fields:
        values["q"] = _queries(columns)
        for name, has in zip(("gene", "chr"), columns.has, strict=False):
            values[name] = _text(columns.text(name), rows, has[:rows])
    return *result, _batch(Kind.ALIGN, values, study_fields=study_fields)


def _queries(columns: Columns) -> Any:
    pieces = list(columns.repeated(lambda run: run.query.encode()))
    ends = np.zeros(len(columns) + 1, np.int32)
    widths = np.repeat([len(query) for query, _ in pieces], [count for _, count in pieces])
    np.cumsum(widths, out=ends[1:])
    return _texts(len(columns), ends, b"".join(query * count for query, count in pieces))


def _batch(kind: Kind, values: dict[str, Any], *, study_fields: bool) -> pa.RecordBatch:
    schema = arrow_schema(kind, study_fields=study_fields)
    return pa.RecordBatch.from_arrays([values[name] for name in schema.names], schema=schema)


@lru_cache
def _nothing(schema: pa.Schema) -> pa.RecordBatch:
    return pa.RecordBatch.from_pylist([], schema=schema)


def batch_of(
    kind: Kind, documents: Sequence[Document], *, study_fields: bool = False
) -> pa.RecordBatch:
    """Documents as a record batch, one value after the other: for the few tasks, and where
    documents are there already."""
    schema = arrow_schema(kind, study_fields=study_fields)
    if not documents:
        return _nothing(schema)
    known = set(schema.names)
    columns = {name: [d.get(name) for d in documents] for name in schema.names}
    if kind.open_fields:
        columns[PARAMS_COLUMN] = [
            orjson.dumps({k: v for k, v in d.items() if k not in known}).decode() for d in documents
        ]
    return pa.RecordBatch.from_pydict(columns, schema=schema)
