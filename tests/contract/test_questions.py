"""The questions of phase ``query``: every engine, and every way to answer, gives what plain Python
makes of the parsed documents."""

import math
import os
from dataclasses import replace

import numpy as np
import pytest
from support.paths import SAMPLE
from support.servers.samples import ByDigest, connect, fill
from support.servers.stores import PARQUET, SINGLE, cells

from storewise.documents import KINDS, Document, Kind
from storewise.engines.contract.engine import Cluster, Schema, SourceFile
from storewise.engines.contract.queries import Count, Find, Histogram, Scan, Top, Where, between
from storewise.engines.registry import engine
from storewise.errors import EngineError
from storewise.ssearch.parse.reader import DocumentReader
from storewise.ssearch.parse.stream import content_digest
from storewise.workloads.alignments.queries import QUESTIONS, Question, ask, way_of
from storewise.workloads.alignments.query_phase import Learnt, QueryParams, draw

FILES = [SAMPLE / f"queries_04__{name}.m10.zst" for name in ("arabidopsis", "orchids", "yersinia")]
INDEXES = tuple((Kind.ALIGN, name) for name in ("q", "gene", "e"))
Parsed = list[dict[Kind, list[Document]]]


@pytest.fixture(scope="module")
def parsed():
    """The documents of each file."""
    result = []
    for path in FILES:
        documents = {kind: [] for kind in KINDS}
        for batch in DocumentReader(path, content_digest(path)):
            for kind, part in batch:
                documents[kind] += part
        result.append(documents)
    return result


@pytest.fixture(scope="module")
def documents(parsed):
    return {kind: [d for file in parsed for d in file[kind]] for kind in KINDS}


@pytest.fixture(scope="module")
def asked(documents):
    """Questions as a phase draws them, and some whose answers are empty or everything."""
    hits = documents[Kind.ALIGN]
    learnt = Learnt(
        tuple(sorted({d["q"] for d in hits})),
        tuple(sorted({d["gene"] for d in hits if d["gene"] is not None})),
        tuple(sorted(d["e"] for d in hits)),
        tuple(sorted(d["i"] for d in hits)),
        seed=5,
    )
    stream = np.random.default_rng(3)
    params = QueryParams(operations=1, limit=7, width=12.5)
    drawn = [draw(name, params, learnt, stream) for _ in range(3) for name in QUESTIONS]
    return [
        *drawn,
        Question("best_hits", (Where("q", "=", "no such RNA"),)),
        Question("best_hits", (Where("q", "=", learnt.rna[0]),), limit=100_000),
        Question("gene_hits", (Where("gene", "=", "no such gene"),)),
        Question("strong_hits", (Where("e", "<", 1e300), Where("i", ">", 0.9))),
        Question("top_genes", limit=1),
        Question("bits_histogram", width=0.5),
    ]


def plain(question, documents):
    """The answer by comprehensions over all documents."""
    hits = documents[Kind.ALIGN]
    if question.name == "best_hits":
        rna = question.where[0].value
        mine = sorted((d["e"], d["_id"], d) for d in hits if d["q"] == rna)[: question.limit]
        by_id = {d["_id"]: d for kind in (Kind.RNA, Kind.GS) for d in documents[kind]}
        return [(d, by_id[d["rna"]], by_id[d["gs"]]) for _, _, d in mine]
    if question.name == "gene_hits":
        gene = question.where[0].value
        value = {}
        for name in {d["chr"] for d in hits if d["gene"] == gene}:
            mine_here = [d for d in hits if d["gene"] == gene and d["chr"] == name]
            value[name] = (len(mine_here), sorted(mine_here, key=lambda d: d["_id"]))
        return value
    if question.name == "strong_hits":
        x, y = (one.value for one in question.where)
        strong = [d for d in hits if d["e"] < x and d["i"] > y]
        return sorted(strong, key=lambda d: (d["e"], d["_id"]))
    if question.name == "top_genes":
        genes = [d["gene"] for d in hits if d["gene"] is not None]
        counts = {gene: genes.count(gene) for gene in set(genes)}
        return sorted(counts.items(), key=lambda item: (-item[1], item[0]))[: question.limit]
    classes = [math.floor(d["b"] / question.width) for d in hits]
    return {number: classes.count(number) for number in set(classes)}


def compare(client, flags, request, documents):
    def ids(kind):
        every = [d["_id"] for d in documents[kind]]
        for start in range(0, len(every), 500):
            yield every[start : start + 500]

    for question in request:
        answer = ask(question, client, flags, ids)
        expected = plain(question, documents)
        assert answer.value == expected, question
        if way_of(question.name, flags).by == "scan":
            assert answer.read >= len(documents[Kind.ALIGN])


