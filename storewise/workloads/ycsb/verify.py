"""Verification: acknowledged records exist and are complete."""

from __future__ import annotations

import numpy as np

from storewise.documents import Kind
from storewise.workloads.contract import Checked, VerifyContext
from storewise.workloads.verification import BATCH, MAX_READ, check_kind, generator_of
from storewise.workloads.ycsb.key_space import Records
from storewise.workloads.ycsb.keys import Numbers
from storewise.workloads.ycsb.params import LoadParams
from storewise.workloads.ycsb.values import Values

#: Of a sample, so many are the last that clients inserted.
_LAST = 20_000


def check_records(context: VerifyContext, kind: Kind) -> Checked:
    """Count the records and read them back: all of up to 100,000, else a seeded sample that always
    includes each client's last inserts. An unacknowledged insert may be stored or not."""
    load: LoadParams = context.load
    records = Records(load, context.notes)
    values = Values(load, np.random.default_rng(0), context.seed)
    numbers = _chosen(context, records)
    ids = (load.keys(numbers[at : at + BATCH]) for at in range(0, len(numbers), BATCH))
    return check_kind(
        context,
        kind,
        len(records),
        ids,
        values.difference,
        lambda key: f"record {key.decode()}",
        records.failed,
    )


def _chosen(context: VerifyContext, records: Records) -> Numbers:
    count = len(records)
    if count <= MAX_READ:
        return records.numbers(np.arange(count))
    random = generator_of(context)
    share = max(1, _LAST // max(1, len(records.last)))
    last = [numbers[-share:] for numbers in records.last][:_LAST]
    # The newest of the load where nothing came after it.
    last.append(records.numbers(np.arange(count - min(count, 1000), count)))
    drawn = records.numbers(random.integers(0, count, size=MAX_READ))
    late = np.unique(np.concatenate(last))
    return np.unique(np.concatenate((late, drawn[: MAX_READ - len(late)])))
