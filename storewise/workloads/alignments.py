"""The workload of the published study: store all documents of SSEARCH outputs, read some back."""

from __future__ import annotations

import hashlib
import io
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, BinaryIO, ClassVar, cast

import numpy as np
from pydantic import Field, model_validator

from storewise.documents import FULL_DIGEST_BYTES, KINDS, Document, Kind, make_id
from storewise.engines.base import Client, Placement
from storewise.errors import ConfigError, EngineError, InputError
from storewise.ssearch.reader import DocumentReader
from storewise.ssearch.shards import load_shard
from storewise.ssearch.stream import ByteReader, open_input
from storewise.ssearch.table import InputFile
from storewise.workloads.base import (
    Checked,
    ClientContext,
    LoadedFile,
    Look,
    Operation,
    PhaseParams,
    PhaseSpec,
    RefusedFile,
    Workload,
)
from storewise.workloads.check import check_documents, not_stored
from storewise.workloads.files import IdDraw, ShardPlacement, StoredFiles

#: Ids drawn at a time: little enough that drawing never stalls a client for a millisecond.
_DRAW = 1024
_KINDS = tuple(KINDS)


class WriteParams(PhaseParams):
    """Parameters of the load."""

    batch_size: int = Field(
        default=1000, ge=1, description="documents of one kind in one insert, at most"
    )

    @model_validator(mode="after")
    def _whole(self) -> WriteParams:
        if self.operations is not None or self.seconds is not None:
            raise ValueError(
                "a load stores all of its shard: `operations` and `seconds` cannot end it; "
                "use `inputs: sample` for less data"
            )
        return self


class ReadParams(PhaseParams):
    """Parameters of reading by id."""

    batch: int = Field(default=1, ge=1, description="ids of one kind in one get")

    @model_validator(mode="after")
    def _ends(self) -> ReadParams:
        if self.operations is None and self.seconds is None:
            raise ValueError("`operations` (over all clients) or `seconds` must end the phase")
        return self


class AlignmentsWorkload(Workload):
    """``write``: parse and insert a shard. ``read``: get documents by random id."""

    name: ClassVar[str] = "alignments"
    indexes: ClassVar[tuple[str, ...]] = ("align.e", "align.gene")
    phases: ClassVar[Mapping[str, PhaseSpec]] = {
        "write": PhaseSpec("write", WriteParams, ("insert", "finish"), loads=True),
        "read": PhaseSpec("read", ReadParams, ("get",), loads=False),
    }

    def operations(self, phase: str, client: Client, context: ClientContext) -> Iterator[Operation]:
        """See `Workload.operations`; raises ConfigError for a phase it does not have."""
        if phase == "write":
            return _write(client, context)
        if phase == "read":
            return _read(client, context)
        raise ConfigError(f"workload {self.name!r} has no phase {phase!r}")

    def placement(self, stores: int, written: Sequence[Path]) -> Placement:
        return ShardPlacement(StoredFiles.read(written))

    def left_out(self, shards: Path | None, written: Sequence[Path]) -> list[str]:
        return not_stored(shards, StoredFiles.read(written)) if shards is not None else []

    def verify(self, look: Look) -> list[Checked]:
        return check_documents(look, StoredFiles.read(look.written))


def _write(client: Client, context: ClientContext) -> Iterator[Operation]:
    if context.shards is None:
        raise EngineError("a load of alignments needs the list of its input files")
    files = deal(load_shard(context.shards, context.shard), context.thread, context.threads)
    return (op for file in files for op in _store_file(client, context, file))


def _store_file(client: Client, context: ClientContext, file: InputFile) -> Iterator[Operation]:
    """Insert one file; with `quarantine`, take a bad one out again and go on."""
    stored = dict.fromkeys(_KINDS, 0)
    try:
        yield from _insert_file(client, context, file, stored)
    except InputError as error:
        if not context.quarantine:
            raise
        if any(stored.values()) and not context.engine.flags.deletes:
            raise InputError(
                file.path,
                f"the file is bad and a part of it is stored; {context.engine.title} cannot delete "
                f"it, so the file cannot be left out now; remove it from the inputs ({error})",
                line=error.line,
                offset=error.offset,
            ) from error
        for kind, count in stored.items():
            for ordinal in range(count):
                client.delete(kind, make_id(file.digest, kind, ordinal))
        context.refused.append(RefusedFile(str(file.path), str(error), error.line, error.offset))


def deal(files: Sequence[InputFile], thread: int, threads: int) -> list[InputFile]:
    """The files of one thread: the largest first, each to the thread with the fewest bytes."""
    loads = [0] * threads
    mine = []
    for file in sorted(files, key=lambda f: (-f.bytes, f.path)):
        least = loads.index(min(loads))
        loads[least] += file.bytes
        if least == thread:
            mine.append(file)
    return mine


class _Digesting(io.RawIOBase):
    """Decompressed content that is digested on its way to the parser."""

    def __init__(self, stream: ByteReader, name: str) -> None:
        self._stream = stream
        self._digest = hashlib.blake2b(digest_size=FULL_DIGEST_BYTES)
        self.name = name

    def readable(self) -> bool:
        return True

    def read(self, size: int = -1, /) -> bytes:
        data = self._stream.read(size)
        self._digest.update(data)
        return data

    def digest(self) -> bytes:
        while self.read(1 << 20):
            continue
        return self._digest.digest()


