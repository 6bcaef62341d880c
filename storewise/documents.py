"""The four kinds of documents, their fields and their ids.

The kinds and fields are those of the published study (``tasks``, ``rna``, ``gs``, ``align``; see
``docs/documents.md``), so that sizes and figures can be compared. Everything that stores, reads
or checks documents takes kinds, fields and ids from here.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import IntEnum
from typing import Any, Literal

#: A document as a plain dict; ids are 12 raw bytes, ``None`` stands for a value the file lacks.
Document = dict[str, Any]

#: The form in which an engine wants its documents.
Encoding = Literal["dict", "bson"]

FieldType = Literal["id", "int", "float", "str"]

ID_BYTES = 12
DIGEST_BYTES = 7
#: Bytes of the file digest kept in a manifest row (BLAKE2b of the decompressed content).
FULL_DIGEST_BYTES = 16
ORDINAL_BITS = 38
MAX_ORDINAL = (1 << ORDINAL_BITS) - 1


class Kind(IntEnum):
    """A kind of document; the value is the two bits that its ids carry."""

    TASKS = 0
    RNA = 1
    GS = 2
    ALIGN = 3

    @property
    def table(self) -> str:
        """Name of the table, collection or file that holds this kind."""
        return _TABLES[self]

    @property
    def code(self) -> int:
        """The kind code ``t`` of the published study."""
        return 601 + self.value


_TABLES = {Kind.TASKS: "tasks", Kind.RNA: "rna", Kind.GS: "gs", Kind.ALIGN: "align"}


@dataclass(frozen=True, slots=True)
class Field:
    """One field of a kind. ``beyond_study`` fields are left out with ``study_fields: true``."""

    name: str
    type: FieldType
    source: str
    beyond_study: bool = False


_ID = Field("_id", "id", "digest prefix, kind and ordinal")
_T = Field("t", "int", "kind code 601..604")
_TI = Field("ti", "id", "id of the search's tasks document")

#: Fields of each kind in storage order. ``tasks`` also has one string field per ``pg_*`` and
#: ``mp_*`` key of its search; their set differs between program versions, so stores with fixed
#: columns keep them together in one JSON column named ``params``.
FIELDS: Mapping[Kind, tuple[Field, ...]] = {
    Kind.TASKS: (
        _ID,
        _T,
        Field("q", "str", "query id, from the preamble", beyond_study=True),
        Field("lib", "str", "library, as the output names it", beyond_study=True),
    ),
    Kind.RNA: (
        _ID,
        _T,
        Field("b", "int", "al_start of the query"),
        Field("e", "int", "al_stop of the query"),
        Field("l", "int", "|al_stop - al_start| of the query"),
        Field("s", "str", "aligned query sequence with gaps, without newlines"),
        _TI,
    ),
    Kind.GS: (
        _ID,
        _T,
        Field("b", "int", "al_start of the library sequence"),
        Field("e", "int", "al_stop of the library sequence"),
        Field("l", "int", "|al_stop - al_start| of the library sequence"),
        Field("s", "str", "aligned library sequence with gaps, without newlines"),
        Field("seqid", "str", "id of the library sequence (first word of its >> line)"),
        _TI,
    ),
    Kind.ALIGN: (
        _ID,
        _T,
        Field("b", "float", "bits"),
        Field("e", "float", "expect (e-value)"),
        Field("s_w", "int", "s-w opt (Smith-Waterman score of the hit)"),
        Field("f", "str", "frame: f or r"),
        Field("i", "float", "ident"),
        Field("o", "int", "overlap"),
        Field("p", "int", "score (of this alignment)"),
        Field("si", "float", "sim"),
        Field("z", "float", "z-score"),
        Field("rna", "id", "id of the rna document"),
        Field("gs", "id", "id of the gs document"),
        _TI,
        Field("q", "str", "query id", beyond_study=True),
        Field("gene", "str", "gene named in the hit's description", beyond_study=True),
        Field("chr", "str", "chromosome named in the hit's description", beyond_study=True),
    ),
}

#: Name of the column that holds a task's ``pg_*`` and ``mp_*`` values in tabular stores.
PARAMS_COLUMN = "params"


def fields(kind: Kind, *, study_fields: bool = False) -> tuple[Field, ...]:
    """The fields of `kind`; with `study_fields` only those of the published study."""
    return tuple(f for f in FIELDS[kind] if not (study_fields and f.beyond_study))


def id_tail(kind: Kind, ordinal: int) -> bytes:
    """The last 5 bytes of an id: 2 bits of kind, 38 bits of ordinal, big-endian."""
    if not 0 <= ordinal <= MAX_ORDINAL:
        raise ValueError(f"ordinal {ordinal} does not fit into {ORDINAL_BITS} bits")
    return ((kind << ORDINAL_BITS) | ordinal).to_bytes(5, "big")


def make_id(digest: bytes, kind: Kind, ordinal: int) -> bytes:
    """The 12-byte id of a document.

    `digest` is the file's digest (its first 7 bytes count); `ordinal` is the position in the file,
    from 0: of the query-library search for ``tasks``, of the alignment for the other kinds.
    """
    return digest[:DIGEST_BYTES] + id_tail(kind, ordinal)


def split_id(document_id: bytes) -> tuple[bytes, Kind, int]:
    """The inverse of `make_id`: (7-byte digest prefix, kind, ordinal)."""
    if len(document_id) != ID_BYTES:
        raise ValueError(f"an id has {ID_BYTES} bytes, not {len(document_id)}")
    tail = int.from_bytes(document_id[DIGEST_BYTES:], "big")
    return document_id[:DIGEST_BYTES], Kind(tail >> ORDINAL_BITS), tail & MAX_ORDINAL


def ids_of_file(digest: bytes, queries: int, alignments: int) -> Iterator[tuple[Kind, bytes]]:
    """All ids of a file, from its manifest row alone."""
    for kind in Kind:
        count = queries if kind is Kind.TASKS else alignments
        for ordinal in range(count):
            yield kind, make_id(digest, kind, ordinal)
