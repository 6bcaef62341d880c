"""Is everything that was acknowledged in the store, and is it what was parsed?

- Counts per kind, by the engine, must equal what the load stored; an engine that cannot count is
  asked for all ids instead, or a seeded sample above 100,000 of a kind.
- A seeded sample of documents per kind, from a few files, must equal what a fresh parse of those
  files gives, field by field.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

import numpy as np

from storewise.documents import DIGEST_BYTES, KINDS, Document, Kind, make_id, split_id
from storewise.engines.contract.queries import Count
from storewise.errors import EngineError
from storewise.ssearch.inputs.shards import load_shards
from storewise.ssearch.parse.reader import DocumentReader
from storewise.workloads.alignments.stored_files import IdDraw, StoredFiles
from storewise.workloads.contract import Checked, VerifyContext, count_by_ids

#: Files that the sample comes from, at most, and their bytes on disk beyond the first file.
_FILES = 8
_BYTES = 16 << 20
#: Ids read per kind where an engine cannot count; more are sampled.
_ALL_IDS = 100_000
_BATCH = 500


def not_stored(shards: Path, files: StoredFiles) -> list[str]:
    """Files of the shards that no loading worker stored."""
    stored = {bytes(prefix) for prefix in files.prefixes}
    rows = load_shards(shards).select(["path", "digest"]).to_pylist()
    return [row["path"] for row in rows if row["digest"][:DIGEST_BYTES] not in stored]


def check_documents(context: VerifyContext, files: StoredFiles) -> list[Checked]:
    """Compare the stored documents of each kind with those of `files`; EngineError if an input file
    has changed since the load."""
    verifier = _Verifier(context, files)
    checked = {kind: verifier.count(kind) for kind in KINDS}
    verifier.compare(checked)
    return list(checked.values())


class _Verifier:
    def __init__(self, context: VerifyContext, files: StoredFiles) -> None:
        self._context, self._engine, self._client = context, context.engine, context.client
        self._files, self._check = files, context.raise_if_aborted
        self._generator = np.random.default_rng(np.random.SeedSequence([context.seed, 0x7665]))

    def count(self, kind: Kind) -> Checked:
        """Compare the number of documents loaded with the number that the engine counts."""
        self._check()
        expected = self._files.total(kind)
        if self._engine.flags.count != "none":
            counted = self._client.count(Count(kind))
            if expected < counted <= expected + self._files.unsure_of(kind):
                counted = expected  # what was not acknowledged may be there
            return Checked(kind.table, expected, counted, lost=max(0, expected - counted))
        ids = self._all_or_some(kind, expected)
        return count_by_ids(self._context, kind, expected, ids, lambda i: f"document {i.hex()}")

    def _all_or_some(self, kind: Kind, expected: int) -> Iterator[list[bytes]]:
        if expected <= _ALL_IDS:
            yield from self._files.every_id(kind)
            return
        draw = IdDraw(self._files, self._generator)
        for _ in range(_ALL_IDS // _BATCH):
            yield draw.ids(kind, _BATCH)

    def compare(self, checked: dict[Kind, Checked]) -> None:
        """Read a sample back and compare it with a fresh parse, adding to `checked`."""
        counts = self._engine.flags.count != "none"
        wanted = self._choose()
        for number, ordinals in wanted.items():
            self._check()
            for kind, document_id, expected, stored in self._pairs(number, ordinals):
                name = f"document {document_id.hex()}"
                checked[kind].compare(name, expected, stored, counts=counts)

    def _pairs(
        self, number: int, ordinals: Mapping[Kind, frozenset[int]]
    ) -> Iterator[tuple[Kind, bytes, Document, Document | None]]:
        """The wanted documents of a file as a fresh parse gives them, and as they are stored."""
        # All of a kind at once: some engines read the file again for each look-up.
        by_kind: dict[Kind, dict[bytes, Document]] = {}
        for kind, document_id, document in self._parse(number, ordinals):
            by_kind.setdefault(kind, {})[document_id] = document
        for kind, documents in by_kind.items():
            stored = self._client.get_many(kind, list(documents))
            for (document_id, document), one in zip(documents.items(), stored, strict=True):
                yield kind, document_id, document, one

    def _choose(self) -> dict[int, dict[Kind, frozenset[int]]]:
        """Ordinals to check by file and kind: a few files, drawn in proportion to their
        documents, and `trial.verify` documents of each kind in them."""
        documents = np.sum([self._files.counts(kind) for kind in KINDS], axis=0)
        number = min(_FILES, int(np.count_nonzero(documents)))
        if not number or not self._context.sample:
            return {}
        drawn = self._generator.choice(
            len(documents), size=number, replace=False, p=documents / documents.sum()
        )
        files: list[int] = []
        size = 0
        for file in drawn.tolist():
            size += int(self._files.sizes[file])
            if files and size > _BYTES:
                break
            files.append(file)
        wanted: dict[int, dict[Kind, frozenset[int]]] = {file: {} for file in files}
        for kind in KINDS:
            counts = self._files.counts(kind)[files]
            ends = np.cumsum(counts)
            total = int(ends[-1])
            if not total:
                continue
            at = self._generator.choice(total, size=min(total, self._context.sample), replace=False)
            of_file = np.searchsorted(ends, at, side="right")
            for place, file in enumerate(files):
                start = int(ends[place] - counts[place])
                ordinals = (at[of_file == place] - start).tolist()
                wanted[file][kind] = frozenset(ordinals)
        return wanted

    def _parse(
        self, number: int, ordinals: Mapping[Kind, frozenset[int]]
    ) -> Iterator[tuple[Kind, bytes, Document]]:
        """The wanted documents of a file as a fresh parse gives them."""
        digest = self._files.digest(number)
        ids = {
            make_id(digest, kind, ordinal) for kind, them in ordinals.items() for ordinal in them
        }
        reader = DocumentReader(
            self._files.path(number),
            digest,
            encoding="dict",
            study_fields=self._context.study_fields,
        )
        for batch in reader:
            for kind, documents in batch:
                for document in documents:
                    document_id = document["_id"]
                    if document_id in ids:
                        ids.discard(document_id)
                        yield kind, document_id, document
            if not ids:
                return
        missing = split_id(next(iter(ids)))
        raise EngineError(
            f"{self._files.path(number)}: a fresh parse has no {missing[1].table} document "
            f"{missing[2]} that the load stored; the file was changed meanwhile"
        )
