"""Phase ``query``: questions with parameters drawn from the data, asked in sequence.

All engines of a study are asked the same questions: the values come from a seeded sample of the
stored files, and the seed from these files, not from the trial.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache, partial
from itertools import count, islice
from threading import Lock
from typing import Any

import numpy as np
from pydantic import Field, model_validator

from storewise.documents import Kind
from storewise.engines.contract.engine import Client
from storewise.engines.contract.own_text import Language, OwnText
from storewise.engines.contract.queries import Find, Histogram, Top, Where
from storewise.errors import ConfigError, EngineError
from storewise.ssearch.reader import DocumentReader
from storewise.workloads.alignments.own import OwnQuestion
from storewise.workloads.alignments.point_reads import PointReads, document_bytes
from storewise.workloads.alignments.queries import QUESTIONS, Answer, Question, ask, way_of
from storewise.workloads.alignments.stored_files import IdDraw, StoredFiles
from storewise.workloads.contract import ClientContext, EndedParams, Operation
from storewise.yamlfile import suggestion

#: The question that looks up a document by its id, as phase `read` does.
LOOK_UP = "get"
#: Files of the sample, at most, and alignments read of each.
_FILES = 8
_ALIGNMENTS = 20_000


class QueryParams(EndedParams):
    """Parameters of the questions."""

    questions: tuple[str, ...] = Field(
        default=QUESTIONS,
        min_length=1,
        description="which are asked, in turn; also your own, and `get`: look up by id",
    )
    own: dict[str, OwnQuestion] = Field(
        default_factory=dict, description="the study's own questions, put here by Storewise"
    )
    limit: int = Field(default=10, ge=1, description="best hits of an RNA, genes of the top")
    expect_share: float = Field(
        default=0.05,
        gt=0,
        le=1,
        description="strong_hits: x is the e-value of a hit drawn from this share of the best",
    )
    ident_share: float = Field(
        default=0.5,
        gt=0,
        le=1,
        description="strong_hits: y is the identity of a hit from this share of the most similar",
    )
    width: float = Field(
        default=10.0, gt=0, allow_inf_nan=False, description="bits of a bin of bits_histogram"
    )

    @model_validator(mode="after")
    def _once(self) -> QueryParams:
        if len(set(self.questions)) < len(self.questions):
            raise ValueError("`questions` has a question twice")
        for name in self.questions:
            known = [LOOK_UP, *QUESTIONS, *self.own]
            if name not in known:
                raise ValueError(f"no question is called {name!r}{suggestion(name, known)}")
        return self

    @property
    def drawn(self) -> tuple[tuple[str, str], ...]:
        """The tables and fields that values of own questions are drawn from."""
        own = [one for name, one in self.own.items() if name in self.questions]
        return tuple(sorted({(one.kind, field) for one in own for field in one.values.values()}))


@dataclass(frozen=True, slots=True)
class ParameterPool:
    """Sorted values from the stored data, from which questions draw their parameters. `seed` is
    computed from the data."""

    rna: tuple[str, ...]
    genes: tuple[str, ...]
    expects: tuple[float, ...]
    idents: tuple[float, ...]
    seed: int
    drawn: Mapping[tuple[str, str], tuple[Any, ...]] = field(default_factory=dict)
    """By table and field, values for own questions."""


_learning = Lock()


def learn(files: StoredFiles, drawn: tuple[tuple[str, str], ...] = ()) -> ParameterPool:
    """Read the values of a seeded sample of the stored files, and those of the `drawn` tables and
    fields; EngineError if nothing is stored."""
    counts = files.documents[:, Kind.ALIGN.number].tolist()
    # By digest, not by path: a study may be moved.
    columns = (files.column(name) for name in ("digest", "path", "format"))
    rows = [row for row in sorted(zip(*columns, counts, strict=True)) if row[-1]]
    if not rows:
        raise EngineError("there is nothing to query: the load stored no alignment")
    hashed = hashlib.blake2b(b"".join(digest for digest, *_ in rows), digest_size=8)
    seed = int.from_bytes(hashed.digest(), "big")
    chosen = np.random.default_rng(seed).permutation(len(rows))[:_FILES]
    with _learning:  # the clients of a process read the files once
        return _learn(tuple(rows[n] for n in sorted(chosen.tolist())), seed, drawn)


@lru_cache(maxsize=4)
def _learn(
    files: tuple[tuple[bytes, str, str, int], ...], seed: int, drawn: tuple[tuple[str, str], ...]
) -> ParameterPool:
    """The pool of files, of each its digest, path, format and how many alignments are stored."""
    values: dict[str, list[Any]] = {name: [] for name in ("q", "gene", "e", "i")}
    more: dict[tuple[str, str], set[Any]] = {one: set() for one in drawn}
    for digest, path, form, stored in files:
        left = min(stored, _ALIGNMENTS)
        for batch in DocumentReader(path, digest, input_format=form):
            for name, some in values.items():
                some += [hit[name] for hit in batch.align[:left] if hit[name] is not None]
            for (table, name), found in more.items():
                documents = getattr(batch, table)[: left if table != "tasks" else None]
                found.update(one[name] for one in documents if one[name] is not None)
            left -= len(batch.align)
            if left <= 0:
                break
    rna, genes = (tuple(sorted(set(values[name]))) for name in ("q", "gene"))
    expects, idents = tuple(sorted(values["e"])), tuple(sorted(values["i"]))
    pools = {one: tuple(sorted(found)) for one, found in more.items()}
    return ParameterPool(rna, genes, expects, idents, seed, pools)


def check_questions(context: ClientContext, pool: ParameterPool) -> None:
    """Raise ConfigError for a question whose fields the data do not have."""
    for name in context.params.questions:
        why = ""
        if context.schema.study_fields and name in ("best_hits", "gene_hits", "top_genes"):
            why = "the study has `study_fields: true`, and they lack the fields it asks for"
        elif name in ("gene_hits", "top_genes") and not pool.genes:
            why = "no hit of the sampled files names a gene"
        elif name in ("best_hits", "strong_hits") and not pool.expects:
            why = "the searches have no e-values"
        elif name in context.params.own:
            own = context.params.own[name]
            for field_ in own.values.values():
                if not pool.drawn[own.kind, field_]:
                    why = f"no document of the sampled files has {own.kind}.{field_}"
        if why:
            raise ConfigError(f"phase query, question {name!r}: {why}; leave it out of `questions`")


def questions(client: Client, context: ClientContext) -> Iterator[Operation]:
    """The operations of one client; each question is an operation of its own name."""
    params: QueryParams = context.params
    files = StoredFiles.read(context.written).with_notes(context.before)
    pool = learn(files, params.drawn)
    check_questions(context, pool)
    flags, language = context.engine.flags, context.engine.language
    if context.client == 0:
        # From a separate random stream, so that the sequence of questions does not change.
        first = np.random.default_rng(pool.seed)
        noted = [
            draw(name, params, pool, first, language)
            for name in params.questions
            if name != LOOK_UP
        ]
        context.notes.extend(note_of(question, client, context) for question in noted)
    stream = context.stream(pool.seed)
    share = context.share
    got: list[Answer] = []

    def call(question: Question) -> int:
        answer = ask(question, client, flags, files.every_id)
        got[:] = [answer]
        return answer.read

    def size() -> int:
        return sum(document_bytes(document) for document in got[0].documents)

    reads, ids = PointReads(client, context), IdDraw(files, context.stream()).single_ids(None)

    def operation(name: str) -> Operation:
        if name == LOOK_UP:
            return reads.single_read(*next(ids))
        question = draw(name, params, pool, stream, language)
        return Operation(name, partial(call, question), size=size)

    # Neighbouring clients begin with different questions.
    names = params.questions
    turns = islice(count(context.client), share)
    return (operation(names[turn % len(names)]) for turn in turns)


def note_of(question: Question, client: Client, context: ClientContext) -> dict[str, Any]:
    """A note: the store or the client answers, and whether the store's plan uses an index."""
    flags = context.engine.flags
    way = way_of(question.query, flags)
    note: dict[str, Any] = {
        "question": question.name,
        "answered_by": way.answered_by,
        "by": way.by,
        "step": context.step,
    }
    if flags.explains and way.answered_by == "store" and isinstance(question.query, Find):
        plan = client.explain(question.query)
        note |= {"plan": plan.text, "uses_index": plan.uses_index}
    return note


