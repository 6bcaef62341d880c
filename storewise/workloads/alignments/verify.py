"""Verification: stored documents against a fresh parse of the input files.

A seeded sample of documents per kind, from a few files, must equal what a fresh parse of those
files gives. An engine that cannot count is asked for all ids, or for a seeded sample of them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path

import numpy as np

from storewise.documents import DIGEST_BYTES, KINDS, Document, Kind, make_id, split_id
from storewise.errors import EngineError
from storewise.ssearch.inputs.shards import load_shards
from storewise.ssearch.parse.reader import DocumentReader
from storewise.workloads.alignments.stored_files import IdDraw, StoredFiles
from storewise.workloads.contract import Checked, VerifyContext
from storewise.workloads.verification import (
    BATCH,
    MAX_READ,
    check_kind,
    counts_natively,
    difference_of,
    generator_of,
)

#: Files that the sample comes from, at most, and their bytes on disk beyond the first file.
_FILES = 8
_BYTES = 16 << 20

#: Documents of a sample by their ids.
_Documents = dict[bytes, Document]


def not_stored(shards: Path, files: StoredFiles) -> list[str]:
    """Files of the shards that no loading worker stored."""
    stored = {bytes(prefix) for prefix in files.prefixes}
    rows = load_shards(shards).select(["path", "digest"]).to_pylist()
    return [row["path"] for row in rows if row["digest"][:DIGEST_BYTES] not in stored]


def check_documents(context: VerifyContext, files: StoredFiles) -> list[Checked]:
    """Compare the stored documents of each kind with those of `files`; EngineError if an input file
    has changed since the load."""
    generator = generator_of(context)
    parsed: dict[Kind, _Documents] = {kind: {} for kind in KINDS}
    for file, ordinals in _sample(context, files, generator).items():
        context.raise_if_aborted()
        for kind, document in _parse(context, files, file, ordinals):
            parsed[kind][document["_id"]] = document
    return [
        check_kind(
            context,
            kind,
            files.total(kind),
            _ids(context, files, kind, parsed[kind], generator),
            partial(_difference, parsed[kind]),
            lambda document_id: f"document {document_id.hex()}",
            files.unsure_of(kind),
        )
        for kind in KINDS
    ]


def _difference(parsed: _Documents, document_id: bytes, stored: Document) -> str | None:
    expected = parsed.get(document_id)
    return None if expected is None else difference_of(expected, stored)


def _ids(
    context: VerifyContext,
    files: StoredFiles,
    kind: Kind,
    sample: _Documents,
    generator: np.random.Generator,
) -> Iterator[list[bytes]]:
    """The ids to read: those of the sample, and where the engine cannot count all or many more."""
    if not counts_natively(context) and files.total(kind) <= MAX_READ:
        yield from files.every_id(kind)
        return
    ids = list(sample)
    for start in range(0, len(ids), BATCH):
        yield ids[start : start + BATCH]
    if not counts_natively(context):
        draw = IdDraw(files, generator)
        yield from (draw.ids(kind, BATCH) for _ in range(MAX_READ // BATCH))


def _sample(
    context: VerifyContext, files: StoredFiles, generator: np.random.Generator
) -> dict[int, dict[Kind, frozenset[int]]]:
    """Ordinals to compare by file and kind: a few files, drawn in proportion to their documents,
    and `trial.verify` documents of each kind in them."""
    documents = np.sum([files.counts(kind) for kind in KINDS], axis=0)
    number = min(_FILES, int(np.count_nonzero(documents)))
    if not number or not context.sample:
        return {}
    share = documents / documents.sum()
    drawn = generator.choice(len(documents), size=number, replace=False, p=share)
    chosen = drawn[: max(1, np.count_nonzero(np.cumsum(files.sizes[drawn]) <= _BYTES))]
    wanted: dict[int, dict[Kind, frozenset[int]]] = {file: {} for file in chosen.tolist()}
    for kind in KINDS:
        counts = files.counts(kind)[chosen]
        ends = np.cumsum(counts)
        total = int(ends[-1])
        at = generator.choice(total, size=min(total, context.sample), replace=False)
        of_file = np.searchsorted(ends, at, side="right")
        for place, (file, start) in enumerate(zip(wanted, ends - counts, strict=True)):
            wanted[file][kind] = frozenset((at[of_file == place] - start).tolist())
    return wanted


def _parse(
    context: VerifyContext, files: StoredFiles, file: int, ordinals: Mapping[Kind, frozenset[int]]
) -> Iterator[tuple[Kind, Document]]:
    """The wanted documents of a file as a fresh parse gives them."""
    path, digest = files.path(file), files.digest(file)
    ids = {make_id(digest, kind, n) for kind, numbers in ordinals.items() for n in numbers}
    for batch in DocumentReader(path, digest, study_fields=context.study_fields):
        for kind, documents in batch:
            for document in documents:
                if document["_id"] in ids:
                    ids.remove(document["_id"])
                    yield kind, document
        if not ids:
            return
    _, kind, ordinal = split_id(min(ids))
    raise EngineError(
        f"{path}: a fresh parse has no {kind.table} document {ordinal} that the load stored; the "
        "file was changed meanwhile"
    )
