"""Documents of tables: their searches and rows as Arrow batches, as dicts and as BSON."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import orjson
import pyarrow as pa
import pyarrow.compute as pc

from storewise.documents import ID_BYTES, PARAMS_COLUMN, Document, Encoding, Kind, make_id
from storewise.ssearch.formats.format import TableFormat
from storewise.ssearch.formats.names import OF_HITS
from storewise.ssearch.parse.arrow import TYPES, arrow_schema
from storewise.ssearch.parse.columns import (
    FLOATS,
    INTEGERS,
    NO_INTEGER,
    TEXTS,
    Columns,
    Run,
    packed_hit,
)
from storewise.ssearch.parse.documents import dicts_of, ids, task_document, to_bson
from storewise.ssearch.parse.grammar import translated_side
from storewise.ssearch.parse.packed import bson_of

_F, _R = b"fr"
#: DIAMOND's subject of a query without hits.
_NO_SUBJECT = "*"
Documents = tuple[Any, Any, Any, Any]


@dataclass(slots=True)
class Tasks:
    """Consecutive searches in one library with the same parameters; `first` is the ordinal of the
    first, `queries` an Arrow array or a list."""

    first: int
    library: str
    parameters: dict[str, str]
    queries: Any

    def dicts(self, digest: bytes, *, study_fields: bool) -> list[Document]:
        """Their documents."""
        queries = self.queries if isinstance(self.queries, list) else self.queries.to_pylist()
        return [
            task_document(
                make_id(digest, Kind.TASKS, ordinal), query, self.library, self.parameters,
                study_fields=study_fields,
            )
            for ordinal, query in enumerate(queries, self.first)
        ]  # fmt: skip

    def bson(self, digest: bytes, *, study_fields: bool) -> list[bytes]:
        """Their documents as BSON: that of the first, with other ids and queries."""
        queries = self.queries if isinstance(self.queries, list) else self.queries.to_pylist()
        first = Tasks(self.first, self.library, self.parameters, queries[:1])
        (model,) = map(to_bson, first.dicts(digest, study_fields=study_fields))
        own = ids(digest, Kind.TASKS, self.first, len(queries)).tobytes()
        # The size of a document, the name of its id, the id.
        start, stop = 4 + len(b"\x07_id\0"), 4 + len(b"\x07_id\0") + ID_BYTES
        between, _, rest = model[stop:].partition(b"\x02q\0")
        if not rest:
            return [model[:start] + own[at : at + ID_BYTES] + between for at in _each_id(queries)]
        rest = rest[4 + int.from_bytes(rest[:4], "little") :]
        before = b"\x07_id\0"
        after, size = between + b"\x02q\0", stop + len(between) + len(b"\x02q\0") + 5 + len(rest)
        texts = [query.encode() for query in queries]
        return [
            b"".join((
                (size + len(text)).to_bytes(4, "little"), before, own[at : at + ID_BYTES], after,
                (len(text) + 1).to_bytes(4, "little"), text, b"\0", rest,
            ))
            for at, text in zip(_each_id(queries), texts, strict=True)
        ]  # fmt: skip

    def batch(self, digest: bytes, *, study_fields: bool) -> pa.RecordBatch:
        """Their documents as a record batch."""
        number = len(self.queries)
        values = {
            "_id": _ids(ids(digest, Kind.TASKS, self.first, number)),
            "t": pa.array(np.full(number, Kind.TASKS.code)),
            "q": pa.array(self.queries, pa.string()),
            "lib": _same(self.library, number),
            PARAMS_COLUMN: _same(orjson.dumps(self.parameters).decode(), number),
        }
        schema = arrow_schema(Kind.TASKS, study_fields=study_fields)
        return pa.RecordBatch.from_arrays([values[name] for name in schema.names], schema=schema)


class Rows:
    """Parsed rows of a block: hits, and the searches that they belong to.

    `starts` and `searches` are, for each run of rows of one search, its first row and the ordinal
    of the search.
    """

    def __init__(self, table: Any, form: TableFormat, more: Callable[[], Any]) -> None:
        """`more` gives a table of the columns that only hits have."""
        self.table, self._form, self._more = table.combine_chunks(), form, more
        self._kept: Any = None
        self.queries = self._column("qseqid")
        self.number = len(table)
        self.starts: Any = np.zeros(0, np.int64)
        self.searches: Any = np.zeros(0, np.int64)
        self._batches: Documents | None = None
        self._values: tuple[Any, Any, Any, Any, Any] | None = None

    def _column(self, name: str) -> Any:
        column = self.table[name]
        return column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()

    def _numbers(self, name: str) -> Any:
        """A column of numbers; None where the table lacks it."""
        return self._column(name).to_numpy() if name in self.table.column_names else None

    def query(self, row: int) -> str:
        """The query of a row."""
        return str(self.queries[row].as_py())

    def changes(self) -> Any:
        """The first row, and those whose query is another than that of the row before."""
        other = pc.not_equal(self.queries.slice(1), self.queries.slice(0, self.number - 1))
        return np.concatenate([[0], np.flatnonzero(_mask(other)) + 1])

    def drop_queries_without_hits(self) -> None:
        """Remove rows that say only that a query has no hits."""
        none = pc.equal(self._column("sseqid"), _NO_SUBJECT)
        if not pc.any(none).as_py():
            return
        kept = pc.invert(none)
        before = np.concatenate([[0], np.cumsum(_mask(kept))])
        starts = before[self.starts]
        # A search without rows has its task only.
        has_rows = np.diff(np.append(starts, before[-1])) > 0
        self.starts, self.searches = starts[has_rows], self.searches[has_rows]
        self._kept = kept
        self.table = self.table.filter(kept).combine_chunks()
        self.number = len(self.table)
        self.queries = self._column("qseqid")

    # -- Arrow -------------------------------------------------------------------------------

    def batches(self, digest: bytes, first: int, *, study_fields: bool) -> Documents:
        """The rna, gs and align documents of all rows; the first row has the ordinal `first`. They
        share the memory of the parsed columns."""
        if self._batches is None:
            self._batches = self._make(digest, first, study_fields=study_fields)
        return self._batches

    def _make(self, digest: bytes, first: int, *, study_fields: bool) -> Documents:
        rows = self.number
        own = {
            kind: _ids(ids(digest, kind, first, rows)) for kind in (Kind.RNA, Kind.GS, Kind.ALIGN)
        }
        tasks = _task_ids(digest, self.searches)
        ti = _ids(np.repeat(tasks, np.diff(np.append(self.starts, rows)), axis=0))
        nothing = {name: _repeated(None, kind, rows) for name, kind in TYPES.items()}
        share, overlap, turned = self._scores()
        result = []
        for kind, start, stop, sequence in (
            (Kind.RNA, "qstart", "qend", "qseq"),
            (Kind.GS, "sstart", "send", "sseq"),
        ):
            b, e = self._column(start), self._column(stop)
            values = {
                "_id": own[kind],
                "t": _repeated(kind.code, TYPES["int"], rows),
                "b": b,
                "e": e,
                "l": pc.abs(pc.subtract(e, b)),
                "s": self._optional(sequence, nothing["str"]),
                "seqid": self._column("sseqid"),
                "ti": ti,
            }
            result.append(_batch(kind, values, study_fields=study_fields))
        gene, chromosome = self._named()
        ppos = self._numbers("ppos")
        values = {
            "_id": own[Kind.ALIGN],
            "t": _repeated(Kind.ALIGN.code, TYPES["int"], rows),
            "b": self._column("bitscore"),
            "e": self._column("evalue"),
            "s_w": nothing["int"],
            "f": pa.array(["f", "r"]).take(pa.array(turned.view(np.int8)))
            if turned.any()
            else _repeated("f", TYPES["str"], rows),
            "i": pa.array(share, mask=np.isnan(share)),
            "o": pa.array(overlap),
            "p": self._optional("score", nothing["int"]),
            "si": nothing["float"] if ppos is None else pa.array(np.round(ppos / 100, 7)),
            "z": nothing["float"],
            "rna": own[Kind.RNA],
            "gs": own[Kind.GS],
            "ti": ti,
            "q": self.queries,
            "gene": nothing["str"] if gene is None else gene,
            "chr": nothing["str"] if chromosome is None else chromosome,
        }
        rna, gs = result
        return None, rna, gs, _batch(Kind.ALIGN, values, study_fields=study_fields)

    def _optional(self, name: str, nothing: Any) -> Any:
        return self._column(name) if name in self.table.column_names else nothing

    def _scores(self) -> tuple[Any, Any, Any]:
        """Identity (a fraction), overlap, and whether either side is reversed."""
        overlap = length = self._numbers("length")
        share = self._numbers("fident")
        if share is None:
            # Percents have at most a few decimals, which a hundredth would blur.
            share = np.round(self._numbers("pident") / 100, 7)
        if self._form.identity == "residues":
            overlap = length + self._numbers("gapopen")
            with np.errstate(invalid="ignore", divide="ignore"):
                share = np.where(overlap == 0, np.nan, np.round(share * length) / overlap)
        turned = (self._numbers("qstart") > self._numbers("qend")) | (
            self._numbers("sstart") > self._numbers("send")
        )
        return share, overlap, turned

    def hits(self, start: int, stop: int, program: str | None) -> dict[str, Any]:
        """Columns of `ssearch.hits` of the rows from `start` to `stop`, which `program` found."""
        share, overlap, turned = self._scores()
        more = self._more() if self._kept is None else self._more().filter(self._kept)
        columns = {name: self._numbers(name) for name in ("gapopen", "score")}
        columns |= {name: more[name] if name in more.column_names else None for name in OF_HITS}
        if self._form.identity == "residues":
            # FASTA counts columns with a gap, not openings.
            columns["gaps"], columns["gapopen"] = columns["gapopen"], None
        places = {name: self._numbers(name) for name in ("qstart", "qend", "sstart", "send")}
        if self._form.turns_query and translated_side(program or "") != "query":
            swap = places["qstart"] > places["qend"]
            for one, other in (("qstart", "qend"), ("sstart", "send")):
                first, last = places[one], places[other]
                places[one], places[other] = (
                    np.where(swap, last, first),
                    np.where(swap, first, last),
                )
        gene, chromosome = self._named()
        values = {
            "qseqid": self.queries,
            "sseqid": self._column("sseqid"),
            "pident": pa.array(np.round(100 * share, 3), mask=np.isnan(share)),
            "length": overlap,
            **columns,
            **places,
            "evalue": self._column("evalue"),
            "bitscore": self._column("bitscore"),
            "sstrand": pa.array(["plus", "minus"]).take(pa.array(turned.view(np.int8))),
            "gene": gene,
            "chromosome": chromosome,
        }
        nothing = pa.nulls(self.number)
        arrays = {
            name: nothing if v is None else v if isinstance(v, pa.ChunkedArray) else pa.array(v)
            for name, v in values.items()
        }
        return {name: array.slice(start, stop - start) for name, array in arrays.items()}

    def _named(self) -> tuple[Any, Any]:
        """Genes and chromosomes that titles name; None without titles."""
        if "stitle" not in self.table.column_names:
            return None, None
        coded = self._column("stitle").dictionary_encode()
        hits = [packed_hit(f"x {title}".encode()) for title in coded.dictionary.to_pylist()]
        genes = pa.array([h.gene.decode() if h.has_gene else None for h in hits], pa.string())
        places = pa.array([h.chr.decode() if h.has_chr else None for h in hits], pa.string())
        return genes.take(coded.indices), places.take(coded.indices)

    # -- dicts and BSON ----------------------------------------------------------------------

    def columns(self, start: int, stop: int, first: int, digest: bytes) -> Columns:
        """The rows from `start` to `stop` for the encoders of alignments; the first of them has the
        ordinal `first`."""
        rows = stop - start
        columns = Columns(max(rows, 1), first, [0] * len(TEXTS))
        if not rows:
            return columns
        integers, floats, frame, has, texts = self._values = self._values or self._arrays()
        columns.rows = rows
        columns.integers[:, :] = integers[:, start:stop]
        columns.floats[:, :] = floats[:, start:stop]
        columns.frame[:], columns.opens[:] = frame[start:stop], 1
        columns.has[:, :] = has[:, start:stop]
        for column, (ends, data) in zip(columns.texts, texts, strict=True):
            column.take(ends[start : stop + 1], data)
        begin = bisect_right(self.starts, start) - 1
        end = bisect_right(self.starts, stop - 1)
        mine = self.starts[begin:end]
        queries = self.queries.take(pa.array(mine)).to_pylist()
        tasks = _task_ids(digest, self.searches[begin:end]).tobytes()
        columns.runs = [
            Run(max(row - start, 0), tasks[at : at + ID_BYTES], query)
            for row, at, query in zip(mine.tolist(), _each_id(queries), queries, strict=True)
        ]
        return columns

    def _arrays(self) -> tuple[Any, Any, Any, Any, Any]:
        """Integers, floats, frame, has and texts as `Columns` has them, the texts as (offsets,
        bytes)."""
        rows = self.number
        share, overlap, turned = self._scores()
        score, ppos = self._numbers("score"), self._numbers("ppos")
        values = {
            "query_start": self._numbers("qstart"),
            "query_stop": self._numbers("qend"),
            "library_start": self._numbers("sstart"),
            "library_stop": self._numbers("send"),
            "overlap": overlap,
            "score": score,
            "bits": self._numbers("bitscore"),
            "expect": self._numbers("evalue"),
            "ident": share,
            "sim": None if ppos is None else np.round(ppos / 100, 7),
        }
        integers = np.full((len(INTEGERS), rows), NO_INTEGER, np.int64)
        floats = np.full((len(FLOATS), rows), np.nan)
        for names, array in ((INTEGERS, integers), (FLOATS, floats)):
            for at, name in enumerate(names):
                if values.get(name) is not None:
                    array[at] = values[name]
        has = np.zeros((4, rows), np.uint8)
        texts = {"seqid": _texts(self._column("sseqid"))}
        for at, (name, column) in enumerate((("query", "qseq"), ("library", "sseq")), 2):
            if column in self.table.column_names:
                texts[name], has[at] = _texts(self._column(column)), 1
        for at, (name, column) in enumerate(zip(("gene", "chr"), self._named(), strict=True)):
            if column is not None:
                has[at] = _mask(pc.is_valid(column))
                texts[name] = _texts(pc.fill_null(column, ""))
        nothing = np.zeros(rows + 1, np.int32), np.zeros(0, np.uint8)
        frame = np.where(turned, _R, _F).astype(np.uint8)
        return integers, floats, frame, has, [texts.get(name, nothing) for name in TEXTS]


@dataclass(slots=True)
class Part:
    """A batch of a table: its new searches, and the rows from `start` to `stop` of a block whose
    first row has the ordinal `first`."""

    tasks: Sequence[Tasks]
    rows: Rows | None = None
    start: int = 0
    stop: int = 0
    first: int = 0

    def hits(self, program: str | None) -> dict[str, Any]:
        """Columns of `ssearch.hits`."""
        return {} if self.rows is None else self.rows.hits(self.start, self.stop, program)

    def documents(self, encoding: Encoding, digest: bytes, *, study_fields: bool) -> Documents:
        """The tasks, rna, gs and align documents."""
        if encoding == "arrow":
            schema = arrow_schema(Kind.TASKS, study_fields=study_fields)
            some = [one.batch(digest, study_fields=study_fields) for one in self.tasks]
            tasks = pa.Table.from_batches(some, schema).combine_chunks().to_batches()
            task = tasks[0] if tasks else pa.RecordBatch.from_pylist([], schema=schema)
            if self.rows is None:
                kinds = (Kind.RNA, Kind.GS, Kind.ALIGN)
                rest = [
                    pa.RecordBatch.from_pylist([], arrow_schema(k, study_fields=study_fields))
                    for k in kinds
                ]
                return task, *rest
            _, *batches = self.rows.batches(digest, self.first, study_fields=study_fields)
            rna, gs, align = (one.slice(self.start, self.stop - self.start) for one in batches)
            return task, rna, gs, align
        columns = Columns(1, 0)
        if self.rows is not None:
            columns = self.rows.columns(self.start, self.stop, self.first + self.start, digest)
        if encoding == "dict":
            dicts = [d for one in self.tasks for d in one.dicts(digest, study_fields=study_fields)]
            return dicts, *dicts_of(columns, digest, study_fields=study_fields)
        packed = [d for one in self.tasks for d in one.bson(digest, study_fields=study_fields)]
        return packed, *bson_of(columns, digest, study_fields=study_fields)


#: Arrays of one value, of which slices are taken: batch after batch needs the same.
_REPEATED: dict[tuple[Any, str], Any] = {}


def _repeated(value: Any, kind: Any, rows: int) -> Any:
    """An array of `rows` times a value."""
    key = value, str(kind)
    known = _REPEATED.get(key)
    if known is None or len(known) < rows:
        known = pa.nulls(rows, kind) if value is None else pa.repeat(pa.scalar(value, kind), rows)
        _REPEATED[key] = known
    return known[:rows]


def _ids(array: Any) -> Any:
    array = np.ascontiguousarray(array)
    return pa.Array.from_buffers(TYPES["id"], len(array), [None, pa.py_buffer(array)])


def _mask(array: Any) -> Any:
    """An array of booleans without nulls as numpy has it; pyarrow would import pandas for it."""
    _, data = array.buffers()
    bits = np.frombuffer(data, np.uint8)
    stop = array.offset + len(array)
    return np.unpackbits(bits, count=stop, bitorder="little")[array.offset :].view(np.bool_)


def _each_id(things: Sequence[Any]) -> range:
    """Where the ids of so many things begin that follow each other."""
    return range(0, len(things) * ID_BYTES, ID_BYTES)


def _task_ids(digest: bytes, ordinals: Any) -> Any:
    """(count, 12) bytes: the ids of some searches."""
    if not len(ordinals):
        return np.empty((0, 12), np.uint8)
    first = int(ordinals[0])
    return ids(digest, Kind.TASKS, first, int(ordinals[-1]) - first + 1)[ordinals - first]


def _same(value: str, number: int) -> Any:
    return pa.array([value], pa.string()).take(pa.array(np.zeros(number, np.int64)))


def _batch(kind: Kind, values: dict[str, Any], *, study_fields: bool) -> pa.RecordBatch:
    schema = arrow_schema(kind, study_fields=study_fields)
    return pa.RecordBatch.from_arrays([values[name] for name in schema.names], schema=schema)


def _texts(array: Any) -> tuple[Any, Any]:
    """Offsets and bytes of an array of strings."""
    _, offsets, data = array.buffers()
    ends = np.frombuffer(offsets, np.int32)[array.offset : array.offset + len(array) + 1]
    return ends, np.frombuffer(data or b"", np.uint8)
