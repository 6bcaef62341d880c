"""Log analysis: readings of sensors are loaded, then asked for by key and by value.

The design of Mahmood et al. (2015): ``measures(m, s, bt, et, mv)`` with the composite key
(m, s, bt) and a secondary index on mv, built before or after the load; Q1 is a look-up by key, Q2
fetches the rows of a range ``mv > ?``, Q3 counts them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import cycle
from pathlib import Path
from time import monotonic, perf_counter
from typing import Any, ClassVar

import bson
import numpy as np
from bson.objectid import ObjectId

from storewise.documents import Document, Kind
from storewise.engines.contract.engine import Client, Placement
from storewise.engines.contract.queries import Count, Find, Where
from storewise.errors import ConfigError, EngineError
from storewise.workloads.contract import (
    Checked,
    ClientContext,
    Operation,
    PhaseSpec,
    VerifyContext,
    Workload,
    blocks,
)
from storewise.workloads.reader import Native, Reader, route
from storewise.workloads.sensors.generator import (
    MAX_ROWS,
    MEASURES,
    READING_BYTES,
    Readings,
    store_of,
    threshold,
)
from storewise.workloads.sensors.params import AddParams, KeyParams, LoadParams, RangeParams
from storewise.workloads.sensors.verify import check_readings

#: Keys drawn at a time.
_DRAW = 1024
#: Documents of one scan or get where a client must read everything.
_SCAN = 5000
#: Seconds for which a failed batch of an incremental load is retried.
_PATIENCE = 120.0


class MeasuresWorkload(Workload):
    """``load`` and ``add`` store readings; ``q1`` gets one by key, ``q2`` and ``q3`` fetch and
    count those above a value."""

    name: ClassVar[str] = "measures"
    reads_inputs: ClassVar[bool] = False
    indexes: ClassVar[tuple[str, ...]] = ("measures.mv",)
    phases: ClassVar[Mapping[str, PhaseSpec]] = {
        "load": PhaseSpec("load", LoadParams, ("insert", "finish"), loads=True),
        "add": PhaseSpec("add", AddParams, ("insert",), loads=False, changes=True),
        "q1": PhaseSpec("q1", KeyParams, ("q1",), loads=False),
        "q2": PhaseSpec("q2", RangeParams, ("q2",), loads=False),
        "q3": PhaseSpec("q3", RangeParams, ("q3",), loads=False),
    }

    def kinds(self, load: Mapping[str, Any]) -> tuple[Kind, ...]:
        return (MEASURES,)

    def documents_made(self, load: Mapping[str, Any]) -> int:
        return LoadParams.model_validate(dict(load)).rows

    def placement(self, stores: int, written: Sequence[Path]) -> Placement:
        return partial(store_of, stores=stores)

    def verify(self, context: VerifyContext) -> list[Checked]:
        return [check_readings(context, context.load.readings, _rows(context.load, context.notes))]

    def operations(self, phase: str, client: Client, context: ClientContext) -> Iterator[Operation]:
        if phase == "load":
            return _store(client, context, 0, context.params.rows, context.params.batch)
        if phase == "add":
            start = _rows(context.load, context.before)
            stop = start + context.params.rows
            if stop > MAX_ROWS:
                raise ConfigError(f"phase 'add': {stop} readings are more than {MAX_ROWS}")
            processes = context.processes
            if context.clients < processes:
                # A process without clients would not hear where the next step begins.
                raise ConfigError(
                    f"phase 'add': `clients: {context.clients}` leaves some of the trial's "
                    f"{processes} processes without one; give at least {processes}, or `threads`"
                )
            context.notes.append({"phase": "add", "stored": stop})
            return _store(client, context, start, stop, context.params.batch_size, again=True)
        if phase == "q1":
            return _gets(client, context)
        return _ranges(phase, client, context)


def _rows(load: LoadParams, notes: Sequence[Mapping[str, Any]]) -> int:
    """The number of stored readings, according to `notes`."""
    return max([load.rows, *(int(note["stored"]) for note in notes if "stored" in note)])


def _store(
    client: Client, context: ClientContext, start: int, stop: int, size: int, *, again: bool = False
) -> Iterator[Operation]:
    """This client's share of the readings start..stop-1.

    With `again` each operation is repeated until it succeeds: what the step has noted as stored is
    then stored, and none of it was refused. EngineError where one fails for two minutes."""
    readings: Readings = context.load.readings
    if context.stores:
        share, store = (context.thread, context.threads), (context.shard, context.stores)
    else:
        share, store = (context.client, context.clients), (0, 1)
    for batch in readings.batches(readings.rows(start, stop, share, store), size):
        documents = list(map(_to_bson, batch)) if context.engine.encoding == "bson" else batch
        stored: list[bool] = []

        def insert(documents: Sequence[Any] = documents, stored: list[bool] = stored) -> int:
            client.insert(MEASURES, documents)
            stored.append(True)
            return len(documents)

        operation = Operation("insert", insert, len(batch), len(batch) * READING_BYTES)
        yield operation
        since = monotonic()
        while again and not stored:
            if monotonic() - since > _PATIENCE:
                raise EngineError(
                    f"phase 'add': the store has refused the same {len(batch)} readings for "
                    f"{_PATIENCE:g} s"
                )
            yield operation


def _to_bson(document: Document) -> bytes:
    return bson.encode({**document, "_id": ObjectId(document["_id"])})


def _gets(client: Client, context: ClientContext) -> Iterator[Operation]:
    """Q1: look-ups of keys, each reading as likely as any other."""
    readings: Readings = context.load.readings
    rows = _rows(context.load, context.before)
    generator = context.stream()
    keeps = context.engine.flags.stores
    owner = client.owner if context.engine.flags.owner else None

    def get(document_id: bytes) -> int:
        if client.get(MEASURES, document_id) is None and keeps:
            raise EngineError(f"reading {MEASURES.unpack(document_id)} is missing")
        return 1

    for count in blocks(context.share, _DRAW):
        for document_id in readings.ids(generator.integers(0, rows, count)):
            node = owner(MEASURES, document_id) if owner is not None else None
            yield Operation("q1", partial(get, document_id), 1, READING_BYTES, node)


def _query(phase: str, value: float) -> Find | Count:
    where = (Where("mv", ">", value),)
    return Find(MEASURES, where) if phase == "q2" else Count(MEASURES, where)


def _note(phase: str, client: Client, context: ClientContext, percent: float) -> dict[str, Any]:
    """The note on Q2 or Q3 before execution: threshold, true number, and the store's plan."""
    flags = context.engine.flags
    native: Native = "find" if phase == "q2" else "count_where"
    by = route(native, flags, conditions=True)
    rows = _rows(context.load, context.before)
    value, matched = threshold(context.load.readings, rows, percent)
    plan = None
    if context.client == 0 and by == native and flags.explains:
        plan = client.explain(_query(phase, value))
    return {
        "query": phase,
        "step": context.step,
        "selectivity_pct": percent,
        "threshold": value,
        "rows": rows,
        "matched": matched,
        "found": None,
        "seconds": [],
        "answered_by": "store" if by == native else "client",
        "verb": "get_many" if by == "ids" else by,
        "plan": plan.text if plan else None,
        "uses_index": plan.uses_index if plan else None,
    }


