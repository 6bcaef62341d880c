"""Columns as BSON documents (https://bsonspec.org/spec.html).

By the compiled core where it is there; else with `struct`: the fixed part of each document, then
its texts.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import lru_cache
from itertools import repeat
from operator import add, attrgetter
from struct import Struct, error
from typing import Any

import numpy as np

from storewise.documents import ID_BYTES, Kind
from storewise.ssearch.parse import compiled
from storewise.ssearch.parse.columns import NO_INTEGER, Columns
from storewise.ssearch.parse.documents import dicts_of, each_row, row_ids, to_bson

#: Texts of hits, which come again for each query.
_CACHED_HITS = 50_000
_Packed = tuple[list[bytes], list[bytes], list[bytes]]

#: BSON's type and the format of `struct` of a fixed value. The text of a TEXT element stands after
#: the fixed part; a LETTER is a string of one ASCII character and the NUL that ends it.
_ID, _INT, _FLOAT, _NULL = (b"\x07", f"{ID_BYTES}s"), (b"\x10", "i"), (b"\x01", "d"), (b"\x0a", "")
_TEXT, _LETTER = (b"\x02", "i"), (b"\x02", "i2s")
_Type = tuple[bytes, str]

#: Scores in the order of the align document: name, type and column.
_SCORES = (
    (b"b", _FLOAT, "bits"),
    (b"e", _FLOAT, "expect"),
    (b"s_w", _INT, "s_w"),
    (b"f", _LETTER, "frame"),
    (b"i", _FLOAT, "ident"),
    (b"o", _INT, "overlap"),
    (b"p", _INT, "score"),
    (b"si", _FLOAT, "sim"),
    (b"z", _FLOAT, "z"),
)


class _OtherLayoutError(Exception):
    """Raised where documents of one kind differ in the layout of their fixed parts."""


def bson_of(columns: Columns, digest: bytes, *, study_fields: bool) -> _Packed:
    """The rna, gs and align documents of whole columns, as BSON."""
    if not len(columns):
        return [], [], []
    if compiled.CORE:
        return compiled.bson(columns, digest, study_fields=study_fields)
    try:
        return _pack(columns, digest, study_fields=study_fields)
    except (_OtherLayoutError, error):
        # A number beyond 32 bits is an int64 in BSON, and a null has no value.
        rna, gs, align = dicts_of(columns, digest, study_fields=study_fields)
        return list(map(to_bson, rna)), list(map(to_bson, gs)), list(map(to_bson, align))


def _string(value: bytes) -> bytes:
    return (len(value) + 1).to_bytes(4, "little") + value + b"\0"


def _element(name: bytes, value: bytes | None) -> bytes:
    """A BSON element of type string, or null."""
    if value is None:
        return b"\x0a" + name + b"\0"
    return b"\x02" + name + b"\0" + _string(value)


def _documents(
    elements: Iterable[tuple[bytes, _Type, tuple[Iterable[Any], ...]]], tails: list[bytes]
) -> list[bytes]:
    """Documents of `elements` (name, type and values of the fixed part), each with its tail.

    Raises struct.error where a number does not fit into 32 bits.
    """
    form = "<i"
    columns: list[Iterable[Any]] = []
    for name, (kind, value_form), values in elements:
        start = kind + name + b"\0"
        form += f"{len(start)}s{value_form}"
        columns += [repeat(start), *values]
    layout = Struct(form)
    sizes = [layout.size + len(tail) for tail in tails]
    return list(map(add, map(layout.pack, sizes, *columns), tails))


@lru_cache(maxsize=_CACHED_HITS)
def _seqid(value: bytes) -> bytes:
    """The end of the string before it, and the element `seqid`."""
    return b"\0\x02seqid\0" + _string(value)


@lru_cache(maxsize=_CACHED_HITS)
def _names(gene: bytes, chromosome: bytes, has_gene: int, has_chr: int) -> bytes:
    """The elements `gene` and `chr`, and the end of the document."""
    return (
        _element(b"gene", gene if has_gene else None)
        + _element(b"chr", chromosome if has_chr else None)
        + b"\0"
    )


def _pack(columns: Columns, digest: bytes, *, study_fields: bool) -> _Packed:
    kinds = (Kind.RNA, Kind.GS, Kind.ALIGN)
    rna, gs, align = (row_ids(digest, kind, columns) for kind in kinds)
    seqids = map(_seqid, columns.text("seqid").texts(len(columns)))

    def ends(prefix: bytes) -> Iterator[bytes]:
        """The element `ti` of each row, and the end of its document."""
        return each_row(columns, lambda run: prefix + b"\x07ti\0" + run.task + b"\0")

    return (
        _sequences(columns, "query", Kind.RNA, rna, ends(b"\0")),
        _sequences(columns, "library", Kind.GS, gs, map(add, seqids, ends(b""))),
        _documents(
            (
                (b"_id", _ID, (align,)),
                (b"t", _INT, (repeat(Kind.ALIGN.code),)),
                *((name, *_values(columns, form, column)) for name, form, column in _SCORES),
                (b"rna", _ID, (rna,)),
                (b"gs", _ID, (gs,)),
                (b"ti", _ID, (each_row(columns, attrgetter("task")),)),
            ),
            [b"\0"] * len(columns) if study_fields else _texts(columns),
        ),
    )


def _sequences(
    columns: Columns, which: str, kind: Kind, own: list[bytes], ends: Iterable[bytes]
) -> list[bytes]:
    start, stop = columns.integer(f"{which}_start"), columns.integer(f"{which}_stop")
    if not columns.has[2:, : len(columns)].all():
        raise _OtherLayoutError
    sequences = columns.text(which).texts(len(columns))
    elements = (
        (b"_id", _ID, (own,)),
        (b"t", _INT, (repeat(kind.code),)),
        (b"b", _INT, (start.tolist(),)),
        (b"e", _INT, (stop.tolist(),)),
        (b"l", _INT, (np.abs(stop - start).tolist(),)),
        (b"s", _TEXT, ([len(sequence) + 1 for sequence in sequences],)),
    )
    return _documents(elements, list(map(add, sequences, ends)))


def _values(columns: Columns, form: _Type, column: str) -> tuple[_Type, tuple[Iterable[Any], ...]]:
    """Type and values of a score; `_OtherLayoutError` where only some rows have it."""
    if form is _LETTER:
        values: Any = columns.frame[: len(columns)]
        missing = values == 0
        values = values.view("S1")
    elif form is _FLOAT:
        values = columns.real(column)
        missing = np.isnan(values)
    else:
        values = columns.integer(column)
        missing = values == NO_INTEGER
    if missing.all():
        return _NULL, ()
    if missing.any():
        raise _OtherLayoutError
    return form, ((repeat(2),) if form is _LETTER else ()) + (values.tolist(),)


def _texts(columns: Columns) -> list[bytes]:
    """The last bytes of each row's BSON document: its elements `q`, `gene` and `chr`."""
    rows = len(columns)
    names = map(
        _names,
        columns.text("gene").texts(rows),
        columns.text("chr").texts(rows),
        *columns.has[:2, :rows].tolist(),
    )
    queries = each_row(columns, lambda run: _element(b"q", run.query.encode()))
    return list(map(add, queries, names))
