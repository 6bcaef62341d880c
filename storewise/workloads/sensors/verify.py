"""Are all acknowledged readings in the store, and are they those that the generator makes?"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from storewise.engines.contract.queries import Count
from storewise.workloads.contract import Checked, VerifyContext, count_by_ids
from storewise.workloads.sensors.generator import MEASURES, Readings

#: Keys read where an engine cannot count; of more readings a sample.
_ALL_KEYS = 100_000
_BATCH = 500


def check_readings(context: VerifyContext, readings: Readings, rows: int) -> Checked:
    """Count the readings, and compare a seeded sample field by field.

    An engine that cannot count is asked for all keys; above 100,000 for a seeded sample of them.
    """
    generator = np.random.default_rng(np.random.SeedSequence([context.seed, 0x7665]))
    context.raise_if_aborted()
    counts = context.engine.flags.count != "none"
    if counts:
        counted = context.client.count(Count(MEASURES))
        checked = Checked(MEASURES.table, rows, counted, lost=max(0, rows - counted))
    else:
        checked = count_by_ids(context, MEASURES, rows, _keys(readings, rows, generator), _name)
    for row in generator.integers(0, rows, min(rows, context.sample)).tolist():
        context.raise_if_aborted()
        expected = readings.document(row)
        stored = context.client.get(MEASURES, expected["_id"])
        checked.compare(_name(expected["_id"]), expected, stored, counts=counts)
    return checked


def _name(document_id: bytes) -> str:
    return f"reading {MEASURES.unpack(document_id)}"


def _keys(readings: Readings, rows: int, generator: np.random.Generator) -> Iterator[list[bytes]]:
    if rows > _ALL_KEYS:
        for _ in range(_ALL_KEYS // _BATCH):
            yield readings.ids(generator.integers(0, rows, _BATCH))
        return
    for at in range(0, rows, _BATCH):
        yield readings.ids(np.arange(at, min(at + _BATCH, rows)))
