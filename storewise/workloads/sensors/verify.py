"""Are all acknowledged readings in the store, and are they those that the generator makes?"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from storewise.workloads.alignments.verify import difference_of
from storewise.workloads.contract import Checked, Look
from storewise.workloads.sensors.generator import MEASURES, Readings

#: Keys read where an engine cannot count; of more readings a sample.
_ALL_KEYS = 100_000
_BATCH = 500


def check_readings(look: Look, readings: Readings, rows: int) -> Checked:
    """The number of readings by the engine's count (without one by all keys, or a seeded sample
    above 100,000), and a seeded sample compared field by field."""
    generator = np.random.default_rng(np.random.SeedSequence([look.seed, 0x7665]))
    look.check()
    if look.engine.flags.count != "none":
        counted = look.client.count(MEASURES)
        found = Checked(MEASURES.table, rows, counted, lost=max(0, rows - counted))
    else:
        found = _count_by_keys(look, readings, rows, generator)
    counts = look.engine.flags.count != "none"
    for row in generator.integers(0, rows, min(rows, look.sample)).tolist():
        look.check()
        expected = readings.document(row)
        stored = look.client.get(MEASURES, expected["_id"])
        found.checked += 1
        if stored is None:
            if counts and found.counted == found.expected:
                found.lost += 1  # the count did not show it
            text: str | None = "is missing"
        else:
            text = difference_of(expected, stored)
            found.wrong += text is not None
        if text is not None and found.first is None:
            found.first = f"reading {MEASURES.unpack(expected['_id'])} {text}"
    return found


def _count_by_keys(
    look: Look, readings: Readings, rows: int, generator: np.random.Generator
) -> Checked:
    checked = lost = 0
    first = None
    for ids in _keys(readings, rows, generator):
        look.check()
        for document_id, document in zip(ids, look.client.get_many(MEASURES, ids), strict=True):
            checked += 1
            if document is None:
                lost += 1
                first = first or f"reading {MEASURES.unpack(document_id)} is missing"
    # Of a sample the share that is missing stands for all.
    missing = round(rows * lost / checked) if checked else 0
    return Checked(MEASURES.table, rows, rows - missing, checked, missing, 0, first)


def _keys(readings: Readings, rows: int, generator: np.random.Generator) -> Iterator[list[bytes]]:
    if rows > _ALL_KEYS:
        for _ in range(_ALL_KEYS // _BATCH):
            yield readings.ids(generator.integers(0, rows, _BATCH))
        return
    for at in range(0, rows, _BATCH):
        yield readings.ids(np.arange(at, min(at + _BATCH, rows)))