def _insert_file(
    client: Client, context: ClientContext, file: InputFile, stored: dict[Kind, int]
) -> Iterator[Operation]:
    """Insert one file's documents, counted in `stored`, and check it against its manifest row.

    The bytes of an insert are its share, by number of documents, of the decompressed SSEARCH text
    they came from: the same for every store, whatever form its documents have.
    """
    size = context.params.batch_size
    # A sampled digest covers parts of the file only; then the size must do.
    sampled = file.queries is None
    try:
        bytes_now = Path(file.path).stat().st_size
    except OSError as error:
        raise InputError(file.path, f"cannot be read: {error.strerror}") from error
    if bytes_now != file.bytes:
        raise _changed(file, f"{file.bytes} bytes", f"{bytes_now} bytes")
    with open_input(file.path) as stream:
        content = _Digesting(stream, file.path)
        reader = DocumentReader(
            cast(BinaryIO, stream if sampled else content),
            file.digest,
            encoding=context.engine.encoding,
            study_fields=context.study_fields,
            alignments_per_batch=size,
        )
        before = 0
        for batch in reader:
            documents = len(batch)
            text, before = batch.bytes_read - before, batch.bytes_read
            for kind, found in batch:
                for part in (found[i : i + size] for i in range(0, len(found), size)):
                    call = partial(_insert, client.insert, kind, part)
                    # Counted before it is done: a part that failed half-way is taken out too.
                    stored[kind] += len(part)
                    yield Operation("insert", call, len(part), text * len(part) // documents)
        counts = reader.counts
        if not sampled:
            if (file.queries, file.alignments) != (counts.queries, counts.alignments):
                raise _changed(
                    file,
                    f"{file.queries} queries and {file.alignments} alignments",
                    f"{counts.queries} and {counts.alignments}",
                )
            if (digest := content.digest()) != file.digest:
                raise _changed(file, f"digest {file.digest.hex()}", digest.hex())
    context.loaded.append(
        LoadedFile(
            str(file.path),
            file.digest,
            file.bytes,
            counts.queries,
            counts.alignments,
            context.shard,
        )
    )


def _changed(file: InputFile, expected: str, found: str) -> InputError:
    return InputError(
        file.path,
        "the file is not what it was when the manifest was made; make the manifest again",
        expected=expected,
        found=found,
    )


def _insert(insert: Callable[[Kind, Sequence[Any]], None], kind: Kind, documents: list[Any]) -> int:
    insert(kind, documents)
    return len(documents)


def _stream(context: ClientContext) -> np.random.Generator:
    """This client's own random stream: no other client, phase, step or trial has it.

    SeedSequence mixes its entropy well (numpy.random.SeedSequence), so neighbouring numbers give
    independent streams.
    """
    phase = int.from_bytes(hashlib.blake2b(context.phase.encode(), digest_size=8).digest(), "big")
    root = np.random.SeedSequence([context.seed, phase, context.step])
    return np.random.default_rng(np.random.SeedSequence(root.entropy, spawn_key=(context.client,)))


def _read(client: Client, context: ClientContext) -> Iterator[Operation]:
    params: ReadParams = context.params
    draw = IdDraw(StoredFiles.read(context.written), _stream(context))
    if not draw.documents:
        raise EngineError("there is nothing to read: the load stored no document")
    share = None
    if params.operations is not None:
        share, rest = divmod(params.operations, context.clients)
        share += context.client < rest
    return _gets(client, context, draw, share)


def _gets(
    client: Client, context: ClientContext, draw: IdDraw, share: int | None
) -> Iterator[Operation]:
    """Operations ``get``, `share` of them or without end.

    The kind of an operation is drawn in proportion to the kinds' documents and its ids uniformly
    among the kind's, so each document is as likely as any other whatever the batch size.
    """
    batch: int = context.params.batch
    keeps = context.engine.flags.stores
    owner = client.owner if context.engine.flags.owner else None
    fetched: list[Document | None] = [None]

    def get(kind: Kind, document_id: bytes) -> int:
        document = fetched[0] = client.get(kind, document_id)
        if document is None and keeps:
            raise EngineError(f"document {document_id.hex()} of {kind.table} is missing")
        return 1

    def get_many(kind: Kind, ids: list[bytes]) -> int:
        fetched[:] = client.get_many(kind, ids)
        if None in fetched and keeps:
            missing = ids[fetched.index(None)]
            raise EngineError(f"document {missing.hex()} of {kind.table} is missing")
        return len(ids)

    def size() -> int:
        return sum(map(document_bytes, fetched))

    done = 0
    while share is None or done < share:
        count = _DRAW if share is None else min(_DRAW, share - done)
        done += count
        kinds = draw.kinds(count)
        ids = {
            kind: iter(draw.ids(kind, wanted * batch))
            for kind in _KINDS
            if (wanted := int(np.count_nonzero(kinds == kind.number)))
        }
        for number in kinds.tolist():
            kind = _KINDS[number]
            if batch == 1:
                document_id = next(ids[kind])
                node = owner(kind, document_id) if owner is not None else None
                yield Operation("get", partial(get, kind, document_id), 1, 0, node, size)
            else:
                several = [next(ids[kind]) for _ in range(batch)]
                call = partial(get_many, kind, several)
                yield Operation("get", call, batch, 0, None, size)


def document_bytes(document: Document | None) -> int:
    """Payload of a document: characters of its strings, bytes of its ids, 8 for each number."""
    if document is None:
        return 0
    total = 0
    for value in document.values():
        if isinstance(value, str | bytes):
            total += len(value)
        elif value is not None:
            total += 8
    return total
