"""The documents of one input file, in the batches that a client inserts."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple, cast

from storewise.documents import Kind, make_id
from storewise.engines.contract.engine import Client
from storewise.errors import InputError
from storewise.s3.uri import is_remote
from storewise.ssearch.inputs.table import InputFile
from storewise.ssearch.parse.stream import Digesting, open_input
from storewise.ssearch.reader import DocumentReader
from storewise.workloads.contract import ClientContext, RefusedFile


class Part(NamedTuple):
    """Documents of one kind for one insert, in the engine's encoding.

    `bytes` is its share, by number of documents, of the decompressed SSEARCH text they came from:
    the same for every store, whatever form its documents have.
    """

    kind: Kind
    documents: Sequence[Any]
    bytes: int


def parts_of(file: InputFile, context: ClientContext, size: int) -> Iterator[Part]:
    """The parts of a file, each of at most `size` documents, in the order of ids within a kind.

    At the end the file is checked against its manifest row. Raises InputError for a file that is
    bad or was changed since.
    """
    with open_input(file.path, file) as stream:
        # An object is read only as it was listed.
        if not is_remote(file.path) and (now := Path(file.path).stat().st_size) != file.bytes:
            raise _changed(file, f"{file.bytes} bytes", f"{now} bytes")
        content = Digesting(stream, file.path)
        reader = DocumentReader(
            cast(BinaryIO, content),
            file.digest,
            input_format=file.format,
            encoding=context.engine.encoding,
            study_fields=context.schema.study_fields,
            alignments_per_batch=size,
        )
        before = 0
        for batch in reader:
            text, before = batch.bytes_read - before, batch.bytes_read
            for kind, documents in batch:
                # A slice of a record batch copies nothing.
                for i in range(0, len(documents), size):
                    part = documents[i : i + size]
                    yield Part(kind, part, text * len(part) // len(batch))
        counts = reader.counts
        if (file.queries, file.alignments) != (counts.queries, counts.alignments):
            raise _changed(
                file,
                f"{file.queries} queries and {file.alignments} alignments",
                f"{counts.queries} and {counts.alignments}",
            )
        if (digest := content.digest()) != file.digest:
            raise _changed(file, f"digest {file.digest.hex()}", digest.hex())


def _changed(file: InputFile, expected: str, actual: str) -> InputError:
    return InputError(
        file.path,
        "the file has changed since the manifest was made; make the manifest again "
        "(`snakemake -R manifest`)",
        expected=expected,
        found=actual,
    )


def assign_files(files: Sequence[InputFile], thread: int, threads: int) -> list[InputFile]:
    """The files that a thread loads: files are assigned by size, the largest first, each to the
    thread with the fewest bytes so far."""
    loads = [0] * threads
    mine = []
    for file in sorted(files, key=lambda f: (-f.bytes, f.path)):
        least = loads.index(min(loads))
        loads[least] += file.bytes
        if least == thread:
            mine.append(file)
    return mine


def roll_back_file(
    client: Client,
    context: ClientContext,
    file: InputFile,
    stored: Mapping[Kind, int],
    error: InputError,
) -> None:
    """Delete the documents of a bad file that were stored already (`stored` per kind) and add it to
    `context.refused`. Raises InputError without quarantine, or if the engine cannot delete."""
    if not context.quarantine:
        raise error
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
