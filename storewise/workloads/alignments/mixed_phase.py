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

from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any

import numpy as np
from pydantic import Field

from storewise.documents import DIGEST_BYTES, ID_BYTES, KINDS, Kind, split_id
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
from storewise.workloads.alignments.stored_files import IdDraw, StoredFiles, make_ids
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
    """The inserts of one client, and the ids of its inserted documents, which it may read."""

    def __init__(self, client: Client, context: ClientContext, files: Sequence[InputFile]) -> None:
        self._client, self._context = client, context
        prepare(files)
        self._parts = self._remaining(files)
        self._next: tuple[Part, dict[str, Any]] | None = None
        #: Of all acknowledged documents, one after the other.
        self._ids = bytearray()

    @property
    def documents(self) -> int:
        return len(self._ids) // ID_BYTES

    def id_of(self, number: int) -> tuple[Kind, bytes]:
        """The id of one of the inserted documents, by its number in their order."""
        document_id = bytes(self._ids[number * ID_BYTES : (number + 1) * ID_BYTES])
        return split_id(document_id)[1], document_id

    def operation(self) -> Operation | None:
        """The next insert, or the last one again if it was not acknowledged; None at the end."""
        if self._next is None:
            self._next = next(self._parts, None)
        if self._next is None:
            return None
        part, note = self._next
        first, count = note["documents"][part.kind.number], len(part.documents)
        prefix = np.frombuffer(bytes.fromhex(note["digest"]), np.uint8)[:DIGEST_BYTES]
        ids = make_ids(np.tile(prefix, (count, 1)), part.kind, np.arange(first, first + count))
        call = partial(self._insert, part, note, b"".join(ids))
        return Operation("add", call, count, part.bytes)

    def _insert(self, part: Part, note: dict[str, Any], ids: bytes) -> int:
        count, number = len(part.documents), part.kind.number
        note["unsure"][number] = count
        self._client.insert(part.kind, part.documents)
        note["unsure"][number] = 0
        self._ids += ids
        note["documents"][number] += count
        self._next = None
        return count

    def _remaining(self, files: Sequence[InputFile]) -> Iterator[tuple[Part, dict[str, Any]]]:
        """Parts that no earlier step has stored, each with the record of its file's progress."""
        context = self._context
        earlier = {n["stored"]: n["documents"] for n in context.before if "stored" in n}
        with fetched_ahead(files):
            for file in files:
                skip = list(earlier.get(str(file.path), (0,) * len(KINDS)))
                begin = self.documents
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
                    del self._ids[begin * ID_BYTES :]


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
