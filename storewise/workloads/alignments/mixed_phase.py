"""Phase ``mixed``: interleaved inserts and reads at a given ratio.

The load leaves a share of each shard's files (`write: {leave: ...}`); the clients of the shard's
process insert these, batch by batch, and read by random id among what is stored so far, their own
inserts included. The phase ends when its operations or seconds are over, or when nothing is left
to insert, for the ratio could not be kept any longer.

What was acknowledged of each file is in the notes: ``{"stored": path, "digest": hex, "documents":
[tasks, rna, gs, align], "unsure": [...]}``. The documents of a kind are inserted in the order of
their ids, so that four counts tell which are there; `unsure` are those of the last insert where
it was not acknowledged.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any

import numpy as np
from pydantic import Field

from storewise.documents import KINDS, Kind, make_id
from storewise.engines.contract.engine import Client
from storewise.errors import ConfigError, EngineError, InputError
from storewise.ssearch.inputs.shards import load_shard
from storewise.ssearch.inputs.table import InputFile
from storewise.ssearch.parse.remote import fetched_ahead, prepare
from storewise.workloads.alignments.insert_batches import (
    Part,
    assign_files,
    parts_of,
    roll_back_file,
)
from storewise.workloads.alignments.point_reads import PointReads
from storewise.workloads.alignments.stored_files import IdDraw, StoredFiles
from storewise.workloads.contract import ClientContext, EndedParams, Operation, blocks

#: Numbers drawn at a time.
_DRAW = 1024


class MixedParams(EndedParams):
    """Parameters of interleaved writes and reads."""

    writes: float = Field(
        default=0.3, ge=0, le=1, description="share of the operations that are inserts"
    )
    batch_size: int = Field(
        default=100, ge=1, description="documents of one kind in one insert, at most"
    )


def left_files(files: Sequence[InputFile], leave: float) -> list[InputFile]:
    """The files of a shard that a load leaves: at least one of two or more, never all.

    They are the first ones by digest, which is as good as random and the same for every engine.
    """
    if not leave or len(files) < 2:
        return []
    count = min(max(1, int(leave * len(files))), len(files) - 1)
    return sorted(files, key=lambda file: file.digest)[:count]


class _Inserts:
    """What one client inserts, and the ids that it may read of it."""

    def __init__(self, client: Client, context: ClientContext, files: Sequence[InputFile]) -> None:
        self._client, self._context = client, context
        prepare(files)
        self._parts = self._remaining(files)
        self._next: tuple[Part, dict[str, Any]] | None = None
        #: Acknowledged parts: the number of documents up to each one's end, and where it begins.
        self._ends: list[int] = []
        self._places: list[tuple[Kind, bytes, int]] = []

    @property
    def documents(self) -> int:
        return self._ends[-1] if self._ends else 0

    def id_of(self, number: int) -> tuple[Kind, bytes]:
        """The id of one of the inserted documents, by its number in their order."""
        at = bisect_right(self._ends, number)
        kind, digest, first = self._places[at]
        begin = self._ends[at - 1] if at else 0
        return kind, make_id(digest, kind, first + number - begin)

    def operation(self) -> Operation | None:
        """The next insert; the last one again where it was not acknowledged; None at the end."""
        if self._next is None:
            self._next = next(self._parts, None)
        if self._next is None:
            return None
        part, note = self._next
        call = partial(self._insert, part, note)
        return Operation("add", call, len(part.documents), part.bytes)

    def _insert(self, part: Part, note: dict[str, Any]) -> int:
        count, number = len(part.documents), part.kind.number
        note["unsure"][number] = count
        self._client.insert(part.kind, part.documents)
        note["unsure"][number] = 0
        self._places.append((part.kind, bytes.fromhex(note["digest"]), note["documents"][number]))
        self._ends.append(self.documents + count)
        note["documents"][number] += count
        self._next = None
        return count

    def _remaining(self, files: Sequence[InputFile]) -> Iterator[tuple[Part, dict[str, Any]]]:
        """Parts that no earlier step has stored, each with the note on its file."""
        context = self._context
        earlier = {n["stored"]: n["documents"] for n in context.before if "stored" in n}
        with fetched_ahead(files):
            for file in files:
                skip = list(earlier.get(str(file.path), (0,) * len(KINDS)))
                note: dict[str, Any] = {
                    "stored": str(file.path),
                    "digest": file.digest.hex(),
                    "documents": list(skip),
                    "unsure": [0] * len(KINDS),
                }
                # It changes with every insert, up to the end of the step.
                context.notes.append(note)
                try:
                    for part in parts_of(file, context, context.params.batch_size):
                        gone = min(skip[part.kind.number], len(part.documents))
                        skip[part.kind.number] -= gone
                        if gone < len(part.documents):
                            yield part._replace(documents=part.documents[gone:]), note
                except InputError as error:
                    stored = {kind: note["documents"][kind.number] for kind in KINDS}
                    roll_back_file(self._client, context, file, stored, error)
                    note["documents"] = [0] * len(KINDS)
                    self._forget(file.digest)

    def _forget(self, digest: bytes) -> None:
        """Leave a file's ids out of what is read."""
        counts = np.diff(self._ends, prepend=0).tolist()
        kept = [one for one in zip(self._places, counts, strict=True) if one[0][1] != digest]
        self._places = [place for place, _ in kept]
        self._ends = np.cumsum([count for _, count in kept], dtype=int).tolist()


def mixed(client: Client, context: ClientContext) -> Iterator[Operation]:
    """The operations of one client: ``add`` (an insert) and ``get``.

    Raises ConfigError where nothing was left to insert, EngineError where nothing can be read.
    """
    params: MixedParams = context.params
    if context.shards is None:
        raise EngineError("phase mixed needs the list of the input files")
    shard = load_shard(context.shards, context.shard)
    left = left_files(shard, context.load.leave)
    if params.writes and not left:
        raise ConfigError(
            f"phase mixed writes, but the load left nothing of shard {context.shard} "
            f"({len(shard)} files): set `write: {{leave: 0.3}}`, or use fewer workers or processes"
        )
    stored = StoredFiles.read(context.written).with_notes(context.before)
    if context.one_store:
        stored = stored.of_shard(context.shard)
    draw = IdDraw(stored, context.stream())
    if not draw.documents:
        raise EngineError("there is nothing to read: the load stored no document here")
    inserts = _Inserts(client, context, assign_files(left, context.thread, context.threads))
    return _operations(client, context, draw, inserts)


def _operations(
    client: Client, context: ClientContext, draw: IdDraw, inserts: _Inserts
) -> Iterator[Operation]:
    stream = context.stream(context.seed ^ 1)
    reads = PointReads(client, context)
    loaded = draw.single_ids(None)
    for size in blocks(context.share, _DRAW):
        for which, place in stream.random((size, 2)).tolist():
            if which < context.params.writes:
                insert = inserts.operation()
                if insert is None:
                    context.notes.append({"mixed": "ended: nothing was left to insert"})
                    return
                yield insert
                continue
            number = int(place * (draw.documents + inserts.documents))
            if number < inserts.documents:
                kind, document_id = inserts.id_of(number)
            else:
                kind, document_id = next(loaded)
            yield reads.single_read(kind, document_id)
