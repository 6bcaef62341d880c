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
    CHUNK,
    MAX_ROWS,
    MEASURES,
    READING_BYTES,
    Part,
    Readings,
    batches,
    store_of,
    threshold,
)
from storewise.workloads.sensors.params import AddParams, KeyParams, LoadParams, RangeParams
from storewise.workloads.sensors.verify import check_readings

#: Keys drawn at a time.
_DRAW = 1024
#: Documents of one scan or get where a client must read everything.
_SCAN = 5000
#: Seconds for which the same batch of an incremental load is tried again and again.
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
        return _BySeries(stores)

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
            processes = context.workers * context.processes
            if context.clients < processes:
                # A process without clients would not hear where the next step begins.
                raise ConfigError(
                    f"phase 'add': `clients: {context.clients}` leaves some of the trial's "
                    f"{processes} processes without one; give at least {processes}, or `threads`"
                )
            context.notes.append({"phase": "add", "stored": stop})
            stored = _store(client, context, start, stop, context.params.batch_size)
            return _until_stored(stored)
        if phase == "q1":
            return _gets(client, context)
        return _Ranges(phase, client, context).operations()


class _BySeries(Placement):
    def __init__(self, stores: int) -> None:
        self._stores = stores

    def store_of(self, document_id: bytes) -> int:
        return store_of(document_id, self._stores)


def _rows(load: LoadParams, notes: Sequence[Mapping[str, Any]]) -> int:
    """Readings that are stored after what `notes` tell."""
    return max([load.rows, *(int(note["stored"]) for note in notes if "stored" in note)])


def _store(
    client: Client, context: ClientContext, start: int, stop: int, size: int
) -> Iterator[Operation]:
    """This client's share of the readings start..stop-1."""
    if context.stores:
        part = Part(context.load.readings, start, stop, context.shard, context.stores)
        share, shares = context.thread, context.threads
    else:
        part = Part(context.load.readings, start, stop)
        share, shares = context.client, context.clients
    packed = context.engine.encoding == "bson"

    def insert(documents: Sequence[Any]) -> int:
        client.insert(MEASURES, documents)
        return len(documents)

    for batch in batches(part.chunks(CHUNK, share, shares), size):
        documents = list(map(_to_bson, batch)) if packed else batch
        call = partial(insert, documents)
        yield Operation("insert", call, len(batch), len(batch) * READING_BYTES)


def _until_stored(operations: Iterator[Operation]) -> Iterator[Operation]:
    """Each operation again until it succeeds: what the step has noted as stored is then stored,
    and none of it was refused.

    EngineError where one fails for two minutes."""
    for operation in operations:
        done = [False]

        def call(operation: Operation = operation, done: list[bool] = done) -> int:
            number = operation.call()
            done[0] = True
            return number

        since = monotonic()
        while not done[0]:
            if monotonic() - since > _PATIENCE:
                raise EngineError(
                    f"phase 'add': the store has refused the same {operation.documents} readings "
                    f"for {_PATIENCE:g} s"
                )
            yield operation._replace(call=call)


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
            m, s, bt = MEASURES.unpack(document_id)
            raise EngineError(f"the reading of machine {m}, sensor {s} at {bt} is missing")
        return 1

    for count in blocks(context.share, _DRAW):
        for document_id in readings.ids(generator.integers(0, rows, count)):
            node = owner(MEASURES, document_id) if owner is not None else None
            yield Operation("q1", partial(get, document_id), 1, READING_BYTES, node)


class _Ranges:
    """Q2 and Q3 of one client in one step."""

    def __init__(self, phase: str, client: Client, context: ClientContext) -> None:
        self._phase, self._client, self._context = phase, client, context
        self._readings: Readings = context.load.readings
        self._rows = _rows(context.load, context.before)
        self._notes = [self._note(percent) for percent in context.params.selectivity_pct]
        context.notes.extend(self._notes)

    def _query(self, value: float) -> Find | Count:
        where = (Where("mv", ">", value),)
        return Find(MEASURES, where) if self._phase == "q2" else Count(MEASURES, where)

    def _note(self, percent: float) -> dict[str, Any]:
        """What is known before: threshold, true number, and the store's plan."""
        context, flags = self._context, self._context.engine.flags
        native: Native = "find" if self._phase == "q2" else "count_where"
        by = route(native, flags, conditions=True)
        at = threshold(self._readings, self._rows, percent)
        note: dict[str, Any] = {
            "query": self._phase,
            "step": context.step,
            "selectivity_pct": percent,
            "threshold": at.value,
            "rows": self._rows,
            "matched": at.matched,
            "found": None,
            "seconds": [],
            "answered_by": "store" if by == native else "client",
            "verb": "get_many" if by == "ids" else by,
            "plan": None,
            "uses_index": None,
        }
        if context.client == 0 and by == native and flags.explains:
            plan = self._client.explain(self._query(at.value))
            note |= {"plan": plan.text, "uses_index": plan.uses_index}
        return note

    def operations(self) -> Iterator[Operation]:
        params, client = self._context.params, self._context.client
        if params.operations is None:
            order: Iterable[dict[str, Any]] = cycle(self._notes)
        else:
            every = [note for note in self._notes for _ in range(params.operations)]
            order = every[client :: self._context.clients]
        fetched = 0
        begun: float | None = None

        def ask(note: dict[str, Any]) -> int:
            nonlocal fetched, begun
            start = perf_counter()
            begun = begun or start
            number = self._answer(note["threshold"])
            end = perf_counter()
            # As of all figures: an execution belongs to the second in which it ended.
            if int(end - begun) >= params.warmup:
                note["seconds"].append(end - start)
            note["found"] = number
            fetched = number if self._phase == "q2" else 0
            # A count is one answer, however many readings it counts.
            return number if self._phase == "q2" else 1

        for note in order:
            call = partial(ask, note)
            yield Operation(self._phase, call, 0, 0, None, lambda: fetched * READING_BYTES)

    def _answer(self, value: float) -> int:
        """How many readings are above a value: those that Q2 fetched, or Q3 counted."""
        query = self._query(value)
        reader = Reader(self._client, self._context.engine.flags, self._ids, _SCAN)
        return len(reader.find(query)) if isinstance(query, Find) else reader.count(query)

    def _ids(self, kind: Kind) -> Iterator[list[bytes]]:
        for at in range(0, self._rows, _SCAN):
            yield self._readings.ids(np.arange(at, min(at + _SCAN, self._rows)))
