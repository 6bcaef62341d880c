"""Is everything in the store that was acknowledged, and is it what was parsed?"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from storewise.documents import DIGEST_BYTES, Document, Kind, make_id, split_id
from storewise.driver.job import must_succeed
from storewise.driver.stores import reading_cluster
from storewise.driver.worker import versions
from storewise.engines.base import Client, Cluster, Engine
from storewise.engines.registry import engine as engine_named
from storewise.errors import EngineError
from storewise.metrics.host import facts, host_name
from storewise.metrics.schema import Sample, write_part
from storewise.ssearch.reader import DocumentReader
from storewise.ssearch.shards import load_shards
from storewise.trial import Trial
from storewise.workloads.files import IdDraw, StoredFiles, make_ids

PHASE = "verify"
#: Files that the sample comes from, at most, and their bytes on disk beyond the first file.
_FILES = 8
_BYTES = 16 << 20
#: Ids read per kind where an engine cannot count; more are sampled.
_ALL_IDS = 100_000
_BATCH = 500


@dataclass(frozen=True)
class VerifyJob:
    """The verification of one trial."""

    trial: Trial
    written: tuple[Path, ...]
    """The lists of the files that the loading workers stored."""
    shards: Path
    """The Parquet file with one row per input file and its shard."""
    result: Path
    stores: tuple[Path, ...] = ()
    """Store directories of the loading workers, in worker order (embedded engines)."""
    cluster: Cluster | None = None
    """What a client of a server engine connects to."""
    versions: Mapping[str, str] = field(default_factory=dict)
    """Of the servers."""
    conditions: Mapping[str, Any] = field(default_factory=dict)


@dataclass(slots=True)
class _Found:
    """Figures of one kind, and the first difference in words."""

    expected: int
    counted: int
    checked: int = 0
    lost: int = 0
    wrong: int = 0
    first: str | None = None

    def differs(self) -> bool:
        return bool(self.lost or self.wrong or self.counted != self.expected)


def run_verify(job: VerifyJob, check: Callable[[], None], log: logging.Logger) -> None:
    """Compare the store with its inputs and write the result part.

    - Every file of the shards must be among those that the load stored, unless it was quarantined.
    - Counts per kind, by the engine, must equal what the load stored; an engine that cannot count
      is asked for all ids instead, or a seeded sample above 100,000 of a kind.
    - A seeded sample of `trial.verify` documents per kind, from a few files, must equal what a
      fresh parse of those files gives, field by field.

    For a durable engine at a durable level a difference raises EngineError with kind, counts, and
    the first wrong id and field; otherwise ``lost_documents`` and ``wrong_documents`` record it.
    Engines that keep nothing are skipped, which the part's conditions say. `check` raises Aborted
    when the trial is to end.
    """
    trial = job.trial
    engine = engine_named(trial.engine)
    files = StoredFiles.read(job.written)
    left_out = _left_out(job.shards, files)
    if left_out:
        text = f"{len(left_out)} input files were not stored, the first: {left_out[0]}"
        if trial.on_bad_input == "fail":
            raise EngineError(text)
        log.warning("%s", text)
    samples: list[Sample] = []
    found: dict[Kind, _Found] = {}
    if engine.flags.stores:
        cluster = job.cluster or reading_cluster(trial, job.stores, files)
        client = engine.connect(cluster, "read")
        try:
            verifier = _Verifier(trial, engine, client, files, check)
            found = {kind: verifier.count(kind) for kind in Kind}
            verifier.compare(found)
        finally:
            client.close()
    for kind, result in found.items():
        log.info(
            "%s: %d documents expected, %d counted, %d checked, %d lost, %d wrong",
            kind.table,
            result.expected,
            result.counted,
            result.checked,
            result.lost,
            result.wrong,
        )
        samples += [
            Sample(PHASE, metric, value, "1", operation=kind.table)
            for metric, value in (
                ("expected_documents", result.expected),
                ("counted_documents", result.counted),
                ("checked_documents", result.checked),
                ("lost_documents", result.lost),
                ("wrong_documents", result.wrong),
            )
        ]
    differences = [_words(kind, result) for kind, result in found.items() if result.differs()]
    if differences and must_succeed(engine, trial):
        raise EngineError(
            f"{engine.title} acknowledged documents and does not have them as they were: "
            + "; ".join(differences)
        )
    write_part(
        job.result,
        samples,
        trial=trial.id,
        repeat=trial.repeat,
        host=host_name(),
        factors=trial.factors,
        conditions={
            **job.conditions,
            "trial": trial.model_dump(mode="json"),
            "phase": PHASE,
            "verification": _manner(engine, trial),
            "left_out": left_out,
            "seed": trial.seed,
            "versions": {**versions(engine), **job.versions},
            "host": facts(),
            "warnings": [*job.conditions.get("warnings", ()), *differences],
        },
    )


def _left_out(shards: Path, files: StoredFiles) -> list[str]:
    """Files of the shards that no loading worker stored."""
    stored = {bytes(prefix) for prefix in files.prefixes}
    rows = load_shards(shards).select(["path", "digest"]).to_pylist()
    return [row["path"] for row in rows if row["digest"][:DIGEST_BYTES] not in stored]


def _manner(engine: Engine, trial: Trial) -> str:
    if not engine.flags.stores:
        return "skipped: the engine keeps nothing"
    return "required" if must_succeed(engine, trial) else "measured"


def _words(kind: Kind, found: _Found) -> str:
    text = f"{kind.table}: {found.expected} documents expected, {found.counted} counted"
    if found.lost or found.wrong:
        text += f", {found.lost} lost and {found.wrong} wrong of {found.checked} checked"
    return text + (f", first: {found.first}" if found.first else "")


class _Verifier:
    def __init__(
        self,
        trial: Trial,
        engine: Engine,
        client: Client,
        files: StoredFiles,
        check: Callable[[], None],
    ) -> None:
        self._trial, self._engine, self._client = trial, engine, client
        self._files, self._check = files, check
        self._generator = np.random.default_rng(np.random.SeedSequence([trial.seed, 0x7665]))

    def count(self, kind: Kind) -> _Found:
        """What should be there and what the engine says is there."""
        self._check()
        expected = self._files.total(kind)
        if self._engine.flags.count != "none":
            counted = self._client.count(kind)
            return _Found(expected, counted, lost=max(0, expected - counted))
        checked = lost = 0
        first = None
        for ids in self._all_or_some(kind, expected):
            self._check()
            for document_id, document in zip(ids, self._client.get_many(kind, ids), strict=True):
                checked += 1
                if document is None:
                    lost += 1
                    first = first or f"document {document_id.hex()} is missing"
        # Of a sample the share that is missing stands for all.
        missing = round(expected * lost / checked) if checked else 0
        return _Found(expected, expected - missing, checked, missing, 0, first)

    def _all_or_some(self, kind: Kind, expected: int) -> Iterator[list[bytes]]:
        if expected > _ALL_IDS:
            draw = IdDraw(self._files, self._generator)
            for _ in range(_ALL_IDS // _BATCH):
                yield draw.ids(kind, _BATCH)
            return
        for prefix, count in zip(
            self._files.prefixes, self._files.counts(kind).tolist(), strict=True
        ):
            for start in range(0, count, _BATCH):
                ordinals = np.arange(start, min(count, start + _BATCH))
                yield make_ids(np.tile(prefix, (len(ordinals), 1)), kind, ordinals)

    def compare(self, found: dict[Kind, _Found]) -> None:
        """Read a sample back and compare it with a fresh parse, adding to `found`."""
        wanted = self._choose()
        for number, ordinals in wanted.items():
            self._check()
            for kind, document_id, expected in self._parse(number, ordinals):
                result = found[kind]
                result.checked += 1
                stored = self._client.get(kind, document_id)
                if stored is None:
                    if self._engine.flags.count != "none" and result.counted == result.expected:
                        result.lost += 1  # the count did not show it
                    difference: str | None = "is missing"
                else:
                    difference = _difference(expected, stored)
                    result.wrong += difference is not None
                if difference is not None and result.first is None:
                    result.first = f"document {document_id.hex()} {difference}"

    def _choose(self) -> dict[int, dict[Kind, frozenset[int]]]:
        """Ordinals to check by file and kind: a few files, drawn in proportion to their
        documents, and `trial.verify` documents of each kind in them."""
        documents = self._files.queries + 3 * self._files.alignments
        number = min(_FILES, int(np.count_nonzero(documents)))
        if not number or not self._trial.verify:
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
        for kind in Kind:
            counts = self._files.counts(kind)[files]
            ends = np.cumsum(counts)
            total = int(ends[-1])
            if not total:
                continue
            at = self._generator.choice(total, size=min(total, self._trial.verify), replace=False)
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
            study_fields=self._trial.study_fields,
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


def _difference(expected: Document, stored: Document) -> str | None:
    """How a stored document differs from the parsed one, None where it does not."""
    for name in [*expected, *(name for name in stored if name not in expected)]:
        if name not in stored:
            return f"lacks field {name!r}"
        if name not in expected:
            return f"has a field {name!r} that was not stored"
        if expected[name] != stored[name] or type(expected[name]) is not type(stored[name]):
            return f"has {stored[name]!r} in field {name!r}, expected {expected[name]!r}"
    return None