def draw(
    name: str,
    params: QueryParams,
    pool: ParameterPool,
    stream: np.random.Generator,
    language: Language | None = None,
) -> Question:
    """Make a question with parameters drawn from the pool; `language` is the store's own."""
    # Always four numbers: what one question draws does not change what the next one does.
    at = stream.random(4).tolist()
    query: Find | Top | Histogram | OwnText
    match name:
        case "best_hits":
            where = (Where("q", "=", _pick(pool.rna, at[0])),)
            query = Find(Kind.ALIGN, where, order_by="e", limit=params.limit)
        case "gene_hits":
            query = Find(Kind.ALIGN, (Where("gene", "=", _pick(pool.genes, at[1])),))
        case "strong_hits":
            expect = _pick(pool.expects, at[2] * params.expect_share)
            ident = _pick(pool.idents, 1 - at[3] * params.ident_share)
            query = Find(Kind.ALIGN, (Where("e", "<", expect), Where("i", ">", ident)))
        case "top_genes":
            query = Top(Kind.ALIGN, "gene", params.limit)
        case "bits_histogram":
            query = Histogram(Kind.ALIGN, "b", params.width)
        case _:
            own = params.own[name]
            values = {
                key: _pick(pool.drawn[own.kind, of], place)
                for (key, of), place in zip(own.values.items(), at, strict=False)
            }
            if language is not None and language in own.languages:
                query = own.own_text(language, values)
            else:
                query = own.query(values)
    return Question(name, query)


def _pick(values: Sequence[Any], place: float) -> Any:
    return values[min(int(place * len(values)), len(values) - 1)]
