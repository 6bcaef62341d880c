"""Verification: a seeded sample of readings against those that the generator makes."""

from __future__ import annotations

from storewise.workloads.contract import Checked, VerifyContext
from storewise.workloads.sensors.generator import MEASURES, Readings
from storewise.workloads.verification import check_sample, generator_of


def check_readings(context: VerifyContext, readings: Readings, rows: int) -> Checked:
    """Count the readings, and compare a seeded sample field by field."""
    generator = generator_of(context)
    numbers = generator.integers(0, rows, min(rows, context.sample))
    sample = {document["_id"]: document for document in readings.documents(numbers)}

    def name_of(key: bytes) -> str:
        return f"reading {MEASURES.unpack(key)}"

    return check_sample(context, MEASURES, rows, sample, readings.ids, generator, name_of)
