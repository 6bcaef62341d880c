"""The workload of the published study: store all documents of SSEARCH outputs, read some back."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, ClassVar

from pydantic import Field

from storewise.documents import KINDS, Kind
from storewise.engines.contract.engine import Client, Placement, SourceFile
from storewise.errors import EngineError, InputError
from storewise.ssearch.inputs.shards import load_shard
from storewise.ssearch.inputs.table import InputFile
from storewise.ssearch.parse.remote import fetched_ahead, prepare
from storewise.workloads.alignments.insert_batches import assign_files, parts_of, roll_back_file
from storewise.workloads.alignments.mixed_phase import MixedParams, left_files, mixed
from storewise.workloads.alignments.point_reads import PointReads
from storewise.workloads.alignments.queries import QUESTIONS
from storewise.workloads.alignments.query_phase import QueryParams, questions
from storewise.workloads.alignments.stored_files import (
    IdDraw,
    StoredFiles,
    files_to_come,
    shard_placement,
)
from storewise.workloads.alignments.verify import check_documents, not_stored
from storewise.workloads.contract import (
    Checked,
    ClientContext,
    EndedParams,
    LoadedFile,
    Operation,
    PhaseSpec,
    VerifyContext,
    WholeParams,
    Workload,
)


class WriteParams(WholeParams):
    """Parameters of the load."""

    for_less = "`inputs: sample`"
    batch_size: int = Field(
        default=1000, ge=1, description="documents of one kind in one insert, at most"
    )

    leave: float = Field(
        default=0.0,
        ge=0,
        lt=1,
        description="share of each shard's files that is not loaded, but left for phase mixed",
    )


class ReadParams(EndedParams):
    """Parameters of reading by id."""

    batch: int = Field(default=1, ge=1, description="ids of one kind in one get")


class AlignmentsWorkload(Workload):
    """``write``: parse and insert a shard. ``read``: get documents by random id. ``query``: ask
    what a biologist asks. ``mixed``: insert what the load has left while reading by random id."""

    name: ClassVar[str] = "alignments"
    indexes: ClassVar[tuple[str, ...]] = ("align.e", "align.gene")
    phases: ClassVar[Mapping[str, PhaseSpec]] = {
        "write": PhaseSpec("write", WriteParams, ("insert", "finish"), loads=True),
        "read": PhaseSpec("read", ReadParams, ("get",), loads=False),
        "query": PhaseSpec("query", QueryParams, (*QUESTIONS, "get"), loads=False),
        "mixed": PhaseSpec("mixed", MixedParams, ("get", "add"), loads=False, changes=True),
    }

    def operations(self, phase: str, client: Client, context: ClientContext) -> Iterator[Operation]:
        phases = {"write": _write, "read": _read, "query": questions, "mixed": mixed}
        return phases[phase](client, context)

    def clash(self, load: Any, params: Any) -> str | None:
        if isinstance(params, MixedParams) and params.writes and not load.leave:
            return (
                "inserts what the load has left, and it leaves nothing; add `leave` to the load, "
                "such as `write: {leave: 0.3}`, or set `writes: 0`"
            )
        return None

    def placement(self, stores: int, written: Sequence[Path]) -> Placement:
        return shard_placement(StoredFiles.read(written))

    def sources(
        self, shards: Path | None, written: Sequence[Path], notes: Sequence[Mapping[str, Any]]
    ) -> tuple[SourceFile, ...]:
        if not written:
            return files_to_come(shards) if shards is not None else ()
        return StoredFiles.read(written).with_notes(notes).sources()

    def left_out(self, shards: Path | None, written: Sequence[Path]) -> list[str]:
        return not_stored(shards, StoredFiles.read(written)) if shards is not None else []

    def verify(self, context: VerifyContext) -> list[Checked]:
        return check_documents(context, StoredFiles.read(context.written).with_notes(context.notes))


def _write(client: Client, context: ClientContext) -> Iterator[Operation]:
    if context.shards is None:
        raise EngineError("a load of alignments needs the list of its input files")
    all_files = load_shard(context.shards, context.shard)
    left = left_files(all_files, context.params.leave)
    if context.thread == 0:
        # Nothing of them is stored yet, but later phases know whose they are.
        context.loaded.extend(loaded_file(file, 0, 0, context.shard) for file in left)
    skip = {file.digest for file in left}
    rest = [file for file in all_files if file.digest not in skip]
    files = assign_files(rest, context.thread, context.threads)
    prepare(files)
    return _store_files(client, context, files)


def _store_files(
    client: Client, context: ClientContext, files: Sequence[InputFile]
) -> Iterator[Operation]:
    """Insert and check each file; with `quarantine`, take a bad one out again and go on."""
    with fetched_ahead(files):
        for file in files:
            stored = dict.fromkeys(KINDS, 0)
            try:
                for kind, part, text in parts_of(file, context, context.params.batch_size):
                    # Counted before it is done: a part that failed half-way is taken out too.
                    stored[kind] += len(part)
                    call = partial(_insert, client.insert, kind, part)
                    yield Operation("insert", call, len(part), text)
            except InputError as error:
                roll_back_file(client, context, file, stored, error)
            else:
                queries, alignments = stored[Kind.TASKS], stored[Kind.ALIGN]
                context.loaded.append(loaded_file(file, queries, alignments, context.shard))


def loaded_file(file: InputFile, queries: int, alignments: int, shard: int) -> LoadedFile:
    """A row of the list of stored files."""
    return LoadedFile(
        str(file.path), file.digest, file.bytes, queries, alignments, shard, file.format
    )


def _insert(
    insert: Callable[[Kind, Sequence[Any]], None], kind: Kind, documents: Sequence[Any]
) -> int:
    insert(kind, documents)
    return len(documents)


def _read(client: Client, context: ClientContext) -> Iterator[Operation]:
    files = StoredFiles.read(context.written).with_notes(context.before)
    draw = IdDraw(files, context.stream())
    if not draw.documents:
        raise EngineError("there is nothing to read: the load stored no document")
    reads, batch = PointReads(client, context), context.params.batch
    if batch == 1:
        return reads.single_reads(draw.single_ids(context.share))
    return itertools.starmap(reads.batch_read, draw.id_batches(context.share, batch))
