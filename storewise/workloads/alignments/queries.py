"""Typical queries of biologists on alignments, answered by the store or by the client.

- ``best_hits``: the `limit` best hits of an RNA by e-value, with all their documents;
- ``gene_hits``: all hits of a gene, by chromosome: numbers and documents;
- ``strong_hits``: all hits with an e-value below x and an identity above y;
- ``top_genes``: the `limit` genes with the most hits;
- ``bits_histogram``: numbers of hits by bin of bit score.

Who answers depends on the engine's flags alone (`way_of`), so that a study's report can say it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from operator import itemgetter
from typing import Any, Literal, NamedTuple, get_args

from storewise.documents import Document, Kind
from storewise.engines.contract.engine import Client, Flags
from storewise.engines.contract.own_text import OwnText
from storewise.engines.contract.queries import Find, Histogram, Top
from storewise.errors import EngineError
from storewise.workloads.reader import By, Native, Reader, route

#: Questions about genes, which tables without titles do not name.
OF_GENES = ("gene_hits", "top_genes")
Name = Literal["best_hits", "gene_hits", "strong_hits", "top_genes", "bits_histogram"]
QUESTIONS: tuple[Name, ...] = get_args(Name)
#: Documents of one get.
_BATCH = 500


class Way(NamedTuple):
    """The side that answers a question (store or client), and the verb it uses."""

    answered_by: Literal["store", "client"]
    by: By | Literal["own text"]


@dataclass(frozen=True, slots=True)
class Question:
    """A question and its query; the most selective condition comes first."""

    name: str
    query: Find | Top | Histogram | OwnText


@dataclass(frozen=True, slots=True)
class Answer:
    """`value` is the same whoever answered; `read` are the documents that the client received."""

    value: Any
    documents: Sequence[Document | None]
    read: int


def way_of(query: Find | Top | Histogram | OwnText, flags: Flags) -> Way:
    """The way to answer a query on an engine with these flags.

    An engine that reads the files again always answers in the client's processes."""
    if isinstance(query, OwnText):
        return Way("store", "own text")
    natives: dict[type, Native] = {Top: "aggregate", Histogram: "histogram"}
    native = natives.get(type(query), "find")
    where = () if isinstance(query, Histogram) else query.where
    by = route(native, flags, conditions=bool(where))
    # A single condition needs no sorting or filtering by the client.
    alone = isinstance(query, Find) and len(where) == 1 and query.order_by is None
    store = by == native or (by == "range" and alone)
    return Way("store" if store and not flags.rereads else "client", by)


def ask(
    question: Question, client: Client, flags: Flags, ids: Callable[[Kind], Iterable[list[bytes]]]
) -> Answer:
    """The answer to a question.

    `ids` gives all ids of a kind in lists, for engines that can neither search nor scan.
    Values: of best_hits a list of (align, rna, gs); of gene_hits a dict of chromosome to its
    (number, documents in the order of ids); of strong_hits the documents in the order of e-values,
    ties by id; of top_genes and bits_histogram what `Client.top` and `Client.histogram` give; of a
    study's own question its documents, counts or rows.
    """
    reader = Reader(client, flags, ids)
    match question.query:
        case Top() as top:
            return Answer(reader.top(top), (), reader.read)
        case Histogram() as histogram:
            return Answer(reader.histogram(histogram), (), reader.read)
        case OwnText() as own:
            rows = client.ask(own)
            return Answer(rows, (), len(rows))
        case Find() as find:
            hits = reader.find(find)
    if question.name == "best_hits":
        rna = _documents(client, Kind.RNA, [hit["rna"] for hit in hits])
        gs = _documents(client, Kind.GS, [hit["gs"] for hit in hits])
        joined = list(zip(hits, rna, gs, strict=True))
        return Answer(joined, [*hits, *rna, *gs], reader.read + len(rna) + len(gs))
    if question.name == "strong_hits":
        hits.sort(key=itemgetter("e", "_id"))
        return Answer(hits, hits, reader.read)
    if question.query.order_by is None:
        hits.sort(key=itemgetter("_id"))
    if question.name != "gene_hits":
        return Answer(hits, hits, reader.read)
    by_chromosome: dict[str | None, list[Document]] = {}
    for hit in hits:
        by_chromosome.setdefault(hit["chr"], []).append(hit)
    value = {name: (len(some), some) for name, some in by_chromosome.items()}
    return Answer(value, hits, reader.read)


def _documents(client: Client, kind: Kind, ids: list[bytes]) -> list[Document]:
    documents: list[Document] = []
    for start in range(0, len(ids), _BATCH):
        batch = ids[start : start + _BATCH]
        for document_id, document in zip(batch, client.get_many(kind, batch), strict=True):
            if document is None:
                raise EngineError(f"document {document_id.hex()} of {kind.table} is missing")
            documents.append(document)
    return documents
