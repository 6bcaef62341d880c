"""The operations of one client of the ``ycsb`` workload.

They are made in blocks: keys, values and lengths come out of a few numpy calls. What is yielded is
the same `Operation` again and again: its call takes what the next one is about from a queue. The
driver calls operations in the order in which they are yielded, each once.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from itertools import compress
from typing import Any

import bson
import numpy as np

from storewise.documents import Document, Kind
from storewise.engines.contract.engine import Client
from storewise.engines.contract.queries import Scan
from storewise.errors import EngineError, StorewiseError
from storewise.workloads.contract import ClientContext, Operation, blocks
from storewise.workloads.ycsb.distributions import (
    Chooser,
    Exponential,
    Hotspot,
    Latest,
    Lengths,
    Scrambled,
    Sequential,
    Uniform,
)
from storewise.workloads.ycsb.key_space import load_inserts, next_inserts, records_before
from storewise.workloads.ycsb.keys import Numbers, of_store
from storewise.workloads.ycsb.params import PROPORTIONS, LoadParams, RunParams
from storewise.workloads.ycsb.values import Values

#: Operations made at once, at most, and bytes of new values: a block takes less than about 1 ms.
_BLOCK = 512
_BYTES = 1 << 18
READ, UPDATE, INSERT, SCAN, MODIFY = range(5)
_NAMES = tuple(PROPORTIONS)


def encode(documents: Sequence[Document]) -> list[bytes]:
    """Documents as BSON, their keys as strings."""
    return [bson.encode({**d, "_id": d["_id"].decode("ascii")}) for d in documents]


def load_records(client: Client, context: ClientContext, kind: Kind) -> Iterator[Operation]:
    """Insert this client's share of the records, ``batchsize`` in one operation."""
    params: LoadParams = context.params
    inserts = load_inserts(context)
    values = Values(params, context.stream(), context.seed)
    note, size = inserts.note, params.batchsize

    def insert(batch: Sequence[Any]) -> int:
        first = note["tried"]
        note["tried"] = first + len(batch)
        try:
            client.insert(kind, batch)
        except StorewiseError:
            inserts.failed(first, len(batch))
            raise
        return len(batch)

    bson_wanted = context.engine.encoding == "bson"
    average = params.record_bytes or params.fieldcount * params.fieldlength
    block = max(size, min(_BLOCK, _BYTES // average) // size * size)

    def operations() -> Iterator[Operation]:
        while len(numbers := inserts.take(block)):
            documents = values.records(params.keys(numbers))
            for at in range(0, len(documents), size):
                batch = documents[at : at + size]
                if params.record_bytes is None:
                    written = sum(map(_payload, batch))
                else:
                    written = len(batch) * params.record_bytes
                call = partial(insert, encode(batch) if bson_wanted else batch)
                yield Operation("insert", call, len(batch), written)

    return operations()


def _payload(document: Mapping[str, Any]) -> int:
    """Bytes of a record's fields, the key not counted."""
    return sum(len(v) for k, v in document.items() if k != "_id" and isinstance(v, str))


class Run:
    """The operations of one client of a phase after the load."""

    def __init__(self, client: Client, context: ClientContext, kind: Kind) -> None:
        self.client, self.context, self.kind = client, context, kind
        self.params: RunParams = context.params
        self.load: LoadParams = context.load
        self.random = context.stream()
        self.values = Values(self.load, self.random, context.seed)
        self.keeps = context.engine.flags.stores
        self.one_store = context.one_store and context.stores > 1
        shares = self.params.shares()
        self.limits = np.cumsum([shares[name] for name in _NAMES])[:-1]
        self.only = next((i for i, name in enumerate(_NAMES) if shares[name] == 1.0), None)
        self.inserts = shares["insert"]
        self.records, base, self.common = records_before(context)
        if not len(self.records) and self.inserts < 1:
            raise EngineError("there is nothing to read: the load stored no record")
        if self.inserts:
            self.inserted = next_inserts(context, base)
        self.mine: list[int] = []
        """Numbers that this client inserts, ascending."""
        self.chooser = self._chooser()
        self.scans = Lengths(
            self.params.scanlengthdistribution,
            self.params.minscanlength,
            self.params.maxscanlength,
        )
        self.failed: set[bytes] = set()
        """Keys of inserts that failed; some of them may have been drawn before."""
        self.last: Sequence[Mapping[str, Any]] = ()
        """What the last operation moved, for its bytes."""
        self.waiting: deque[Any] = deque()
        """Of each operation to come its key, or the key and more."""
        self.varies = self.load.record_bytes is None
        one, record = self.load.fieldlength, self.load.fieldcount * self.load.fieldlength
        read = (record if self.params.readallfields else one) if self.keeps else 0
        write = record if self.params.writeallfields else one
        size = self._size if self.varies else None
        self.kinds = (
            Operation("read", self._read, 1, read, None, size),
            Operation("update", self._update, 1, write, None, size),
            Operation("insert", self._insert, 1, self.load.record_bytes or 0, None, size),
            Operation("scan", self._scan, 1, 0, None, size or (lambda: len(self.last) * read)),
            Operation("read-modify-write", self._modify, 1, read + write, None, size),
        )

        self.owned: dict[tuple[int, str | None], Operation] = {}
        """`kinds` by the node that they belong to."""

    def _chooser(self) -> Chooser:
        params, context, records = self.params, self.context, len(self.records)
        match params.requestdistribution:
            case "uniform":
                return Uniform(records)
            case "zipfian":
                # YCSB doubles the number of inserts that it expects, to be sure. A client knows of
                # its own inserts only. What is popular must be the same for all clients: their
                # ranges are equal, whatever else each of them knows.
                each = -(-(params.operations or 0) // context.clients)
                return Scrambled(self.common, int(2 * each * self.inserts))
            case "latest":
                return Latest()
            case "hotspot":
                return Hotspot(records, params.hotspotdatafraction, params.hotspotopnfraction)
            case "exponential":
                span = self.load.recordcount * params.exponential_frac
                return Exponential(params.exponential_percentile, span)
            case "sequential":
                if self.one_store:
                    # Each process has its own store and reads all of it.
                    return Sequential(records, context.thread, context.threads)
                return Sequential(records, context.client, context.clients)

    # What is drawn -----------------------------------------------------------------------------

    def operations(self) -> Iterator[Operation]:
        """All operations of this client."""
        size = _BLOCK
        if self.inserts:
            record = self.load.fieldcount * self.load.fieldlength
            size = max(1, min(size, int(_BYTES / (record * self.inserts))))
        for count in blocks(self.context.share, size):
            yield from self._block(count)

    def _block(self, count: int) -> Iterator[Operation]:
        if self.only is None or self.only == INSERT:
            codes = np.searchsorted(self.limits, self.random.random(count), side="right")
        else:
            codes = np.full(count, self.only)
        inserts = codes == INSERT
        # Inserts of this block count from their turn on, as if they could not fail.
        existing = len(self.records) + len(self.mine) + np.cumsum(inserts)
        new = self._draw_inserts(int(np.count_nonzero(inserts)))
        keys = self._draw_keys(existing[~inserts])
        old, codes_of_old = iter(keys), codes[~inserts]
        changing = (codes_of_old == UPDATE) | (codes_of_old == MODIFY)
        chosen = list(compress(keys, changing.tolist()))
        changes = iter(self.values.changes(chosen, whole=self.params.writeallfields))
        lengths = iter(self.scans.draw(self.random, int((codes == SCAN).sum())).tolist())
        sequence = codes.tolist()
        values: list[Any] = keys if self.only == READ else []
        if self.only != READ:
            for code in sequence:
                if code == READ:
                    values.append(next(old))
                elif code == INSERT:
                    values.append(next(new))
                else:
                    values.append((next(old), next(lengths if code == SCAN else changes)))
        self.waiting.extend(values)
        if not self.context.engine.flags.owner:
            yield from map(self.kinds.__getitem__, sequence)
            return
        owner, kind, owned = self.client.owner, self.kind, self.owned
        for code, value in zip(sequence, values, strict=True):
            # A scan may touch every node: it belongs to none.
            name = None
            if code != SCAN:
                name = owner(kind, value if code == READ else value[0])
            operation = owned.get((code, name))
            if operation is None:
                operation = owned[code, name] = self.kinds[code]._replace(owner=name)
            yield operation

    def _draw_inserts(self, count: int) -> Iterator[tuple[bytes, int, Any]]:
        """Key, number and document of so many new records."""
        if not count:
            return iter(())
        numbers = self.inserted.take(count)
        keys = self.load.keys(numbers)
        documents: Sequence[Any] = self.values.records(keys)
        if self.context.engine.encoding == "bson":
            documents = encode(documents)
        self.mine += numbers.tolist()
        return zip(keys, numbers.tolist(), documents, strict=True)

    def _draw_keys(self, existing: Numbers) -> list[bytes]:
        """A key for each operation on an existing record; of so many at its turn."""
        if not len(existing):
            return []
        keys = self._keys_at(self.chooser.draw(self.random, existing))
        if self.one_store:
            self._make_own(keys, existing)
        return keys

    def _keys_at(self, places: Numbers) -> list[bytes]:
        first = len(self.records)
        if self.inserts and len(late := np.flatnonzero(places >= first)):
            numbers = self.records.numbers(np.minimum(places, first - 1))
            numbers[late] = [self.mine[place] for place in (places[late] - first).tolist()]
        else:
            numbers = self.records.numbers(places)
        return self.load.keys(numbers)

    def _make_own(self, keys: list[bytes], existing: Numbers) -> None:
        """Draw the keys of other stores again until all are of this client's store."""
        shard, stores = self.context.shard, self.context.stores
        left = np.flatnonzero(~of_store(keys, shard, stores))
        rounds = 0
        while len(left):
            again = self._keys_at(self.chooser.draw(self.random, existing[left]))
            good = of_store(again, shard, stores)
            for i in np.flatnonzero(good).tolist():
                keys[int(left[i])] = again[i]
            left = left[~good]
            rounds += 1
            if rounds > 10_000:
                raise EngineError(
                    f"store {shard} of {stores} has next to no record that the distribution "
                    f"{self.params.requestdistribution!r} can choose: load more records"
                )

    # What is called ----------------------------------------------------------------------------

    def _size(self) -> int:
        """Bytes of the fields that the last operation moved."""
        return sum(map(_payload, self.last))

    def _get(self, key: bytes) -> Document:
        """A record, which must be there and, with ``dataintegrity``, be what it must be."""
        document = self.client.get(self.kind, key)
        if not self.keeps:
            return document or {}
        if document is None:
            raise _missing(key)
        if self.load.dataintegrity:
            for i, name in enumerate(self.values.names):
                if document.get(name) != self.values.due(key, i):
                    raise EngineError(f"record {key.decode()} has a wrong value in {name}")
        return document

    def _set(self, key: bytes, changes: Mapping[str, str]) -> None:
        if self.client.update(self.kind, key, changes) is False:
            raise _missing(key)

    def _next_change(self) -> tuple[bytes, dict[str, str]]:
        """A key, and the new values of its record."""
        key, changes = self.waiting.popleft()
        if key in self.failed:
            key = self._safe_key()
            if self.load.dataintegrity:
                changes = self.values.changes([key], whole=self.params.writeallfields)[0]
        return key, changes

    def _read(self) -> int:
        key = self.waiting.popleft()
        document = self._get(self._safe_key() if key in self.failed else key)
        if self.varies:
            names = self.values.names if self.params.readallfields else self.values.names[:1]
            self.last = ({name: document.get(name) for name in names},)
        return 1

    def _update(self) -> int:
        key, changes = self._next_change()
        self._set(key, changes)
        self.last = (changes,)
        return 1

    def _modify(self) -> int:
        key, changes = self._next_change()
        document = self._get(key)
        self._set(key, changes)
        self.last = (document, changes)
        return 1

    def _scan(self) -> int:
        start, length = self.waiting.popleft()
        if start in self.failed:
            start = self._safe_key()
        documents = self.last = self.client.scan(Scan(self.kind, start, length))
        if self.keeps and (not documents or documents[0]["_id"] != start):
            raise EngineError(f"a scan from {start.decode()} does not begin with that record")
        return len(documents)

    def _insert(self) -> int:
        key, number, document = self.waiting.popleft()
        note = self.inserted.note
        note["tried"] += 1
        try:
            self.client.insert(self.kind, (document,))
        except StorewiseError:
            # It may be in the store or not: it is not read.
            self.inserted.failed(note["tried"] - 1)
            self.mine.remove(number)
            self.failed.add(key)
            raise
        if self.varies:
            packed = self.context.engine.encoding == "bson"
            self.last = (bson.decode(document) if packed else document,)
        return 1

    def _safe_key(self) -> bytes:
        """The oldest record of this client's store."""
        for at in range(0, len(self.records), _BLOCK):
            keys = self._keys_at(np.arange(at, min(at + _BLOCK, len(self.records))))
            if self.one_store:
                good = of_store(keys, self.context.shard, self.context.stores)
                keys = list(compress(keys, good.tolist()))
            if keys:
                return keys[0]
        raise EngineError("an insert failed, and there is no other record to read instead")


def _missing(key: bytes) -> EngineError:
    return EngineError(f"record {key.decode()} is missing")
