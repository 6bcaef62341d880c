"""The operations of one client of the ``ycsb`` workload.

They are made in blocks: a few numpy calls draw keys, values and lengths. The same `Operation`
objects are yielded repeatedly; each call takes its key and values from a queue. So the driver must
call each operation once, in the order in which they are yielded.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from functools import cache, partial
from itertools import compress, repeat
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
from storewise.workloads.ycsb.params import LoadParams, RunParams, shares
from storewise.workloads.ycsb.values import Values

#: Operations made at once, at most, and bytes of new values: a block takes less than about 1 ms.
_BLOCK = 512
_BYTES = 1 << 18
#: How often the records of other stores are drawn again.
_MOST_DRAWS = 10_000
#: Codes of operations, in the order of `params.PROPORTIONS`.
READ, UPDATE, INSERT, SCAN, MODIFY = range(5)


def encode(documents: Sequence[Document]) -> list[bytes]:
    """Documents as BSON, their keys as strings."""
    return [bson.encode({**d, "_id": d["_id"].decode("ascii")}) for d in documents]


def load_records(client: Client, context: ClientContext, kind: Kind) -> Iterator[Operation]:
    """Insert this client's share of the records, ``batchsize`` in one operation."""
    load: LoadParams = context.load
    inserts = load_inserts(context)
    values = Values(load, context.stream(), context.seed)
    record, size = load.bytes_of(load.fieldcount), load.batchsize
    block = max(size, min(_BLOCK, _BYTES // record) // size * size)

    def operations() -> Iterator[Operation]:
        while len(numbers := inserts.take(block)):
            documents: Sequence[Any] = values.records(load.keys(numbers))
            for at in range(0, len(documents), size):
                batch = documents[at : at + size]
                packed = encode(batch) if context.engine.encoding == "bson" else batch
                call = partial(inserts.insert, client, kind, packed)
                yield Operation("insert", call, len(batch), len(batch) * record)

    return operations()


class Run:
    """The operations of one client of a phase after the load."""

    def __init__(self, client: Client, context: ClientContext, kind: Kind) -> None:
        self.client, self.context, self.kind = client, context, kind
        self.params: RunParams = context.params
        self.load: LoadParams = context.load
        self.random = context.stream()
        self.values = Values(self.load, self.random, context.seed)
        self.keeps = context.engine.flags.stores
        self.own_store = context.one_store and context.stores > 1
        """Only some of the records are in the store of this client."""
        share = shares(context.phase, self.params)
        self.limits = np.cumsum(list(share.values()))[:-1]
        self.insert_share = share["insert"]
        self.records = records_before(context)
        if not len(self.records) and self.insert_share < 1:
            raise EngineError("there is nothing to read: the load stored no record")
        if self.insert_share:
            self.inserts = next_inserts(context, self.records.top)
        self.inserted: list[int] = []
        """Numbers of the records that this client inserts, ascending."""
        self.failed: set[bytes] = set()
        """Keys of inserts that failed; some of them may have been drawn before."""
        self.chooser = self._chooser()
        self.lengths = Lengths(
            self.params.scanlengthdistribution,
            self.params.minscanlength,
            self.params.maxscanlength,
        )
        self.scanned = 0
        """Records of the last scan."""
        self.waiting: deque[tuple[bytes, Any]] = deque()
        """Operations to come: the key, and what is written or how long the scan is."""
        one, record = self.load.bytes_of(1), self.load.bytes_of(self.load.fieldcount)
        read = (record if self.params.readallfields else one) if self.keeps else 0
        write = record if self.params.writeallfields else one
        self.kinds = (
            Operation("read", self._read, 1, read),
            Operation("update", self._update, 1, write),
            Operation("insert", self._insert, 1, record),
            Operation("scan", self._scan, 1, 0, None, lambda: self.scanned * read),
            Operation("read-modify-write", self._modify, 1, read + write),
        )

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
                return Scrambled(self.records.common, int(2 * each * self.insert_share))
            case "latest":
                return Latest()
            case "hotspot":
                return Hotspot(records, params.hotspotdatafraction, params.hotspotopnfraction)
            case "exponential":
                span = self.load.recordcount * params.exponential_frac
                return Exponential(params.exponential_percentile, span)
            case "sequential":
                if context.one_store:
                    # Each process has its own store and reads all of it.
                    return Sequential(records, context.thread, context.threads)
                return Sequential(records, context.client, context.clients)

    # What is drawn -----------------------------------------------------------------------------

    def operations(self) -> Iterator[Operation]:
        """All operations of this client."""
        size = _BLOCK
        if self.insert_share:
            record = self.load.bytes_of(self.load.fieldcount)
            size = max(1, min(size, int(_BYTES / (record * self.insert_share))))
        owned = cache(lambda code, owner: self.kinds[code]._replace(owner=owner))
        for count in blocks(self.context.share, size):
            keys, codes = self._block(count)
            if self.context.engine.flags.owner:
                for key, code in zip(keys, codes, strict=True):
                    # A scan may touch every node: it belongs to none.
                    owner = None if code == SCAN else self.client.owner(self.kind, key)
                    yield owned(code, owner)
            else:
                yield from map(self.kinds.__getitem__, codes)

    def _block(self, count: int) -> tuple[list[bytes], list[int]]:
        """Draw the keys and codes of the next `count` operations."""
        codes = np.searchsorted(self.limits, self.random.random(count), side="right")
        new = codes == INSERT
        # Inserts of this block count from their turn on, as if they could not fail.
        existing = len(self.records) + len(self.inserted) + np.cumsum(new)
        numbers = np.empty(count, dtype=np.int64)
        if new.any():
            numbers[new] = self.inserts.take(int(np.count_nonzero(new)))
            self.inserted += numbers[new].tolist()
        if not new.all():
            numbers[~new] = self._draw(existing[~new])
        keys = self.load.keys(numbers)
        changing = (codes == UPDATE) | (codes == MODIFY)
        changes = iter(self._changes(list(compress(keys, changing.tolist()))))
        documents: Sequence[Any] = self.values.records(list(compress(keys, new.tolist())))
        if self.context.engine.encoding == "bson":
            documents = encode(documents)
        inserts = zip(numbers[new].tolist(), documents, strict=True)
        lengths = self.lengths.draw(self.random, int(np.count_nonzero(codes == SCAN))).tolist()
        more = (repeat(None), changes, inserts, iter(lengths), changes)
        sequence: list[int] = codes.tolist()
        details = [next(more[code]) for code in sequence] if (codes != READ).any() else more[READ]
        self.waiting.extend(zip(keys, details, strict=False))
        return keys, sequence

    def _changes(self, keys: list[bytes]) -> list[dict[str, str]]:
        return self.values.changes(keys, whole=self.params.writeallfields)

    def _draw(self, existing: Numbers) -> Numbers:
        """Numbers of records: of so many as exist at each turn, those of this client's store."""
        numbers = self._numbers(self.chooser.draw(self.random, existing))
        if not self.own_store:
            return numbers
        shard, stores = self.context.shard, self.context.stores
        left = np.arange(len(numbers))
        for _ in range(_MOST_DRAWS):
            left = left[~of_store(self.load.keys(numbers[left]), shard, stores)]
            if not len(left):
                return numbers
            numbers[left] = self._numbers(self.chooser.draw(self.random, existing[left]))
        raise EngineError(
            f"store {shard} of {stores} has next to no record that the distribution "
            f"{self.params.requestdistribution!r} can choose: load more records"
        )

    def _numbers(self, places: Numbers) -> Numbers:
        """The numbers of records by their places: of those before this step, then of its own."""
        first = len(self.records)
        late = np.flatnonzero(places >= first)
        numbers = self.records.numbers(np.minimum(places, first - 1))
        numbers[late] = [self.inserted[place] for place in (places[late] - first).tolist()]
        return numbers

    # What is called ----------------------------------------------------------------------------

    def _next(self) -> tuple[bytes, Any]:
        """The key of the next operation and its other arguments."""
        key, more = self.waiting.popleft()
        if key in self.failed:
            # It was drawn before: another one that there was at the beginning.
            key = self.load.keys(self._draw(np.array([len(self.records)])))[0]
            if self.load.dataintegrity and isinstance(more, dict):
                (more,) = self._changes([key])
        return key, more

    def _get(self, key: bytes) -> None:
        """Read a record, which must exist and, with ``dataintegrity``, have the right values."""
        document = self.client.get(self.kind, key)
        if not self.keeps:
            return
        if document is None:
            raise _missing(key)
        if self.load.dataintegrity and (wrong := self.values.difference(key, document)):
            raise EngineError(f"record {key.decode()} {wrong}")

    def _set(self, key: bytes, changes: Mapping[str, str]) -> None:
        if self.client.update(self.kind, key, changes) is False:
            raise _missing(key)

    def _read(self) -> int:
        key, _ = self._next()
        self._get(key)
        return 1

    def _update(self) -> int:
        self._set(*self._next())
        return 1

    def _modify(self) -> int:
        key, changes = self._next()
        self._get(key)
        self._set(key, changes)
        return 1

    def _scan(self) -> int:
        start, length = self._next()
        documents = self.client.scan(Scan(self.kind, start, length))
        if self.keeps and (not documents or documents[0]["_id"] != start):
            raise EngineError(f"a scan from {start.decode()} does not begin with that record")
        self.scanned = len(documents)
        return self.scanned

    def _insert(self) -> int:
        key, (number, document) = self.waiting.popleft()
        try:
            return self.inserts.insert(self.client, self.kind, (document,))
        except StorewiseError:
            # It may be in the store or not: it is not read.
            self.inserted.remove(number)
            self.failed.add(key)
            raise


def _missing(key: bytes) -> EngineError:
    return EngineError(f"record {key.decode()} is missing")
