"""Questions that a biologist asks of alignments, answered by the store or by the client.

- ``best_hits``: the `limit` best hits of an RNA by e-value, with all their documents;
- ``gene_hits``: all hits of a gene, by chromosome: numbers and documents;
- ``strong_hits``: all hits with an e-value below x and an identity above y;
- ``top_genes``: the `limit` genes with the most hits;
- ``bits_histogram``: numbers of hits by class of bit score.

Who answers depends on the engine's flags alone (`way_of`), so that a study's report can say it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from operator import itemgetter
from typing import Any, Literal

from storewise.documents import Document, Kind
from storewise.engines.contract.engine import Client, Flags
from storewise.engines.contract.queries import Find, Histogram, Top, Where
from storewise.errors import EngineError
from storewise.workloads.reader import By, Native, Reader, route

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
#: Documents of one get.
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
    native: Native = "find"
    if name == "top_genes":
        native = "aggregate"
    elif name == "bits_histogram":
        native = "histogram"
    by = route(native, flags, conditions=native == "find")
    # A range of equal ends is a gene's whole condition; others sort or filter at the client.
    store = by == native or (by == "range" and name == "gene_hits")
    return Way("store" if store and not flags.rereads else "client", by)


def ask(
    question: Question, client: Client, flags: Flags, ids: Callable[[Kind], Iterable[list[bytes]]]
) -> Answer:
    """The answer to a question.

    `ids` gives all ids of a kind in lists, for engines that can neither search nor scan.
    Values: of best_hits a list of (align, rna, gs); of gene_hits a dict of chromosome to its
    (number, documents in the order of ids); of strong_hits the documents in the order of e-values,
    ties by id; of top_genes and bits_histogram what `Client.top` and `Client.histogram` give.
    """
    reader = Reader(client, flags, ids)
    where, limit = question.where, question.limit
    match question.name:
        case "best_hits":
            aligns = reader.find(Find(Kind.ALIGN, where, order_by="e", limit=limit))
            rna = _documents(client, Kind.RNA, [d["rna"] for d in aligns])
            gs = _documents(client, Kind.GS, [d["gs"] for d in aligns])
            joined = list(zip(aligns, rna, gs, strict=True))
            return Answer(joined, [*aligns, *rna, *gs], reader.read + len(rna) + len(gs))
        case "gene_hits":
            hits = sorted(reader.find(Find(Kind.ALIGN, where)), key=itemgetter("_id"))
            by_chromosome: dict[str | None, list[Document]] = {}
            for document in hits:
                by_chromosome.setdefault(document["chr"], []).append(document)
            value = {name: (len(some), some) for name, some in by_chromosome.items()}
            return Answer(value, hits, reader.read)
        case "strong_hits":
            hits = sorted(reader.find(Find(Kind.ALIGN, where)), key=itemgetter("e", "_id"))
            return Answer(hits, hits, reader.read)
        case "top_genes":
            return Answer(reader.top(Top(Kind.ALIGN, "gene", limit)), (), reader.read)
        case "bits_histogram":
            classes = reader.histogram(Histogram(Kind.ALIGN, "b", question.width))
            return Answer(classes, (), reader.read)


def _documents(client: Client, kind: Kind, ids: list[bytes]) -> list[Document]:
    documents: list[Document] = []
    for start in range(0, len(ids), _BATCH):
        batch = ids[start : start + _BATCH]
        for document_id, document in zip(batch, client.get_many(kind, batch), strict=True):
            if document is None:
                raise EngineError(f"document {document_id.hex()} of {kind.table} is missing")
            documents.append(document)
    return documents