def _ranges(phase: str, client: Client, context: ClientContext) -> Iterator[Operation]:
    """The operations of Q2 (fetch the readings above a value) or Q3 (count them)."""
    params, readings = context.params, context.load.readings
    rows = _rows(context.load, context.before)
    notes = [_note(phase, client, context, percent) for percent in params.selectivity_pct]
    context.notes.extend(notes)
    order: Iterable[dict[str, Any]] = cycle(notes)
    if params.operations is not None:
        every = [note for note in notes for _ in range(params.operations)]
        order = every[context.client :: context.clients]

    def ids(kind: Kind) -> Iterator[list[bytes]]:
        for at in range(0, rows, _SCAN):
            yield readings.ids(np.arange(at, min(at + _SCAN, rows)))

    reader = Reader(client, context.engine.flags, ids, _SCAN)
    begun: float | None = None
    fetched = 0

    def ask(note: dict[str, Any]) -> int:
        nonlocal begun, fetched
        query = _query(phase, note["threshold"])
        start = perf_counter()
        begun = begun or start
        found = len(reader.find(query)) if isinstance(query, Find) else reader.count(query)
        end = perf_counter()
        # As of all figures: an execution belongs to the second in which it ended.
        if int(end - begun) >= params.warmup:
            note["seconds"].append(end - start)
        note["found"] = found
        fetched = found if phase == "q2" else 0
        # A count is one answer, however many readings it counts.
        return found if phase == "q2" else 1

    def size() -> int:
        return fetched * READING_BYTES

    return (Operation(phase, partial(ask, note), 0, 0, None, size) for note in order)
