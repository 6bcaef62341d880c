"""The compiled core, where it is there: runs of alignments in one pass, and their BSON.

`make env` builds it where there is a C compiler (`core/`, an extension of Python's limited API);
without it `vectors` gives the same columns. STOREWISE_CORE=0 leaves it out.
"""

from __future__ import annotations

import os
from functools import lru_cache
from importlib import import_module
from typing import Any

from storewise.ssearch.parse.columns import FLOATS, INTEGERS, Columns, PackedHit, packed_hit
from storewise.ssearch.parse.grammar import Layout, key_lines

#: Environment variable that leaves the core out where it is 0.
CORE_VARIABLE = "STOREWISE_CORE"


def _load() -> Any:
    if os.environ.get(CORE_VARIABLE) == "0":
        return None
    try:
        return import_module("storewise.ssearch.parse._core")
    except ImportError:
        return None


_core = _load()

#: Whether there is a core.
CORE = _core is not None

_ROLES = (*INTEGERS, *FLOATS, "frame", "number", "exact", "ignored")
_NO_HIT = (None, None, None)
_Keys = tuple[tuple[bytes, int], ...]


@lru_cache(maxsize=64)
def _program(layout: Layout) -> tuple[_Keys, _Keys, _Keys, int, int]:
    """A layout as the core takes it."""
    scores, query, library = (
        tuple((start, _ROLES.index(role)) for start, role in lines) for lines in key_lines(layout)
    )
    return scores, query, library, int(layout.consensus), layout.codes


def take(
    buffer: bytes, start: int, layout: Layout, columns: Columns, hit: bytes | None
) -> tuple[int, int, bytes | None]:
    """Appends the alignments from buffer position `start` on, as `vectors.take`; how many lines
    they have, too."""
    lines = 0
    while True:
        known = _NO_HIT if hit is None else _pieces(packed_hit(hit))
        taken, more, start, last, full = _core.take(
            buffer, start, len(buffer), _program(layout), columns.buffers(), columns.rows, known
        )
        columns.rows += taken
        lines += more
        if last >= 0:
            hit = buffer[last + 2 : buffer.index(b"\n", last)]
        if not full or not columns.room:
            return start, lines, hit
        columns.grow()


def _pieces(hit: PackedHit) -> tuple[bytes, bytes | None, bytes | None]:
    return hit.seqid, hit.gene if hit.has_gene else None, hit.chr if hit.has_chr else None


def bson(
    columns: Columns, digest: bytes, *, study_fields: bool
) -> tuple[list[bytes], list[bytes], list[bytes]]:
    """The rna, gs and align documents as BSON."""
    stops = [*(run.row for run in columns.runs[1:]), columns.rows]
    searches = tuple(
        (stop, run.task, run.query.encode()) for run, stop in zip(columns.runs, stops, strict=True)
    )
    documents: tuple[list[bytes], list[bytes], list[bytes]] = _core.bson(
        columns.buffers(), columns.rows, digest, columns.first, searches, study_fields
    )
    return documents
