"""Is every record in the store whose insert was acknowledged, and is it whole?"""

from __future__ import annotations

import numpy as np

from storewise.documents import Document, Kind
from storewise.engines.contract.queries import Count
from storewise.workloads.contract import Checked, VerifyContext
from storewise.workloads.ycsb.key_space import Records
from storewise.workloads.ycsb.keys import Numbers
from storewise.workloads.ycsb.params import LoadParams
from storewise.workloads.ycsb.values import Values

#: Records that are read back, at most; of more, a sample.
_ALL = 100_000
#: Of the sample, so many are the last that clients inserted.
_LAST = 20_000
_BATCH = 500


def check_records(context: VerifyContext, kind: Kind) -> Checked:
    """Count the records and read them back: all of up to 100,000, else a seeded sample that always
    includes each client's last inserts. An unacknowledged insert may be stored or not."""
    load: LoadParams = context.load
    records = Records(load, context.notes)
    expected = len(records)
    native = context.engine.flags.count != "none"
    context.raise_if_aborted()
    counted = context.client.count(Count(kind)) if native else expected
    # A failed insert is in the store or is not: both are right.
    expected = min(max(counted, expected), expected + records.failed)
    result = Checked(kind.table, expected, counted, lost=max(0, expected - counted))
    values = Values(load, np.random.default_rng(0), context.seed)
    numbers = _chosen(context, records)
    missing = 0
    for at in range(0, len(numbers), _BATCH):
        context.raise_if_aborted()
        keys = load.keys(numbers[at : at + _BATCH])
        for key, document in zip(keys, context.client.get_many(kind, keys), strict=True):
            result.checked += 1
            problem = "is missing" if document is None else _problem(load, values, key, document)
            if problem is not None:
                result.first = result.first or f"record {key.decode()} {problem}"
                missing += document is None
                result.wrong += document is not None
    if native:
        result.lost = max(result.lost, missing)
    elif result.checked:
        # Of a sample the share that is missing stands for all.
        result.lost = round(len(records) * missing / result.checked)
        result.counted = result.expected - result.lost
    return result


def _chosen(context: VerifyContext, records: Records) -> Numbers:
    count = len(records)
    if count <= _ALL:
        return records.numbers(np.arange(count))
    random = np.random.default_rng(np.random.SeedSequence([context.seed, 0x7665]))
    share = max(1, _LAST // max(1, len(records.last)))
    last = [numbers[-share:] for numbers in records.last][:_LAST]
    # The newest of the load where nothing came after it.
    last.append(records.numbers(np.arange(count - min(count, 1000), count)))
    drawn = records.numbers(random.integers(0, count, size=_ALL))
    late = np.unique(np.concatenate(last))
    return np.unique(np.concatenate((late, drawn[: _ALL - len(late)])))


def _problem(load: LoadParams, values: Values, key: bytes, document: Document) -> str | None:
    """What is wrong with a record, in words."""
    if document.get("_id") != key:
        return f"has the key {document.get('_id')!r}"
    if extra := document.keys() - {"_id", *values.names}:
        return f"has a field {min(extra)!r} that was not stored"
    constant = load.fieldlengthdistribution == "constant"
    least = load.fieldlength if constant else load.minfieldlength
    for i, name in enumerate(values.names):
        value = document.get(name)
        if not isinstance(value, str):
            return f"lacks field {name!r}"
        if not least <= len(value) <= load.fieldlength:
            return f"has {len(value)} characters in {name}"
        if load.dataintegrity and value != values.due(key, i):
            return f"has a value in {name} that does not follow from its key"
    return None