def embedded(name, place, parsed, index, **more):
    """Two stores: the first file in one, the others in the other."""
    digests = [file[Kind.TASKS][0]["_id"][:7] for file in parsed]
    sources = tuple(
        SourceFile(
            str(path),
            path.stat().st_size,
            content_digest(path),
            tuple(len(file[kind]) for kind in KINDS),
            min(number, 1),
        )
        for number, (path, file) in enumerate(zip(FILES, parsed, strict=True))
    )
    stores = (place / "a", place / "b")
    for number, store in enumerate(stores):
        mine = [file for n, file in enumerate(parsed) if min(n, 1) == number]
        whole = {kind: [d for file in mine for d in file[kind]] for kind in KINDS}
        sources_of_store = tuple(
            replace(s, documents=(0,) * 4) for s in sources if s.store == number
        )
        schema = Schema(indexes=INDEXES, index_time=index) if index != "none" else Schema()
        cluster = Cluster(name, stores=(store,), sources=sources_of_store, settings=more)
        fill(cluster, whole, schema, batch=1000)
    placement = ByDigest({digest: min(n, 1) for n, digest in enumerate(digests)})
    return Cluster(name, stores=stores, sources=sources, placement=placement, settings=more)


@pytest.mark.parametrize(
    ("name", "index"),
    [
        ("sqlite", "before"),
        ("duckdb", "after"),
        pytest.param("chdb", "after", marks=pytest.mark.slow),
        ("parquet", "none"),
        ("files", "none"),
    ],
)
def test_answers_of_embedded_stores(name, index, tmp_path, parsed, documents, asked):
    client = connect(embedded(name, tmp_path, parsed, index), "read")
    try:
        compare(client, engine(name).flags, asked, documents)
    finally:
        client.close()


@pytest.mark.parametrize("target", cells(PARQUET))
def test_answers_of_each_layout_of_a_data_set(target, tmp_path, parsed, documents, asked):
    cluster = embedded("parquet", tmp_path, parsed, "none", **dict(target.settings))
    client = connect(cluster, "read")
    try:
        compare(client, engine("parquet").flags, asked, documents)
    finally:
        client.close()


@pytest.mark.parametrize("target", cells(SINGLE))
def test_answers_of_servers(target, clusters, documents, asked):
    cluster = clusters.fresh(target)
    flags = engine(target.name).flags
    schema = Schema()
    if flags.secondary_indexes:
        schema = Schema(indexes=INDEXES, index_time="after")
    fill(cluster, documents, schema, batch=1000)
    client = connect(cluster, "read")
    try:
        compare(client, flags, asked, documents)
    finally:
        client.close()


WAYS = {
    "range": {"finds": False, "server_aggregation": False},
    "range without scans": {"finds": False, "server_aggregation": False, "scans": False},
    "scan": {"finds": False, "server_aggregation": False, "ranges": False},
    "ids": {"finds": False, "server_aggregation": False, "ranges": False, "scans": False},
}


@pytest.mark.parametrize(
    "way", [pytest.param(way, marks=[pytest.mark.slow] if way == "range" else []) for way in WAYS]
)
def test_every_way_gives_the_same_answers(way, tmp_path, parsed, documents, asked):
    flags = replace(engine("sqlite").flags, **WAYS[way])
    client = connect(embedded("sqlite", tmp_path, parsed, "none"), "read")
    try:
        compare(client, flags, asked, documents)
    finally:
        client.close()


def test_who_answers_follows_from_the_flags():
    able = replace(engine("sqlite").flags, finds=True)
    assert {way_of(name, able).answered_by for name in QUESTIONS} == {"store"}
    ranges = replace(able, finds=False)
    assert [(way_of(n, ranges).answered_by, way_of(n, ranges).by) for n in QUESTIONS] == [
        ("client", "range"),
        ("store", "range"),
        ("client", "range"),
        ("store", "aggregate"),
        ("client", "scan"),
    ]
    least = replace(able, finds=False, ranges=False, scans=False, server_aggregation=False)
    assert {(way_of(n, least).answered_by, way_of(n, least).by) for n in QUESTIONS} == {
        ("client", "ids")
    }
    files = engine("files").flags
    assert {way_of(name, files).answered_by for name in QUESTIONS} == {"client"}


