"""Verification: acknowledged documents must be in the store, unchanged.

Every workload is verified by kind: count its documents, read some of them by id, and compare them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping

import numpy as np
from numpy.typing import NDArray

from storewise.documents import Document, Kind
from storewise.engines.contract.queries import Count
from storewise.workloads.contract import Checked, VerifyContext

#: Kinds with more documents than this are verified by a sample.
MAX_READ = 100_000
#: Ids of one read.
BATCH = 500


def generator_of(context: VerifyContext) -> np.random.Generator:
    """The random generator for the samples of a verification."""
    return np.random.default_rng(np.random.SeedSequence([context.seed, 0x7665]))


def counts_natively(context: VerifyContext) -> bool:
    """Whether the engine can count its documents; otherwise they must be read."""
    return context.engine.flags.count != "none"


def check_kind(
    context: VerifyContext,
    kind: Kind,
    expected: int,
    ids: Iterable[list[bytes]],
    difference: Callable[[bytes, Document], str | None],
    name_of: Callable[[bytes], str],
    unsure: int = 0,
) -> Checked:
    """Count the documents of a kind, then read those with these ids and compare them.

    `difference` says how a stored document differs from what it should be, `name_of` what messages
    call it. `unsure` documents were not acknowledged: they may be there or not. Where the engine
    cannot count, the share of missing documents among those that were read is taken for all.
    """
    native = counts_natively(context)
    context.raise_if_aborted()
    counted = context.client.count(Count(kind)) if native else expected
    acknowledged, expected = expected, min(max(counted, expected), expected + unsure)
    result = Checked(kind.table, expected, counted)
    missing = 0
    for some in ids:
        context.raise_if_aborted()
        for document_id, document in zip(some, context.client.get_many(kind, some), strict=True):
            result.checked += 1
            found = "is missing" if document is None else difference(document_id, document)
            if found is None:
                continue
            result.first = result.first or f"{name_of(document_id)} {found}"
            missing += document is None
            result.wrong += document is not None
    if native:
        # A loss that the count has shown is not counted twice.
        result.lost = max(0, expected - counted, missing)
    elif result.checked:
        result.lost = round(acknowledged * missing / result.checked)
        result.counted = expected - result.lost
    return result


def check_sample(
    context: VerifyContext,
    kind: Kind,
    expected: int,
    sample: Mapping[bytes, Document],
    ids_of: Callable[[NDArray[np.int64]], list[bytes]],
    generator: np.random.Generator,
    name_of: Callable[[bytes], str],
    unsure: int = 0,
) -> Checked:
    """Count the documents of a kind and compare a sample of them (by id), field by field.

    `ids_of` gives the ids of documents by their numbers, below `expected`: an engine that cannot
    count is asked for all of them, or for MAX_READ of more, drawn with replacement."""

    def ids() -> Iterator[list[bytes]]:
        if not counts_natively(context) and expected <= MAX_READ:
            for at in range(0, expected, BATCH):
                yield ids_of(np.arange(at, min(at + BATCH, expected)))
            return
        some = list(sample)
        yield from (some[at : at + BATCH] for at in range(0, len(some), BATCH))
        if not counts_natively(context):
            for _ in range(MAX_READ // BATCH):
                yield ids_of(generator.integers(0, expected, BATCH))

    def difference(document_id: bytes, stored: Document) -> str | None:
        made = sample.get(document_id)
        return None if made is None else difference_of(made, stored)

    return check_kind(context, kind, expected, ids(), difference, name_of, unsure)


def difference_of(expected: Document, stored: Document) -> str | None:
    """The difference between a stored and the expected document, None if there is none."""
    for name in {**expected, **stored}:
        if name not in stored:
            return f"lacks field {name!r}"
        if name not in expected:
            return f"has a field {name!r} that was not stored"
        if expected[name] != stored[name] or type(expected[name]) is not type(stored[name]):
            return f"has {stored[name]!r} in field {name!r}, expected {expected[name]!r}"
    return None
