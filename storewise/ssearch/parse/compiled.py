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
from storewise.ssearch.parse.grammar import Layout

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
_NUMBER, _EXACT, _IGNORED = (_ROLES.index(name) for name in _ROLES[-3:])
_NO_HIT = (None, None, None)
_Keys = tuple[tuple[bytes, int], ...]


@lru_cache(maxsize=64)
def _program(layout: Layout) -> tuple[_Keys, _Keys, _Keys, int, int]:
    """A layout in the core's words."""
    scores = tuple(
        (b"; " + key + b":", _IGNORED if role is None else _ROLES.index(role))
        for key, role in layout.keys
    )
    sequences = []
    for which, names in (("query", layout.query), ("library", layout.library)):
        keys = []
        for name in names:
            if name.startswith(b"sq_type="):
                keys.append((b"; sq_type: " + name[8:], _EXACT))
            elif name in (b"al_start", b"al_stop"):
                keys.append((b"; " + name + b":", _ROLES.index(f"{which}_{name[3:].decode()}")))
            else:
                keys.append((b"; " + name + b":", _NUMBER))
        sequences.append(tuple(keys))
    return scores, sequences[0], sequences[1], int(layout.consensus), layout.codes


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