def test_files_answer_all_verbs_as_sqlite_does(tmp_path, parsed, documents):
    (tmp_path / "f").mkdir()
    (tmp_path / "s").mkdir()
    files = connect(embedded("files", tmp_path / "f", parsed, "none"), "read")
    sqlite = connect(embedded("sqlite", tmp_path / "s", parsed, "none"), "read")
    hits = documents[Kind.ALIGN]
    ids = sorted(d["_id"] for d in hits)
    strong = (Where("e", "<=", 100.0), Where("f", "=", "f"))

    def in_ids(found):
        return sorted(found, key=lambda d: d["_id"])

    try:
        for client in (files, sqlite):
            for kind in KINDS:
                assert client.count(Count(kind)) == len(documents[kind])
            wanted = [ids[3], b"\x00" * 12, ids[-1], ids[3], documents[Kind.RNA][0]["_id"]]
            by_id = {d["_id"]: d for d in hits}
            assert client.get_many(Kind.ALIGN, wanted) == [by_id.get(i) for i in wanted]
            task = documents[Kind.TASKS][0]
            assert client.get(Kind.TASKS, task["_id"]) == task
            for start, limit in ((b"\x00" * 12, 5), (ids[700], 4000), (ids[-2], 9), (ids[9], 0)):
                expected = [i for i in ids if i >= start][:limit]
                assert [d["_id"] for d in client.scan(Scan(Kind.ALIGN, start, limit))] == expected
        for low, high in ((1e-9, 1e-3), (None, 1e-5), (1.0, None), (None, None)):
            pair = [
                in_ids(c.find(Find(Kind.ALIGN, between("e", low, high)))) for c in (files, sqlite)
            ]
            assert pair[0] == pair[1]
        assert len(files.find(Find(Kind.ALIGN, between("gene"), limit=3))) == 3
        for field, descending in (("b", True), ("gene", False), ("gene", True)):
            pair = [
                c.find(Find(Kind.ALIGN, strong, order_by=field, descending=descending, limit=6))
                for c in (files, sqlite)
            ]
            assert pair[0] == pair[1]
            assert len(pair[0]) == 6
        assert len(files.find(Find(Kind.ALIGN, strong, limit=4))) == 4
        counted = Count(Kind.ALIGN, strong)
        assert files.count(counted) == sqlite.count(counted)
        for classes in (Histogram(Kind.GS, "l", 25.0), Histogram(Kind.ALIGN, "b", 10.0, strong)):
            assert files.histogram(classes) == sqlite.histogram(classes)
        top = Top(Kind.ALIGN, "chr", 4)
        assert files.top(top) == sqlite.top(top)
        for bad in (
            lambda: files.find(Find(Kind.ALIGN, (Where("nothing", "=", 1),))),
            lambda: files.find(Find(Kind.ALIGN, (Where("e", "<", "x"),))),
            lambda: files.histogram(Histogram(Kind.ALIGN, "gene", 1.0)),
            lambda: files.histogram(Histogram(Kind.ALIGN, "b", 0.0)),
            lambda: files.scan(Scan(Kind.ALIGN, b"", -1)),
            lambda: files.update(Kind.ALIGN, ids[0], {"e": 1.0}),
        ):
            with pytest.raises(EngineError):
                bad()
    finally:
        files.close()
        sqlite.close()
    with pytest.raises(EngineError, match="closed"):
        files.count(Count(Kind.ALIGN))


def test_files_know_only_what_was_inserted(tmp_path, parsed):
    source = SourceFile(str(FILES[0]), 10, content_digest(FILES[0]), (0, 0, 0, 0), 0)
    cluster = Cluster("files", stores=(tmp_path / "s",), sources=(source,))
    client = connect(cluster, "write")
    hits = parsed[0][Kind.ALIGN]
    try:
        client.create(Schema())
        assert client.count(Count(Kind.ALIGN)) == 0
        assert client.disk_bytes() == 0
        client.insert(Kind.ALIGN, hits[:100])
        assert client.count(Count(Kind.ALIGN)) == 100
        assert client.disk_bytes() == 10
        assert client.get(Kind.ALIGN, hits[99]["_id"]) == hits[99]
        assert client.get(Kind.ALIGN, hits[100]["_id"]) is None
        assert len(client.scan(Scan(Kind.ALIGN, b"\x00" * 12, 1000))) == 100
        with pytest.raises(EngineError, match="of no input file"):
            client.insert(Kind.ALIGN, parsed[1][Kind.ALIGN][:1])
    finally:
        client.close()


def test_a_file_that_is_gone_is_named(tmp_path):
    store = tmp_path / "s"
    store.mkdir()
    source = SourceFile(str(tmp_path / "gone.m10"), 10, bytes(16), (1, 1, 1, 1), 0)
    client = connect(Cluster("files", stores=(store,), sources=(source,)), "read")
    try:
        with pytest.raises(EngineError, match=r"gone\.m10"):
            client.count(Count(Kind.ALIGN))
    finally:
        client.close()


def test_parsers_end_by_themselves_when_a_client_is_closed(tmp_path):
    """One that the kernel ends at its queue keeps the lock; the next waits for ever."""
    store = tmp_path / "s"
    store.mkdir()
    source = SourceFile(str(tmp_path / "never_read.m10"), 10, bytes(16), (1, 1, 1, 1), 0)
    cluster = Cluster("files", (store,), settings={"processes": 2}, sources=(source,))
    client = connect(cluster, "read")
    assert client._parsers._submit(os.getpid).result() != os.getpid()
    processes = [*client._parsers._pool._processes.values()]
    assert processes
    client.close()
    assert {process.exitcode for process in processes} == {0}


def test_a_parser_that_was_killed_is_said(tmp_path, parsed):
    client = connect(embedded("files", tmp_path, parsed, "none"), "read")
    try:
        for process in client._parsers._pool._processes.copy().values():
            process.kill()
            process.join()
        with pytest.raises(EngineError, match="ended"):
            client.count(Count(Kind.ALIGN))
    finally:
        client.close()
