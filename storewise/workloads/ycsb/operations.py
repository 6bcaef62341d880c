"""The operations of one client of the ``ycsb`` workload.

Operations are made in blocks: keys, values and lengths come out of a few numpy calls and wait in
queues, one for each kind of operation. What is yielded is the same `Operation` again and again:
its call takes the next entry of its queue. The driver calls operations in the order in which they
are yielded, each once.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import chain, compress
from typing import Any

import bson
import numpy as np

from storewise.documents import Document, Kind
from storewise.engines.contract.engine import Client
from storewise.engines.contract.queries import Scan
from storewise.errors import EngineError, StorewiseError
from storewise.workloads.contract import ClientContext, Operation
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
from storewise.workloads.ycsb.key_space import (
    load_numbers,
    next_numbers,
    records_before,
)
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


def load(client: Client, context: ClientContext, kind: Kind) -> Iterator[Operation]:
    """Insert this client's share of the records, ``batchsize`` in one operation."""
    params: LoadParams = context.params
    sequence, inserted = load_numbers(context)
    values = Values(params, context.stream(), context.seed)
    note, size = inserted.note, params.batchsize
    waiting: deque[list[Any]] = deque()

    def insert() -> int:
        batch = waiting.popleft()
        first = note["tried"]
        note["tried"] = first + len(batch)
        try:
            client.insert(kind, batch)
        except StorewiseError:
            inserted.failed(first, len(batch))
            raise
        return len(batch)

    bson_wanted = context.engine.encoding == "bson"
    average = params.record_bytes or params.fieldcount * params.fieldlength
    block = max(size, min(_BLOCK, _BYTES // average) // size * size)

    def blocks() -> Iterator[list[Operation]]:
        while len(numbers := sequence.take(block)):
            documents = values.records(params.keys(numbers))
            made = []
            for at in range(0, len(documents), size):
                batch = documents[at : at + size]
                if params.record_bytes is None:
                    written = sum(map(_payload, batch))
                else:
                    written = len(batch) * params.record_bytes
                waiting.append(encode(batch) if bson_wanted else batch)
                made.append(Operation("insert", insert, len(batch), written))
            yield made

    return chain.from_iterable(blocks())


def _payload(document: Mapping[str, Any]) -> int:
    """Bytes of a record's fields, the key not counted."""
    return sum(len(v) for k, v in document.items() if k != "_id" and isinstance(v, str))


def run(client: Client, context: ClientContext, kind: Kind) -> Iterator[Operation]:
    """The operations of a phase after the load."""
    return _Run(client, context, kind).operations()


class _Run:
    def __init__(self, client: Client, context: ClientContext, kind: Kind) -> None:
        self.client, self.context, self.kind = client, context, kind
        self.params: RunParams = context.params
        self.load: LoadParams = context.load
        self.random = context.stream()
        self.values = Values(self.load, self.random, context.seed)
        self.keeps = context.engine.flags.stores
        self.own = context.own and context.stores > 1
        shares = self.params.shares()
        self.limits = np.cumsum([shares[name] for name in _NAMES])[:-1]
        self.only = next((i for i, name in enumerate(_NAMES) if shares[name] == 1.0), None)
        self.inserts = shares["insert"]
        self.records, base, self.common = records_before(context)
        if not len(self.records) and self.inserts < 1:
            raise EngineError("there is nothing to read: the load stored no record")
        if self.inserts:
            self.sequence, self.inserted = next_numbers(context, base)
        self.mine: list[int] = []
        """Numbers that this client inserts, ascending."""
        self.chooser = self._chooser()
        self.scans = Lengths(
            self.params.scanlengthdistribution,
            self.params.minscanlength,
            self.params.maxscanlength,
        )
        self.keys: deque[bytes] = deque()
        self.changed: deque[tuple[bytes, dict[str, str]]] = deque()
        self.new: deque[tuple[bytes, int, Any]] = deque()
        self.starts: deque[Scan] = deque()
        self.last: list[Any] = [None]
        """What the last operation moved, for its bytes."""
        self.pending: list[bytes] = []
        self.kinds = self._operations()
        self.owned: dict[tuple[int, str | None], Operation] = {}

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
                if self.own:
                    # Each process has its own store and reads all of it.
                    return Sequential(records, context.thread, context.threads)
                return Sequential(records, context.client, context.clients)

    # What is drawn -----------------------------------------------------------------------------

    def operations(self) -> Iterator[Operation]:
        """All operations of this client."""
        return chain.from_iterable(self._blocks())

    def _blocks(self) -> Iterator[list[Operation]]:
        share = self.context.share
        done = 0
        size = _BLOCK
        if self.inserts:
            record = self.load.fieldcount * self.load.fieldlength
            size = max(1, min(size, int(_BYTES / (record * self.inserts))))
        while share is None or done < share:
            count = size if share is None else min(size, share - done)
            done += count
            yield self._block(count)

    def _block(self, count: int) -> list[Operation]:
        if self.only is not None and self.only != INSERT:
            codes = np.full(count, self.only)
            existing = np.full(count, len(self.records))
        else:
            codes = np.searchsorted(self.limits, self.random.random(count), side="right")
            inserts = codes == INSERT
            # Inserts of this block count from their turn on, as if they could not fail; one that
            # does is taken out of the queues again.
            existing = len(self.records) + len(self.mine) + np.cumsum(inserts)
            self._draw_inserts(int(np.count_nonzero(inserts)))
            existing = existing[~inserts]
        keys = self._draw_keys(existing)
        owner = self.client.owner if self.context.engine.flags.owner else None
        if self.only == READ:
            self.keys.extend(keys)
        else:
            self._queue(codes[codes != INSERT], keys)
        plan = codes.tolist()
        if owner is None:
            kinds = self.kinds
            return [kinds[code] for code in plan]
        return self._with_owners(plan, keys, owner)

    def _queue(self, codes: Numbers, keys: list[bytes]) -> None:
        """Put each operation's key where its call looks for it."""
        self.keys.extend(compress(keys, (codes == READ).tolist()))
        changing = (codes == UPDATE) | (codes == MODIFY)
        if changing.any():
            chosen = list(compress(keys, changing.tolist()))
            changes = self.values.changes(chosen, whole=self.params.writeallfields)
            self.changed.extend(zip(chosen, changes, strict=True))
        scans = codes == SCAN
        if scans.any():
            chosen = list(compress(keys, scans.tolist()))
            lengths = self.scans.draw(self.random, len(chosen)).tolist()
            self.starts.extend(map(partial(Scan, self.kind), chosen, lengths))

    def _with_owners(
        self, plan: list[int], keys: list[bytes], owner: Callable[[Kind, bytes], str | None]
    ) -> list[Operation]:
        old, new = iter(keys), iter(self.pending)
        owned = []
        for code in plan:
            key = next(new) if code == INSERT else next(old)
            # A scan may touch every node: it belongs to none.
            owned.append(self._owned(code, None if code == SCAN else owner(self.kind, key)))
        return owned

    def _owned(self, code: int, owner: str | None) -> Operation:
        operation = self.owned.get((code, owner))
        if operation is None:
            operation = self.kinds[code]._replace(owner=owner)
            self.owned[code, owner] = operation
        return operation

    def _draw_inserts(self, count: int) -> None:
        self.pending = []
        if not count:
            return
        numbers = self.sequence.take(count)
        keys = self.pending = self.load.keys(numbers)
        documents: Sequence[Any] = self.values.records(keys)
        if self.context.engine.encoding == "bson":
            documents = encode(documents)
        self.new.extend(zip(keys, numbers.tolist(), documents, strict=True))
        self.mine += numbers.tolist()

    def _draw_keys(self, existing: Numbers) -> list[bytes]:
        """A key for each operation on an existing record; of so many at its turn."""
        if not len(existing):
            return []
        keys = self._keys_at(self.chooser.draw(self.random, existing))
        if self.own:
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

    def _operations(self) -> tuple[Operation, ...]:
        load, last = self.load, self.last
        one = load.fieldlength
        read = (load.fieldcount if self.params.readallfields else 1) * one
        write = (load.fieldcount if self.params.writeallfields else 1) * one
        if not self.keeps:
            read = 0
        size: Callable[[], int] | None = None
        if load.record_bytes is None:
            size = self._size

        def scanned() -> int:
            return len(last[0]) * read

        return (
            Operation("read", self._read(), 1, read, None, size),
            Operation("update", self._update(), 1, write, None, size),
            Operation("insert", self._insert(), 1, load.record_bytes or 0, None, size),
            Operation("scan", self._scan(), 1, 0, None, size or scanned),
            Operation("read-modify-write", self._modify(), 1, read + write, None, size),
        )

    def _size(self) -> int:
        """Bytes of the fields that the last operation moved."""
        return sum(map(_payload, self.last[0]))

    def _read(self) -> Callable[[], int]:
        pop, get, kind, keeps = self.keys.popleft, self.client.get, self.kind, self.keeps
        if self.load.dataintegrity or self.load.record_bytes is None:
            last, check = self.last, self._check
            one = None if self.params.readallfields else self.values.names[0]

            def read_whole() -> int:
                key = pop()
                document = get(kind, key)
                check(key, document)
                if document is not None and one is not None:
                    document = {one: document.get(one)}
                last[0] = (document or {},)
                return 1

            return read_whole

        def read() -> int:
            key = pop()
            if get(kind, key) is None and keeps:
                raise _missing(key)
            return 1

        return read

    def _check(self, key: bytes, document: Document | None) -> None:
        """A record must be there and, with ``dataintegrity``, be what it must be."""
        if not self.keeps:
            return
        if document is None:
            raise _missing(key)
        if self.load.dataintegrity:
            for i, name in enumerate(self.values.names):
                if document.get(name) != self.values.due(key, i):
                    raise EngineError(f"record {key.decode()} has a wrong value in {name}")

    def _update(self) -> Callable[[], int]:
        pop, update, kind = self.changed.popleft, self.client.update, self.kind
        last = self.last

        def change() -> int:
            key, changes = pop()
            if not update(kind, key, changes):
                raise _missing(key)
            last[0] = (changes,)
            return 1

        return change

    def _modify(self) -> Callable[[], int]:
        pop, kind, last, check = self.changed.popleft, self.kind, self.last, self._check
        get, update = self.client.get, self.client.update

        def modify() -> int:
            key, changes = pop()
            document = get(kind, key)
            check(key, document)
            if not update(kind, key, changes):
                raise _missing(key)
            last[0] = (document or {}, changes)
            return 1

        return modify

    def _scan(self) -> Callable[[], int]:
        pop, scan, keeps = self.starts.popleft, self.client.scan, self.keeps
        last = self.last

        def scan_some() -> int:
            query = pop()
            documents = last[0] = scan(query)
            if keeps and (not documents or documents[0]["_id"] != query.start):
                start = query.start.decode()
                raise EngineError(f"a scan from {start} does not begin with that record")
            return len(documents)

        return scan_some

    def _insert(self) -> Callable[[], int]:
        if not self.inserts:
            return lambda: 0
        pop, insert, kind, note = (
            self.new.popleft,
            self.client.insert,
            self.kind,
            self.inserted.note,
        )
        last = self.last
        varies = self.load.record_bytes is None
        bson_wanted = self.context.engine.encoding == "bson"

        def insert_one() -> int:
            key, number, document = pop()
            note["tried"] += 1
            try:
                insert(kind, (document,))
            except StorewiseError:
                self._forget(key, number)
                raise
            if varies:
                last[0] = (bson.decode(document) if bson_wanted else document,)
            return 1

        return insert_one

    def _forget(self, key: bytes, number: int) -> None:
        """Take a record whose insert failed out of what may be read."""
        self.inserted.failed(self.inserted.note["tried"] - 1)
        self.mine.remove(number)
        # What was drawn already goes to the oldest record instead.
        safe = self._safe_key()
        for i, waiting in enumerate(self.keys):
            if waiting == key:
                self.keys[i] = safe
        for i, (waiting, changes) in enumerate(self.changed):
            if waiting == key:
                if self.load.dataintegrity:
                    changes = self.values.changes([safe], whole=self.params.writeallfields)[0]
                self.changed[i] = (safe, changes)
        for i, query in enumerate(self.starts):
            if query.start == key:
                self.starts[i] = replace(query, start=safe)

    def _safe_key(self) -> bytes:
        """The oldest record of this client's store."""
        for at in range(0, len(self.records), _BLOCK):
            places = np.arange(at, min(at + _BLOCK, len(self.records)))
            keys = self._keys_at(places)
            if self.own:
                good = of_store(keys, self.context.shard, self.context.stores)
                keys = list(compress(keys, good.tolist()))
            if keys:
                return keys[0]
        raise EngineError("an insert failed, and there is no other record to read instead")


def _missing(key: bytes) -> EngineError:
    return EngineError(f"record {key.decode()} is missing")
