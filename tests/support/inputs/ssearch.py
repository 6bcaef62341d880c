"""What the tests of the SSEARCH readers share."""

import functools
import io
import json
from typing import Any

import bson
from bson.objectid import ObjectId
from hypothesis import settings
from support.paths import DATA

from storewise.documents import KINDS, PARAMS_COLUMN, Kind, make_id
from storewise.errors import InputError
from storewise.ssearch.inputs.scan import Scanner
from storewise.ssearch.parse import compiled
from storewise.ssearch.parse.reader import DocumentReader
from storewise.ssearch.parse.stream import open_input

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


def read(source, **options):
    """The reader and all documents by kind; BSON and Arrow come back as dicts."""
    if isinstance(source, bytes):
        source = io.BytesIO(source)
    reader = DocumentReader(source, DIGEST, **options)
    result = {kind: [] for kind in KINDS}
    for batch in reader:
        for kind, documents in batch:
            result[kind] += rows(documents) if options.get("encoding") == "arrow" else documents
    if options.get("encoding") == "bson":
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


def scan(content, piece=1 << 20):
    scanner = Scanner("data")
    for start in range(0, len(content), piece):
        scanner.feed(content[start : start + piece])
    return scanner.finish()


def agreed(content, *pieces):
    """Queries, hits and alignments on which both readers and the scanner agree, or the error of
    both readers. The scanner may pass what only a parse can see; it never refuses what parses."""
    result = outcome(content, mode="reference")
    assert outcome(content, mode="fast") == result
    if result[0] == "error":
        return str(result[3])
    counts = result[1]
    for piece in pieces or (1 << 20,):
        scanned = scan(content, piece)
        assert (scanned.queries, scanned.hits, scanned.alignments) == (
            counts.queries,
            counts.hits,
            counts.alignments,
        )
    return counts.queries, counts.hits, counts.alignments
