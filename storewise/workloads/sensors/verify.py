"""Verification: a seeded sample of readings against those that the generator makes.

An engine that cannot count is asked for all keys, or for a seeded sample of them.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from storewise.documents import Document
from storewise.workloads.contract import Checked, VerifyContext
from storewise.workloads.sensors.generator import MEASURES, Readings
from storewise.workloads.verification import (
    BATCH,
    MAX_READ,
    check_kind,
    counts_natively,
    difference_of,
    generator_of,
)


def check_readings(context: VerifyContext, readings: Readings, rows: int) -> Checked:
    """Count the readings, and compare a seeded sample field by field."""
    generator = generator_of(context)
    sample = generator.integers(0, rows, min(rows, context.sample))
    made = {document["_id"]: document for document in readings.documents(sample)}

    def difference(key: bytes, stored: Document) -> str | None:
        return difference_of(made[key], stored) if key in made else None

    def ids() -> Iterator[list[bytes]]:
        if not counts_natively(context) and rows <= MAX_READ:
            for at in range(0, rows, BATCH):
                yield readings.ids(np.arange(at, min(at + BATCH, rows)))
            return
        yield list(made)
        if not counts_natively(context):
            for _ in range(MAX_READ // BATCH):
                yield readings.ids(generator.integers(0, rows, BATCH))

    def name_of(key: bytes) -> str:
        return f"reading {MEASURES.unpack(key)}"

    return check_kind(context, MEASURES, rows, ids(), difference, name_of)
