"""What the tests of the SSEARCH readers share."""

import functools
import io
import json
from typing import Any

import bson
from bson.objectid import ObjectId
from hypothesis import settings
from support.paths import DATA

from storewise.documents import KINDS, PARAMS_COLUMN, Document, Kind, make_id
from storewise.errors import InputError
from storewise.ssearch.parse import compiled
from storewise.ssearch.parse.fast import FastReader
from storewise.ssearch.parse.grammar import Alignment, read_hit
from storewise.ssearch.parse.reader import M10Reader
from storewise.ssearch.parse.stream import open_input
from storewise.ssearch.reader import DocumentReader

REAL = sorted(path.name for path in DATA.glob("*.m10"))
DIGEST = bytes(range(101, 117))
#: Of places in a file that are tried one after another: each 25th on every day, each 5th in CI,
#: all in `make test-all`.
STEP = max(500 // settings().max_examples, 1)

Outcome = tuple[Any, ...]


def plain(document):
    """A BSON document in the form of its dict twin."""
    return {
        key: value.binary if isinstance(value, ObjectId) else value
        for key, value in bson.decode(document).items()
    }


def rows(batch):
    """A record batch as dicts."""
    documents = batch.to_pylist()
    for document in documents:
        document.update(json.loads(document.pop(PARAMS_COLUMN, "{}")))
    return documents


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
        "l": abs(row.query_stop - row.query_start),
        "s": row.query_sequence.decode("ascii"),
        "ti": task,
    }
    gs: Document = {
        "_id": make_id(digest, Kind.GS, ordinal),
        "t": Kind.GS.code,
        "b": row.library_start,
        "e": row.library_stop,
        "l": abs(row.library_stop - row.library_start),
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


class _Reference(M10Reader):
    def __init__(self, *args, **options):
        super().__init__(*args, **options)
        self._rows = []

    def _take(self, *_):
        return None

    def _add(self, row, query, *, opens):
        self._rows.append(
            documents_of(
                row,
                self._digest,
                self.counts.alignments,
                query.task,
                query.id,
                study_fields=self._study,
            )
        )
        super()._add(row, query, opens=opens)

    def documents(self):
        tasks, *_ = super().documents()
        rows, self._rows = self._rows, []
        return tasks, *map(list, zip(*rows, strict=True) if rows else ((),) * 3)


class ReferenceReader(DocumentReader):
    """The oracle: each alignment by the reference reader, its documents by `documents_of`."""

    M10 = _Reference


class EagerFastReader(FastReader):
    """Tries each alignment, however many it could not take before."""

    def take(self, lines, columns, hit):
        self._rest = 0
        return super().take(lines, columns, hit)


class _Eager(M10Reader):
    def __init__(self, *args, **options):
        super().__init__(*args, **options)
        self._fast = EagerFastReader()


class EagerReader(DocumentReader):
    M10 = _Eager


def reader_of(source, mode="auto", **options):
    """A reader of `source` in the test's digest: "auto" as users have it, "fast" tries the fast
    reader at each alignment, "reference" never (its documents are always dicts)."""
    if mode == "reference":
        options.pop("encoding", None)
    of = {"auto": DocumentReader, "fast": EagerReader, "reference": ReferenceReader}[mode]
    return of(source, DIGEST, **options)


def read(source, *, mode="auto", **options):
    """The reader and all documents by kind; BSON and Arrow come back as dicts."""
    if isinstance(source, bytes):
        source = io.BytesIO(source)
    reader = reader_of(source, mode, **options)
    encoding = "dict" if mode == "reference" else options.get("encoding", "dict")
    result = {kind: [] for kind in KINDS}
    for batch in reader:
        for kind, documents in batch:
            result[kind] += rows(documents) if encoding == "arrow" else documents
    if encoding == "bson":
        result = {kind: [plain(d) for d in documents] for kind, documents in result.items()}
    return reader, result


def outcome(content, **options):
    """Everything that a reader says about `content`: its documents or its error. With the compiled
    core and without it that must be the same."""
    result = _outcome(content, **options)
    if compiled.CORE and isinstance(content, bytes) and options.get("mode") != "reference":
        compiled.CORE = False
        try:
            assert _outcome(content, **options) == result
        finally:
            compiled.CORE = True
    return result


def _outcome(content, **options):
    try:
        reader, result = read(content, **options)
    except InputError as error:
        return ("error", error.line, error.offset, str(error))
    return ("documents", reader.counts, reader.program, reader.version, result)


def ids_of_file(digest, queries, alignments):
    """All ids of a file, from its manifest row alone."""
    for kind in KINDS:
        count = queries if kind is Kind.TASKS else alignments
        for ordinal in range(count):
            yield kind, make_id(digest, kind, ordinal)


@functools.cache
def content(path):
    """What is in a file, decompressed."""
    with open_input(path) as stream:
        return b"".join(iter(lambda: stream.read(1 << 20), b""))


def agreed(content, *pieces):
    """Queries, hits and alignments on which both readers agree, or the error of both."""
    result = outcome(content, mode="reference")
    for piece in pieces or (1 << 20,):
        assert outcome(content, mode="fast", chunk_bytes=piece) == result
    if result[0] == "error":
        return str(result[3])
    counts = result[1]
    assert DocumentReader(io.BytesIO(content), DIGEST).count() == counts
    return counts.queries, counts.hits, counts.alignments
