"""The four kinds of documents, their fields and their ids.

The kinds and fields are those of the published study (``tasks``, ``rna``, ``gs``, ``align``; see
``docs/documents.md``), so that sizes and figures can be compared. Everything that stores, reads
or checks documents takes kinds, fields and ids from here.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, NoReturn

#: A document as a plain dict; ids are 12 raw bytes, ``None`` stands for a value the file lacks.
Document = dict[str, Any]

#: The form in which an engine wants its documents: dicts, BSON bytes, or a `pyarrow.RecordBatch`
#: with the columns of their kind (`storewise.ssearch.parse.arrow`).
Encoding = Literal["dict", "bson", "arrow"]

#: ``id``: 12 bytes. ``key``: 1 to 64 bytes of ASCII text, an ``_id`` of its own choice.
FieldType = Literal["id", "int", "float", "str", "key"]

ID_BYTES = 12
#: The longest `_id` of type ``key``.
KEY_BYTES = 64
DIGEST_BYTES = 7
#: Bytes of the file digest kept in a manifest row (BLAKE2b of the decompressed content).
FULL_DIGEST_BYTES = 16
ORDINAL_BITS = 38
MAX_ORDINAL = (1 << ORDINAL_BITS) - 1


@dataclass(frozen=True, slots=True)
class Field:
    """One field of a kind. ``beyond_study`` fields are left out with ``study_fields: true``."""

    name: str
    type: FieldType
    source: str
    beyond_study: bool = False


@dataclass(frozen=True, eq=False)
class Kind:
    """A kind of documents: a table, a collection, a bucket. Each kind exists once.

    A workload has its own kinds (`Workload.kinds`); those of the published study are the class
    variables and `KINDS`.
    """

    table: str
    """Name of the table, collection or file that holds this kind."""
    fields: tuple[Field, ...]
    """In storage order, ``_id`` first."""
    open_fields: bool = False
    """Documents may have more fields, of any name; stores with fixed columns keep them together
    in one JSON column named ``params``."""
    number: int = -1
    """The two bits that ids of the study's kinds carry."""
    key: tuple[tuple[str, int], ...] = ()
    """Fields that ``_id`` packs and their widths in bytes, unsigned and big-endian, so that ids
    sort as the fields do. Stores with composite keys have these columns instead of ``_id``."""
    splits: Callable[[int], Sequence[bytes]] | None = None
    """The n - 1 ids that cut what will be stored into n ranges of about equal numbers, for stores
    that are split before the load; None: as `storewise.engines.support.splits` has it."""

    TASKS: ClassVar[Kind]
    RNA: ClassVar[Kind]
    GS: ClassVar[Kind]
    ALIGN: ClassVar[Kind]

    @property
    def code(self) -> int:
        """The kind code ``t`` of the published study."""
        return 601 + self.number

    @property
    def id_bytes(self) -> int | None:
        """Length of its ids; None where it varies."""
        return ID_BYTES if self.fields[0].type == "id" else None

    def pack(self, values: Sequence[int]) -> bytes:
        """The id of a composite key; OverflowError for a number that is too large."""
        widths = (width for _, width in self.key)
        return b"".join(v.to_bytes(w, "big") for v, w in zip(values, widths, strict=True))

    def unpack(self, document_id: bytes) -> tuple[int, ...]:
        """The inverse of `pack`."""
        values, at = [], 0
        for _, width in self.key:
            values.append(int.from_bytes(document_id[at : at + width], "big"))
            at += width
        return tuple(values)

    def __repr__(self) -> str:
        return f"<Kind {self.table}>"

    def __reduce__(self) -> NoReturn:
        raise TypeError(f"{self!r} exists once in a process; send the name of its table")


_ID = Field("_id", "id", "digest prefix, kind and ordinal")
_T = Field("t", "int", "kind code 601..604")
_TI = Field("ti", "id", "id of the search's tasks document")

#: ``tasks`` also has one string field per ``pg_*`` and ``mp_*`` key of its search; their set
#: differs between program versions.
Kind.TASKS = Kind(
    "tasks",
    (
        _ID,
        _T,
        Field("q", "str", "query id, from the preamble", beyond_study=True),
        Field("lib", "str", "library, as the output names it", beyond_study=True),
    ),
    open_fields=True,
    number=0,
)


def _sequence_fields(what: str, *more: Field) -> tuple[Field, ...]:
    """The fields of an aligned sequence, which is that of the query or of the library."""
    return (
        _ID,
        _T,
        Field("b", "int", f"al_start of the {what}"),
        Field("e", "int", f"al_stop of the {what}"),
        Field("l", "int", f"|al_stop - al_start| of the {what}"),
        Field("s", "str", f"aligned {what} with gaps, without newlines"),
        *more,
        _TI,
    )


Kind.RNA = Kind("rna", _sequence_fields("query sequence"), number=1)
_SEQUENCE_ID = Field("seqid", "str", "id of the library sequence (first word of its >> line)")
Kind.GS = Kind("gs", _sequence_fields("library sequence", _SEQUENCE_ID), number=2)
Kind.ALIGN = Kind(
    "align",
    (
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
    number=3,
)

#: The kinds of the published study, in the order of their numbers.
KINDS: tuple[Kind, ...] = (Kind.TASKS, Kind.RNA, Kind.GS, Kind.ALIGN)

#: Name of the column that holds a task's ``pg_*`` and ``mp_*`` values in tabular stores.
PARAMS_COLUMN = "params"


def fields(kind: Kind, *, study_fields: bool = False) -> tuple[Field, ...]:
    """The fields of `kind`; with `study_fields` only those of the published study."""
    return tuple(f for f in kind.fields if not (study_fields and f.beyond_study))


def make_id(digest: bytes, kind: Kind, ordinal: int) -> bytes:
    """The 12-byte id of a document.

    `digest` is the file's digest (its first 7 bytes count); `ordinal` is the position in the file,
    from 0: of the query-library search for ``tasks``, of the alignment for the other kinds. The
    last 5 bytes are 2 bits of kind and 38 bits of ordinal, big-endian; ValueError for one beyond.
    """
    if not 0 <= ordinal <= MAX_ORDINAL:
        raise ValueError(f"ordinal {ordinal} does not fit into {ORDINAL_BITS} bits")
    tail = (kind.number << ORDINAL_BITS) | ordinal
    return digest[:DIGEST_BYTES] + tail.to_bytes(ID_BYTES - DIGEST_BYTES, "big")


def split_id(document_id: bytes) -> tuple[bytes, Kind, int]:
    """The inverse of `make_id`: (7-byte digest prefix, kind, ordinal)."""
    if len(document_id) != ID_BYTES:
        raise ValueError(f"an id has {ID_BYTES} bytes, not {len(document_id)}")
    tail = int.from_bytes(document_id[DIGEST_BYTES:], "big")
    return document_id[:DIGEST_BYTES], KINDS[tail >> ORDINAL_BITS], tail & MAX_ORDINAL
