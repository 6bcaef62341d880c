"""Columns of alignments to documents, as dicts. `docs/documents.md` says where each value comes
from."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import chain, repeat
from operator import attrgetter
from typing import Any, TypeVar, cast

import bson
import numpy as np
import numpy.typing as npt
from bson.objectid import ObjectId

from storewise.documents import DIGEST_BYTES, ID_BYTES, ORDINAL_BITS, Document, Kind
from storewise.ssearch.parse.columns import NO_INTEGER, Columns, Run

_T = TypeVar("_T")
_ID_FIELDS = ("_id", "rna", "gs", "ti")
#: numpy's name of a type of 12 bytes.
ID_TYPE = f"V{ID_BYTES}"


def to_bson(document: Document) -> bytes:
    """A document as BSON: ids (12 bytes) become ObjectIds, None becomes null."""
    # ObjectId(None) would be a new id.
    return bson.encode(
        {
            name: ObjectId(value) if name in _ID_FIELDS and value is not None else value
            for name, value in document.items()
        }
    )


def ids(digest: bytes, kind: Kind, start: int, count: int) -> npt.NDArray[np.uint8]:
    """(count, 12) bytes: the ids of consecutive ordinals; `documents.make_id` without a call for
    each."""
    first = (kind.number << ORDINAL_BITS) + start
    tails = np.arange(first, first + count, dtype=np.uint64)
    # Three words of four bytes: by single bytes it takes four times as long.
    words = np.empty((count, 3), ">u4")
    words[:, 0] = int.from_bytes(digest[:4])
    words[:, 1] = (int.from_bytes(digest[4:DIGEST_BYTES]) << 8) + (tails >> np.uint64(32))
    words[:, 2] = tails & np.uint64(0xFFFFFFFF)
    return words.view(np.uint8)


def row_ids(digest: bytes, kind: Kind, columns: Columns) -> list[bytes]:
    """The ids of all rows of columns."""
    found = ids(digest, kind, columns.first, len(columns))
    return cast(list[bytes], found.view(ID_TYPE).ravel().tolist())


def each_row(columns: Columns, of: Callable[[Run], _T]) -> Iterator[_T]:
    """A value of each row's search."""
    return chain.from_iterable(repeat(value, count) for value, count in columns.repeated(of))


def _or_none(values: list[Any], missing: npt.NDArray[np.bool_]) -> list[Any]:
    for row in np.flatnonzero(missing).tolist():
        values[row] = None
    return values


def _integers(columns: Columns, name: str) -> list[int | None]:
    values = columns.integer(name)
    return _or_none(values.tolist(), values == NO_INTEGER)


def _reals(columns: Columns, name: str) -> list[float | None]:
    values = columns.real(name)
    return _or_none(values.tolist(), np.isnan(values))


def _texts(columns: Columns, name: str) -> list[str]:
    return list(map(bytes.decode, columns.text(name).texts(len(columns))))


def dicts_of(
    columns: Columns, digest: bytes, *, study_fields: bool
) -> tuple[list[Document], list[Document], list[Document]]:
    """The rna, gs and align documents of whole columns, as dicts."""
    rna_ids, gs_ids, align_ids = (
        row_ids(digest, kind, columns) for kind in (Kind.RNA, Kind.GS, Kind.ALIGN)
    )
    parts: list[list[Document]] = []
    for kind, which, id_list, has in (
        (Kind.RNA, "query", rna_ids, columns.has[2]),
        (Kind.GS, "library", gs_ids, columns.has[3]),
    ):
        sequences = _or_none(_texts(columns, which), has[: len(columns)] == 0)
        start, stop = columns.integer(f"{which}_start"), columns.integer(f"{which}_stop")
        spans = np.abs(stop - start)
        rows = zip(
            id_list, start.tolist(), stop.tolist(), spans.tolist(), sequences,
            each_row(columns, attrgetter("task")), strict=True,
        )  # fmt: skip
        t = kind.code
        if kind is Kind.RNA:
            parts.append(
                [
                    {"_id": i, "t": t, "b": b, "e": e, "l": n, "s": s, "ti": ti}
                    for i, b, e, n, s, ti in rows
                ]
            )
        else:
            named = zip(rows, _texts(columns, "seqid"), strict=True)
            parts.append(
                [
                    {"_id": i, "t": t, "b": b, "e": e, "l": n, "s": s, "seqid": seqid, "ti": ti}
                    for (i, b, e, n, s, ti), seqid in named
                ]
            )
    frames = [chr(frame) if frame else None for frame in columns.frame[: len(columns)].tolist()]
    t = Kind.ALIGN.code
    align: list[Document] = [
        {
            "_id": i, "t": t, "b": b, "e": e, "s_w": s_w, "f": f, "i": ident, "o": o, "p": p,
            "si": si, "z": z, "rna": rna, "gs": gs, "ti": ti,
        }
        for i, b, e, s_w, f, ident, o, p, si, z, rna, gs, ti in zip(
            align_ids, _reals(columns, "bits"), _reals(columns, "expect"),
            _integers(columns, "s_w"), frames, _reals(columns, "ident"),
            _integers(columns, "overlap"), _integers(columns, "score"), _reals(columns, "sim"),
            _reals(columns, "z"), rna_ids, gs_ids, each_row(columns, attrgetter("task")),
            strict=True,
        )
    ]  # fmt: skip
    if not study_fields:
        genes, chromosomes = (
            _or_none(_texts(columns, name), has[: len(columns)] == 0)
            for name, has in zip(("gene", "chr"), columns.has, strict=False)
        )
        queries = each_row(columns, attrgetter("query"))
        for document, query, gene, chromosome in zip(
            align, queries, genes, chromosomes, strict=True
        ):
            document["q"], document["gene"], document["chr"] = query, gene, chromosome
    return parts[0], parts[1], align


def task_document(
    identity: bytes, query: str, library: str, parameters: dict[str, str], *, study_fields: bool
) -> Document:
    """The tasks document of one query-library search."""
    document: Document = {"_id": identity, "t": Kind.TASKS.code}
    if not study_fields:
        document.update(q=query, lib=library)
    document.update(parameters)
    return document
