"""Alignments to documents: one by one for the reference reader, by columns for the fast one.

The two ways share nothing but the field names and ids, so that the tests that compare them
compare something. `docs/documents.md` says where each value comes from.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from operator import add
from typing import Any, cast

import bson
import numpy as np
from bson.objectid import ObjectId

from storewise.documents import DIGEST_BYTES, ID_BYTES, ORDINAL_BITS, Document, Kind, make_id
from storewise.ssearch.parse.fast import Columns, Integers
from storewise.ssearch.parse.grammar import Alignment, Hit, read_hit

_ID_FIELDS = ("_id", "rna", "gs", "ti")
_T_RNA, _T_GS, _T_ALIGN = Kind.RNA.code, Kind.GS.code, Kind.ALIGN.code
#: Hit lines remembered: each library sequence comes back for each query, frame and alignment.
_REMEMBERED_HITS = 50_000


def to_bson(document: Document) -> bytes:
    """A document as BSON: ids (12 bytes) become ObjectIds, None becomes null."""
    return bson.encode({k: ObjectId(v) if k in _ID_FIELDS else v for k, v in document.items()})


def _length(start: int, stop: int) -> int:
    return abs(stop - start)


def documents_of(
    row: Alignment, digest: bytes, ordinal: int, task: bytes, query: str, *, study_fields: bool
) -> tuple[Document, Document, Document]:
    """The rna, gs and align documents of one alignment."""
    hit = read_hit(row.hit)
    rna: Document = {
        "_id": make_id(digest, Kind.RNA, ordinal),
        "t": Kind.RNA.code,
        "b": row.query_start,
        "e": row.query_stop,
        "l": _length(row.query_start, row.query_stop),
        "s": row.query_sequence.decode("ascii"),
        "ti": task,
    }
    gs: Document = {
        "_id": make_id(digest, Kind.GS, ordinal),
        "t": Kind.GS.code,
        "b": row.library_start,
        "e": row.library_stop,
        "l": _length(row.library_start, row.library_stop),
        "s": row.library_sequence.decode("ascii"),
        "seqid": hit.seqid,
        "ti": task,
    }
    align: Document = {
        "_id": make_id(digest, Kind.ALIGN, ordinal),
        "t": Kind.ALIGN.code,
        "b": row.bits,
        "e": row.expect,
        "s_w": row.s_w,
        "f": row.frame,
        "i": row.ident,
        "o": row.overlap,
        "p": row.score,
        "si": row.sim,
        "z": row.z,
        "rna": rna["_id"],
        "gs": gs["_id"],
        "ti": task,
    }
    if not study_fields:
        align.update(q=query, gene=hit.gene, chr=hit.chromosome)
    return rna, gs, align


def _string(value: str) -> bytes:
    data = value.encode()
    return (len(data) + 1).to_bytes(4, "little") + data + b"\0"


def _element(name: bytes, value: str | None) -> bytes:
    """A BSON element of type string, or null."""
    if value is None:
        return b"\x0a" + name + b"\0"
    return b"\x02" + name + b"\0" + _string(value)


@dataclass(slots=True)
class _PackedHit:
    """A hit, and its BSON: what ends the string `s` and is `seqid`; `gene` and `chr` to the end."""

    hit: Hit
    seqid: bytes
    extra: bytes


class _Hits(dict[bytes, _PackedHit]):
    """Hit lines (with their `>>`) read once."""

    def __missing__(self, line: bytes) -> _PackedHit:
        if len(self) >= _REMEMBERED_HITS:
            self.clear()
        hit = read_hit(line[2:])
        self[line] = packed = _PackedHit(
            hit,
            b"\0" + _element(b"seqid", hit.seqid),
            _element(b"gene", hit.gene) + _element(b"chr", hit.chromosome) + b"\0",
        )
        return packed


_ID, _INT, _FLOAT, _CHARACTER, _TEXT = f"V{ID_BYTES}", "<i4", "<f8", "S1", "text"
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


def _ids(digest: bytes, kind: Kind, start: int, count: int) -> np.ndarray[Any, Any]:
    """The ids of `count` consecutive ordinals; `documents.make_id` without a call for each."""
    ids = np.empty((count, ID_BYTES), np.uint8)
    ids[:, :DIGEST_BYTES] = np.frombuffer(digest, np.uint8, DIGEST_BYTES)
    first = (kind.number << ORDINAL_BITS) + start
    tails = np.arange(first, first + count, dtype=">u8").view(np.uint8).reshape(count, 8)
    ids[:, DIGEST_BYTES:] = tails[:, 8 - (ID_BYTES - DIGEST_BYTES) :]
    return ids.view(_ID).ravel()


class ColumnBuilder:
    """Documents of whole columns."""

    def __init__(self, digest: bytes, *, study_fields: bool) -> None:
        self._digest = digest
        self._study = study_fields
        self._hits = _Hits()
        self._packers: dict[tuple[bool, ...], _Packer] = {}

    def _ids(self, start: int, count: int) -> list[np.ndarray[Any, Any]]:
        """The rna, gs and align ids of `count` alignments from ordinal `start` on."""
        kinds = (Kind.RNA, Kind.GS, Kind.ALIGN)
        return [_ids(self._digest, kind, start, count) for kind in kinds]

    def dicts(
        self, c: Columns, start: int, task: bytes, query: str
    ) -> tuple[list[Document], list[Document], list[Document]]:
        """rna, gs and align documents as dicts."""
        rna_ids, gs_ids, align_ids = (ids.tolist() for ids in self._ids(start, len(c)))
        hits = [self._hits[line].hit for line in c.hits]
        rna: list[Document] = [
            {"_id": i, "t": _T_RNA, "b": b, "e": e, "l": n, "s": s.decode(), "ti": task}
            for i, b, e, n, s in zip(
                rna_ids, c.query_start.tolist(), c.query_stop.tolist(), c.query_length.tolist(),
                c.query_sequence, strict=True,
            )
        ]  # fmt: skip
        gs: list[Document] = [
            {
                "_id": i, "t": _T_GS, "b": b, "e": e, "l": n, "s": s.decode(),
                "seqid": hit[0], "ti": task,
            }
            for i, b, e, n, s, hit in zip(
                gs_ids, c.library_start.tolist(), c.library_stop.tolist(),
                c.library_length.tolist(), c.library_sequence, hits, strict=True,
            )
        ]  # fmt: skip
        rows = zip(
            align_ids, c.bits, c.expect, c.s_w, c.frame, c.ident, c.overlap.tolist(), c.score,
            c.sim, c.z, rna_ids, gs_ids, hits, strict=True,
        )  # fmt: skip
        align: list[Document]
        if self._study:
            align = [
                {
                    "_id": i, "t": _T_ALIGN, "b": b, "e": e, "s_w": s_w, "f": f, "i": ident,
                    "o": o, "p": p, "si": si, "z": z, "rna": r, "gs": g, "ti": task,
                }
                for i, b, e, s_w, f, ident, o, p, si, z, r, g, _ in rows
            ]  # fmt: skip
        else:
            align = [
                {
                    "_id": i, "t": _T_ALIGN, "b": b, "e": e, "s_w": s_w, "f": f, "i": ident,
                    "o": o, "p": p, "si": si, "z": z, "rna": r, "gs": g, "ti": task,
                    "q": query, "gene": hit[1], "chr": hit[2],
                }
                for i, b, e, s_w, f, ident, o, p, si, z, r, g, hit in rows
            ]  # fmt: skip
        return rna, gs, align

    def bson(
        self, c: Columns, start: int, task: bytes, query: str
    ) -> tuple[list[bytes], list[bytes], list[bytes]]:
        """rna, gs and align documents as BSON bytes."""
        try:
            return self._bson(c, start, task, query)
        except OverflowError:
            # A number beyond 32 bits is an int64 in BSON, which has another layout.
            rna, gs, align = self.dicts(c, start, task, query)
            return (
                list(map(to_bson, rna)),
                list(map(to_bson, gs)),
                list(map(to_bson, align)),
            )

    def _bson(
        self, c: Columns, start: int, task: bytes, query: str
    ) -> tuple[list[bytes], list[bytes], list[bytes]]:
        rna_ids, gs_ids, align_ids = self._ids(start, len(c))
        hits = [self._hits[line] for line in c.hits]
        task_element = b"\x07ti\0" + task
        rna = self._sequences(
            rna_ids,
            _T_RNA,
            (c.query_start, c.query_stop, c.query_length),
            c.query_sequence,
            [b"\0" + task_element + b"\0"] * len(c),
        )
        end = task_element + b"\0"
        gs = self._sequences(
            gs_ids,
            _T_GS,
            (c.library_start, c.library_stop, c.library_length),
            c.library_sequence,
            [hit.seqid + end for hit in hits],
        )
        if self._study:
            tails: Sequence[bytes] = [b"\0"] * len(c)
        else:
            query_element = _element(b"q", query)
            tails = [query_element + hit.extra for hit in hits]
        columns = [getattr(c, name) for _, _, name in _ALIGN_FIELDS]
        present = tuple(column[0] is not None for column in columns)
        packer = self._packer(present)
        heads = packer.pack(
            [packer.size + len(tail) for tail in tails],
            align_ids,
            _T_ALIGN,
            *(column for column, there in zip(columns, present, strict=True) if there),
            rna_ids,
            gs_ids,
            np.void(task),
        )
        return rna, gs, list(map(add, heads, tails))

    def _sequences(
        self,
        ids: np.ndarray[Any, Any],
        code: int,
        numbers: tuple[Integers, Integers, Integers],
        sequences: list[bytes],
        tails: list[bytes],
    ) -> list[bytes]:
        ends = list(map(add, sequences, tails))
        heads = _SEQUENCE_PACKER.pack(
            [_SEQUENCE_PACKER.size + len(end) for end in ends],
            ids,
            code,
            *numbers,
            [len(sequence) + 1 for sequence in sequences],
        )
        return list(map(add, heads, ends))

    def _packer(self, present: tuple[bool, ...]) -> _Packer:
        packer = self._packers.get(present)
        if packer is None:
            optional = (
                (name, code if there else None)
                for (name, code, _), there in zip(_ALIGN_FIELDS, present, strict=True)
            )
            packer = self._packers[present] = _Packer(
                (
                    (b"_id", _ID),
                    (b"t", _INT),
                    *optional,
                    (b"rna", _ID),
                    (b"gs", _ID),
                    (b"ti", _ID),
                )
            )
        return packer


def task_document(
    identity: bytes, query: str, library: str, parameters: dict[str, str], *, study_fields: bool
) -> Document:
    """The tasks document of one query-library search."""
    document: Document = {"_id": identity, "t": Kind.TASKS.code}
    if not study_fields:
        document.update(q=query, lib=library)
    document.update(parameters)
    return document
