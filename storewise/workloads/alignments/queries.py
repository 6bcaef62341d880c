"""Questions that a biologist asks of alignments, answered by the store or by the client.

- ``best_hits``: the `limit` best hits of an RNA by e-value, with all their documents;
- ``gene_hits``: all hits of a gene, by chromosome: numbers and documents;
- ``strong_hits``: all hits with an e-value below x and an identity above y;
- ``top_genes``: the `limit` genes with the most hits;
- ``bits_histogram``: numbers of hits by class of bit score.

Which verb answers depends on the engine's flags alone (`way_of`), so that a study's report can
say it. Where the store does not answer, the client reads what it must (by a range of one field,
a scan of the kind, or all ids) and does the rest; every way gives the same answer.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from storewise.documents import Document, Kind
from storewise.engines.contract.engine import Client, Flags, Where
from storewise.errors import EngineError

Name = Literal["best_hits", "gene_hits", "strong_hits", "top_genes", "bits_histogram"]
QUESTIONS: tuple[Name, ...] = (
    "best_hits",
    "gene_hits",
    "strong_hits",
    "top_genes",
    "bits_histogram",
)
#: Fields of ``align`` that each question looks at: an index on one of them may serve it.
FIELDS: dict[Name, tuple[str, ...]] = {
    "best_hits": ("q", "e"),
    "gene_hits": ("gene",),
    "strong_hits": ("e", "i"),
    "top_genes": ("gene",),
    "bits_histogram": ("b",),
}
By = Literal["find", "range", "aggregate", "histogram", "scan", "ids"]
#: Documents of one scan and of one get.
_PAGE = 2000
_BATCH = 500


@dataclass(frozen=True, slots=True)
class Way:
    """Who answers a question, and by which verb."""

    answered_by: Literal["store", "client"]
    by: By


@dataclass(frozen=True, slots=True)
class Question:
    """One question with its values. `where` are the conditions on ``align``, the most selective
    one first; `limit` and `width` are of no meaning to those that have none."""

    name: Name
    where: tuple[Where, ...] = ()
    limit: int = 10
    width: float = 10.0


@dataclass(frozen=True, slots=True)
class Answer:
    """`value` is the same whoever answered; `read` are the documents that the client received."""

    value: Any
    documents: Sequence[Document | None]
    read: int


def way_of(name: Name, flags: Flags) -> Way:
    """Who answers a question on an engine with these flags.

    What reads the files again answers in the client's processes, whatever the verb."""
    way = _way(name, flags)
    return Way("client", way.by) if flags.rereads else way


def _way(name: Name, flags: Flags) -> Way:
    if name == "top_genes" and flags.server_aggregation:
        return Way("store", "aggregate")
    if name == "bits_histogram" and flags.finds:
        return Way("store", "histogram")
    if name in ("best_hits", "gene_hits", "strong_hits"):
        if flags.finds:
            return Way("store", "find")
        if flags.ranges:
            # A range of equal ends is the whole condition; the others sort or filter here.
            return Way("store" if name == "gene_hits" else "client", "range")
    if flags.scans:
        return Way("client", "scan")
    return Way("client", "range" if flags.ranges else "ids")


def ask(
    question: Question, client: Client, flags: Flags, ids: Callable[[], Iterable[list[bytes]]]
) -> Answer:
    """The answer to a question.

    `ids` gives all ids of ``align`` in lists, for engines that can neither search nor scan.
    Values: of best_hits a list of (align, rna, gs); of gene_hits a dict of chromosome to its
    (number, documents in the order of ids); of strong_hits the documents in the order of e-values,
    ties by id; of top_genes and bits_histogram what `Client.aggregate` and `Client.histogram` give.
    """
    way = way_of(question.name, flags)
    reader = _Reader(question, client, way, ids)
    if question.name == "best_hits":
        return _best_hits(reader)
    if question.name == "gene_hits":
        return _gene_hits(reader)
    if question.name == "strong_hits":
        found = reader.hits()
        found.sort(key=_by_expect)
        return Answer(found, found, reader.read)
    if question.name == "top_genes":
        return Answer(reader.top("gene"), (), reader.read)
    return Answer(reader.classes("b"), (), reader.read)


