"""Results of the reader (batches of documents, counts), and its state of a query."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from storewise.documents import Kind


@dataclass(slots=True)
class Counts:
    """The content of a file.

    `queries` are query-library searches (those without hits included), `hits` are `>>` blocks
    (frames f and r apart), `alignments` are hits and their further alignments (`>--`).
    """

    queries: int = 0
    hits: int = 0
    alignments: int = 0

    @property
    def documents(self) -> int:
        """One task for each query, rna, gs and align for each alignment."""
        return self.queries + 3 * self.alignments


@dataclass(slots=True)
class DocumentBatch:
    """A batch of documents in file order, one field for each kind.

    The reader's `encoding` sets their form: a list of dicts, a list of BSON bytes or a
    `pyarrow.RecordBatch`. `bytes_read` is the position in the file (bytes, decompressed) up to
    which it was read. `program` is the program that printed them, such as ``SSEARCH``.
    """

    tasks: Any = field(default_factory=list)
    rna: Any = field(default_factory=list)
    gs: Any = field(default_factory=list)
    align: Any = field(default_factory=list)
    bytes_read: int = 0
    program: str = ""

    def __iter__(self) -> Iterator[tuple[Kind, Any]]:
        yield Kind.TASKS, self.tasks
        yield Kind.RNA, self.rna
        yield Kind.GS, self.gs
        yield Kind.ALIGN, self.align

    def __len__(self) -> int:
        return len(self.tasks) + len(self.rna) + len(self.gs) + len(self.align)


@dataclass(slots=True)
class Query:
    """The query-library search that is being read."""

    ordinal: int
    id: str
    library: str
    parameters: dict[str, str]
    task: bytes = b""
    lower_case: bool = False
    """Whether the search had ``-S``, which takes lower-case residues for a case of their own."""


@contextmanager
def no_gc() -> Iterator[None]:
    """Many new containers that live on make the cyclic collector scan them in vain."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()
