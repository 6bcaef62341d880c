"""Inspect a file: its counts, and whether it is complete."""

from __future__ import annotations

from typing import Any

from storewise.documents import DIGEST_BYTES
from storewise.errors import InputError
from storewise.ssearch.formats.registry import parse_format
from storewise.ssearch.parse.stream import Source, source_name
from storewise.ssearch.reader import DocumentReader


def inspect_file(source: Source, input_format: str = "") -> dict[str, Any]:
    """Reads `source` whole, with every check, and says what it holds; ready for JSON.

    Keys: ``file, format, program, version, queries, hits, alignments, documents, complete``;
    ``end`` (``not visible``) where a cut between two lines would not show; ``warnings``, a list of
    sentences, if there are any; and, for a file that is not complete, ``error``: an object with
    ``message, line, offset, expected, found`` (null where they make no sense). The counts of such a
    file are what had been read when the error was met. Raises nothing for a bad or missing file.
    """
    reader = DocumentReader(source, bytes(DIGEST_BYTES), input_format=input_format)
    error: InputError | None = None
    try:
        reader.count()
    except InputError as raised:
        error = raised
    counts = reader.counts
    result: dict[str, Any] = {
        "file": source_name(source),
        "format": reader.format or None,
        "program": reader.program,
        "version": reader.version,
        "queries": counts.queries,
        "hits": counts.hits,
        "alignments": counts.alignments,
        "documents": counts.documents,
        "complete": error is None,
    }
    if reader.format and not parse_format(reader.format).ends:
        result["end"] = "not visible"
    if reader.warnings:
        result["warnings"] = reader.warnings
    if error is not None:
        result["error"] = {
            "message": error.reason,
            "line": error.line,
            "offset": error.offset,
            "expected": error.expected,
            "found": error.found,
        }
    return result
