"""Contents of inputs, and what the full parse says of them."""

from __future__ import annotations

import functools
from pathlib import Path

from storewise.ssearch.parse.reader import DocumentReader
from storewise.ssearch.parse.stream import content_digest, open_input


@functools.cache
def content(path: Path) -> bytes:
    with open_input(path) as stream:
        return b"".join(iter(lambda: stream.read(1 << 20), b""))


def parsed(path: Path) -> tuple[int, int, int]:
    reader = DocumentReader(path, content_digest(path))
    for _ in reader:
        pass
    return reader.counts.queries, reader.counts.hits, reader.counts.alignments
