"""Verification: stored documents against a fresh parse of the input files.

A seeded sample of documents per kind, from a few files, must equal what a fresh parse of those
files gives.
"""

from __future__ import annotations

from functools import partial
from pathlib import Path

import numpy as np

from storewise.documents import DIGEST_BYTES, KINDS, Document, Kind, split_id
from storewise.errors import EngineError
from storewise.ssearch.inputs.shards import load_shards
from storewise.ssearch.reader import DocumentReader
from storewise.workloads.alignments.stored_files import StoredFiles
from storewise.workloads.contract import Checked, VerifyContext
from storewise.workloads.verification import check_sample, generator_of

#: Files that the sample comes from, at most, and their bytes on disk beyond the first file.
_FILES = 8
_BYTES = 16 << 20


def not_stored(shards: Path, files: StoredFiles) -> list[str]:
    """Files of the shards that no loading worker stored."""
    stored = set(map(bytes, files.prefixes))
    rows = load_shards(shards).select(["path", "digest"]).to_pylist()
    return [row["path"] for row in rows if row["digest"][:DIGEST_BYTES] not in stored]


def check_documents(context: VerifyContext, files: StoredFiles) -> list[Checked]:
    """Compare the stored documents of each kind with those of `files`; EngineError if an input file
    has changed since the load."""
    generator = generator_of(context)
    sample = _sample(context, files, generator)
    return [
        check_sample(
            context,
            kind,
            files.total(kind),
            sample[kind],
            partial(files.ids, kind),
            generator,
            lambda document_id: f"document {document_id.hex()}",
            int(files.unsure[:, kind.number].sum()),
        )
        for kind in KINDS
    ]


def _sample(
    context: VerifyContext, files: StoredFiles, generator: np.random.Generator
) -> dict[Kind, dict[bytes, Document]]:
    """`trial.verify` documents of each kind as a fresh parse gives them, by id, of a few files that
    are drawn in proportion to their documents."""
    sample: dict[Kind, dict[bytes, Document]] = {kind: {} for kind in KINDS}
    documents = files.documents.sum(axis=1)
    number = min(_FILES, int(np.count_nonzero(documents)))
    if not number or not context.sample:
        return sample
    share = documents / documents.sum()
    drawn = files.take(generator.choice(len(documents), size=number, replace=False, p=share))
    sizes = np.cumsum(drawn.column("bytes"))
    few = drawn.take(np.arange(max(1, int(np.count_nonzero(sizes <= _BYTES)))))
    wanted: set[bytes] = set()
    for kind in KINDS:
        total = few.total(kind)
        size = min(total, context.sample)
        wanted.update(few.ids(kind, generator.choice(total, size=size, replace=False)))
    columns = (few.column(name) for name in ("path", "digest", "format"))
    for path, digest, form in zip(*columns, strict=True):
        of_file = {one for one in wanted if one.startswith(digest[:DIGEST_BYTES])}
        reader = DocumentReader(path, digest, input_format=form, study_fields=context.study_fields)
        for batch in reader:
            context.raise_if_aborted()
            for kind, some in batch:
                sample[kind].update((d["_id"], d) for d in some if d["_id"] in of_file)
                of_file.difference_update(sample[kind])
            if not of_file:
                break
        if of_file:
            _, kind, ordinal = split_id(min(of_file))
            raise EngineError(
                f"{path}: a fresh parse has no {kind.table} document {ordinal} that the load "
                "stored; the file was changed meanwhile"
            )
    return sample