class _Reader:
    def __init__(
        self, question: Question, client: Client, way: Way, ids: Callable[[], Iterable[list[bytes]]]
    ) -> None:
        self.question, self.client, self._by = question, client, way.by
        self._ids = ids
        self.read = 0

    def hits(self, *, best: int | None = None) -> list[Document]:
        """The ``align`` documents that fulfil the conditions; with `best` that many, by e-value."""
        where = self.question.where
        if self._by == "find":
            order = None if best is None else "e"
            found = self.client.find(Kind.ALIGN, where, order_by=order, limit=best)
            self.read += len(found)
            return found
        found = [d for d in self._all(where) if all(fulfils(d, one) for one in where)]
        if best is not None:
            found = sorted((d for d in found if d["e"] is not None), key=_by_expect)[:best]
        return found

    def top(self, field: str) -> list[tuple[Any, int]]:
        limit = self.question.limit
        if self._by == "aggregate":
            return self.client.aggregate(Kind.ALIGN, field, limit)
        counts = Counter(d[field] for d in self._all((), field) if d[field] is not None)
        return sorted(counts.items(), key=lambda item: (-item[1], item[0]))[:limit]

    def classes(self, field: str) -> dict[int, int]:
        width = self.question.width
        if self._by == "histogram":
            return self.client.histogram(Kind.ALIGN, field, width)
        values = (d[field] for d in self._all((), field))
        return dict(Counter(math.floor(v / width) for v in values if v is not None))

    def _all(self, where: Sequence[Where], field: str = "") -> Iterator[Document]:
        """Documents of ``align``, all or those that a range of the first condition (or of the
        values of `field`) leaves."""
        if self._by == "range":
            low, high = _bounds(where[0]) if where else (None, None)
            found = self.client.range(Kind.ALIGN, where[0].field if where else field, low, high)
            self.read += len(found)
            yield from found
        elif self._by == "scan":
            start = b"\x00" * 12
            while page := self.client.scan(Kind.ALIGN, start, _PAGE):
                self.read += len(page)
                yield from page
                if len(page) < _PAGE:
                    return
                start = _after(page[-1]["_id"], start)
        else:
            for ids in self._ids():
                documents = [d for d in self.client.get_many(Kind.ALIGN, ids) if d is not None]
                self.read += len(documents)
                yield from documents


def _best_hits(reader: _Reader) -> Answer:
    aligns = reader.hits(best=reader.question.limit)
    rna = _documents(reader, Kind.RNA, [d["rna"] for d in aligns])
    gs = _documents(reader, Kind.GS, [d["gs"] for d in aligns])
    return Answer(list(zip(aligns, rna, gs, strict=True)), [*aligns, *rna, *gs], reader.read)


def _documents(reader: _Reader, kind: Kind, ids: list[bytes]) -> list[Document]:
    found: list[Document] = []
    for start in range(0, len(ids), _BATCH):
        batch = ids[start : start + _BATCH]
        for document_id, document in zip(batch, reader.client.get_many(kind, batch), strict=True):
            if document is None:
                raise EngineError(f"document {document_id.hex()} of {kind.table} is missing")
            found.append(document)
    reader.read += len(found)
    return found


def _gene_hits(reader: _Reader) -> Answer:
    found = sorted(reader.hits(), key=lambda d: bytes(d["_id"]))
    by_chromosome: dict[str | None, list[Document]] = {}
    for document in found:
        by_chromosome.setdefault(document["chr"], []).append(document)
    value = {name: (len(hits), hits) for name, hits in by_chromosome.items()}
    return Answer(value, found, reader.read)


def _by_expect(document: Document) -> tuple[float, bytes]:
    return document["e"], document["_id"]


def _after(last: bytes, start: bytes) -> bytes:
    """The first id behind `last`; a store that does not move on would be read for ever."""
    following = (int.from_bytes(last, "big") + 1).to_bytes(len(last), "big")
    if following <= start:
        raise EngineError(f"a scan from {start.hex()} came back to {last.hex()}")
    return following


def _bounds(where: Where) -> tuple[Any, Any]:
    """The inclusive range that holds what fulfils a condition."""
    low = where.value if where.op in ("=", ">", ">=") else None
    high = where.value if where.op in ("=", "<", "<=") else None
    return low, high


def fulfils(document: Document, where: Where) -> bool:
    """Whether a document fulfils a condition; a null field fulfils none."""
    value, bound = document[where.field], where.value
    if value is None:
        return False
    if where.op == "=":
        return bool(value == bound)
    if where.op in ("<", "<="):
        return bool(value < bound or (where.op == "<=" and value == bound))
    return bool(value > bound or (where.op == ">=" and value == bound))
