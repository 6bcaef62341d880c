"""Columns as BSON documents (https://bsonspec.org/spec.html).

By the compiled core where it is there; else all fixed parts of a kind's documents as one array,
the texts behind them.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from itertools import chain, repeat
from operator import add
from typing import Any, cast

import numpy as np

from storewise.documents import Kind
from storewise.ssearch.parse import compiled
from storewise.ssearch.parse.columns import NO_INTEGER, Columns
from storewise.ssearch.parse.documents import ID_TYPE, dicts_of, ids, to_bson

#: Texts of hits, which come again for each query.
_REMEMBERED = 50_000
_Packed = tuple[list[bytes], list[bytes], list[bytes]]


def bson_of(columns: Columns, digest: bytes, *, study_fields: bool) -> _Packed:
    """The rna, gs and align documents of whole columns, as BSON."""
    if not len(columns):
        return [], [], []
    if compiled.CORE:
        return compiled.bson(columns, digest, study_fields=study_fields)
    try:
        return _pack(columns, digest, study_fields=study_fields)
    except OverflowError:
        # A number beyond 32 bits is an int64 in BSON, and a null has no value: other layouts.
        rna, gs, align = dicts_of(columns, digest, study_fields=study_fields)
        return list(map(to_bson, rna)), list(map(to_bson, gs)), list(map(to_bson, align))


def _string(value: bytes) -> bytes:
    return (len(value) + 1).to_bytes(4, "little") + value + b"\0"


def _element(name: bytes, value: bytes | None) -> bytes:
    """A BSON element of type string, or null."""
    if value is None:
        return b"\x0a" + name + b"\0"
    return b"\x02" + name + b"\0" + _string(value)


_ID, _INT, _FLOAT, _CHARACTER, _TEXT = ID_TYPE, "<i4", "<f8", "S1", "text"
_INT_MAX = (1 << 31) - 1
_BSON_TYPES = {
    _ID: b"\x07",
    _INT: b"\x10",
    _FLOAT: b"\x01",
    _CHARACTER: b"\x02",
    _TEXT: b"\x02",
    None: b"\x0a",
}


class _Packer:
    """Fixed parts of BSON documents (https://bsonspec.org/spec.html), packed as one array.

    An array of records whose constant bytes (types and names of the elements) are copied from a
    template and whose values are set column by column.
    """

    def __init__(self, fields: Iterable[tuple[bytes, str | None]]) -> None:
        """`fields` are (name, format of the value); `_TEXT` is the length of a string whose bytes
        come behind the fixed part, `_CHARACTER` a string of one ASCII character, None a null.
        """
        template = bytearray(4)
        names, formats, offsets = ["size"], [_INT], [0]
        for name, form in fields:
            template += _BSON_TYPES[form] + name + b"\0"
            if form is None:
                continue
            if form == _CHARACTER:
                template += (2).to_bytes(4, "little")
            names.append(name.decode())
            formats.append(_INT if form == _TEXT else form)
            offsets.append(len(template))
            template += bytes(np.dtype(formats[-1]).itemsize)
            if form == _CHARACTER:
                template += b"\0"
        self.size = len(template)
        self._template = bytes(template)
        self._names = names
        self._dtype = np.dtype(
            {"names": names, "formats": formats, "offsets": offsets, "itemsize": self.size}
        )

    def pack(self, *columns: Any) -> list[bytes]:
        """The fixed parts, from the whole documents' sizes and the fields that are not null.

        Raises OverflowError where a number does not fit into 32 bits.
        """
        records = np.frombuffer(bytearray(self._template * len(columns[0])), self._dtype)
        for name, column in zip(self._names, columns, strict=True):
            # From an array (not from a list) numpy would take the lower half in silence.
            if (
                isinstance(column, np.ndarray)
                and column.dtype == np.int64
                and (column.max() > _INT_MAX or column.min() < -_INT_MAX)
            ):
                raise OverflowError(name)
            records[name] = column
        return cast(list[bytes], records.view(f"V{self.size}").tolist())


_SEQUENCE_PACKER = _Packer(
    ((b"_id", _ID), (b"t", _INT), (b"b", _INT), (b"e", _INT), (b"l", _INT), (b"s", _TEXT))
)
_ALIGN_FIELDS = (
    (b"b", _FLOAT, "bits"),
    (b"e", _FLOAT, "expect"),
    (b"s_w", _INT, "s_w"),
    (b"f", _CHARACTER, "frame"),
    (b"i", _FLOAT, "ident"),
    (b"o", _INT, "overlap"),
    (b"p", _INT, "score"),
    (b"si", _FLOAT, "sim"),
    (b"z", _FLOAT, "z"),
)


@lru_cache(maxsize=_REMEMBERED)
def _seqid(value: bytes) -> bytes:
    """What ends the string before it, and the element `seqid`."""
    return b"\0\x02seqid\0" + _string(value)


@lru_cache(maxsize=_REMEMBERED)
def _names(gene: bytes, chromosome: bytes, has_gene: int, has_chr: int) -> bytes:
    """The elements `gene` and `chr`, and the end of the document."""
    return (
        _element(b"gene", gene if has_gene else None)
        + _element(b"chr", chromosome if has_chr else None)
        + b"\0"
    )


def _pack(columns: Columns, digest: bytes, *, study_fields: bool) -> _Packed:
    rows = len(columns)
    own = [
        ids(digest, kind, columns.first, rows).view(_ID).ravel()
        for kind in (Kind.RNA, Kind.GS, Kind.ALIGN)
    ]
    tasks = list(columns.repeated(lambda run: b"\x07ti\0" + run.task + b"\0"))
    ends = chain.from_iterable(repeat(b"\0" + task, count) for task, count in tasks)
    rna = _sequences(columns, "query", own[0], Kind.RNA.code, list(ends))
    ends = chain.from_iterable(repeat(task, count) for task, count in tasks)
    tails = list(map(add, map(_seqid, columns.text("seqid").texts(rows)), ends))
    gs = _sequences(columns, "library", own[1], Kind.GS.code, tails)
    return rna, gs, _aligns(columns, own, study_fields=study_fields)


def _sequences(
    columns: Columns, which: str, own: Any, code: int, tails: list[bytes]
) -> list[bytes]:
    start, stop = columns.integer(f"{which}_start"), columns.integer(f"{which}_stop")
    sequences = columns.text(which).texts(len(columns))
    ends = list(map(add, sequences, tails))
    widths = np.diff(columns.text(which).ends[: len(columns) + 1])
    heads = _SEQUENCE_PACKER.pack(
        widths + np.fromiter(map(len, tails), np.int32, len(tails)) + _SEQUENCE_PACKER.size,
        own,
        code,
        start,
        stop,
        np.abs(stop - start),
        widths + 1,
    )
    return list(map(add, heads, ends))


def _aligns(columns: Columns, own: list[Any], *, study_fields: bool) -> list[bytes]:
    rows = len(columns)
    values: list[Any] = []
    present: list[bool] = []
    for _, form, name in _ALIGN_FIELDS:
        if form == _CHARACTER:
            value: Any = columns.frame[:rows]
            missing = value == 0
            value = value.view("S1")
        elif form == _FLOAT:
            value = columns.real(name)
            missing = np.isnan(value)
        else:
            value = columns.integer(name)
            missing = value == NO_INTEGER
        there = not missing.any()
        if not there and not missing.all():
            raise OverflowError(name)
        present.append(there)
        if there:
            values.append(value)
    if study_fields:
        tails = [b"\0"] * rows
    else:
        named = map(
            _names,
            columns.text("gene").texts(rows),
            columns.text("chr").texts(rows),
            *columns.has[:, :rows].tolist(),
        )
        queries = chain.from_iterable(
            repeat(_element(b"q", query), count)
            for query, count in columns.repeated(lambda run: run.query.encode())
        )
        tails = list(map(add, queries, named))
    packer = _align_packer(tuple(present))
    tasks = np.concatenate(
        [np.full(count, np.void(task)) for task, count in columns.repeated(lambda run: run.task)]
    )
    heads = packer.pack(
        np.fromiter(map(len, tails), np.int32, rows) + packer.size,
        own[2],
        Kind.ALIGN.code,
        *values,
        own[0],
        own[1],
        tasks,
    )
    return list(map(add, heads, tails))


@lru_cache
def _align_packer(present: tuple[bool, ...]) -> _Packer:
    optional = (
        (name, form if there else None)
        for (name, form, _), there in zip(_ALIGN_FIELDS, present, strict=True)
    )
    return _Packer(
        ((b"_id", _ID), (b"t", _INT), *optional, (b"rna", _ID), (b"gs", _ID), (b"ti", _ID))
    )
