"""The questions of phase ``query``: every engine, and every way to answer, gives what plain Python
makes of the parsed documents."""

import math
from contextlib import closing, suppress
from dataclasses import replace
from multiprocessing import resource_tracker

import numpy as np
import psutil
import pytest
from support.paths import SAMPLE
from support.servers.samples import ByDigest, connect, fill
from support.servers.stores import PARQUET, SINGLE, Target, cell, cells

from storewise.documents import KINDS, Document, Kind
from storewise.engines.contract.engine import Cluster, Schema, SourceFile
from storewise.engines.contract.queries import Count, Find, Histogram, Scan, Top, Where
from storewise.engines.registry import engine
from storewise.errors import EngineError
from storewise.ssearch.parse.stream import content_digest
from storewise.ssearch.reader import DocumentReader
from storewise.workloads.alignments.own import OwnQuestion
from storewise.workloads.alignments.queries import QUESTIONS, Question, ask, way_of
from storewise.workloads.alignments.query_phase import ParameterPool, QueryParams, draw

FILES = [SAMPLE / f"queries_04__{name}.m10.zst" for name in ("arabidopsis", "orchids", "yersinia")]
INDEXES = tuple((Kind.ALIGN, name) for name in ("q", "gene", "e"))
Parsed = list[dict[Kind, list[Document]]]
#: Questions of a study's own, in conditions.
OWN = {
    name: OwnQuestion(**one)
    for name, one in {
        "long": {"where": ["o > 60", "q = :q"], "order": "b", "values": {"q": "q"}},
        "libraries": {"kind": "gs", "where": ["l >= 30"], "group": "seqid", "limit": 5},
        "frames": {"where": ["e < :e"], "group": "f", "values": {"e": "e"}},
        "texts": {"kind": "rna", "where": ["b <= 40", "e > 2"], "limit": 10_000},
    }.items()
}
#: The number of hits below an e-value, in each language.
COUNTED = OwnQuestion(
    values={"e": "e"},
    sql="SELECT count(*), max(CASE WHEN q LIKE '%' THEN b ELSE 0 END) FROM {align} WHERE e < :e",
    mongodb=[
        {"$match": {"e": {"$lt": ":e"}}},
        {"$group": {"_id": None, "n": {"$sum": 1}, "b": {"$max": "$b"}}},
        {"$project": {"_id": 0}},
    ],
    cql="SELECT count(*), max(b) FROM {align} WHERE e < :e ALLOW FILTERING",
)


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
    pool = ParameterPool(
        tuple(sorted({d["q"] for d in hits})),
        tuple(sorted({d["gene"] for d in hits if d["gene"] is not None})),
        tuple(sorted(d["e"] for d in hits)),
        tuple(sorted(d["i"] for d in hits)),
        seed=5,
    )
    stream = np.random.default_rng(3)
    params = QueryParams(operations=1, limit=7, width=12.5)

    def best(where, limit):
        return Find(Kind.ALIGN, (where,), order_by="e", limit=limit)

    drawn = [draw(name, params, pool, stream) for _ in range(3) for name in QUESTIONS]
    return [
        *drawn,
        Question("best_hits", best(Where("q", "=", "no such RNA"), 10)),
        Question("best_hits", best(Where("q", "=", pool.rna[0]), 100_000)),
        Question("gene_hits", Find(Kind.ALIGN, (Where("gene", "=", "no such gene"),))),
        Question("strong_hits", Find(Kind.ALIGN, (Where("e", "<", 1e300), Where("i", ">", 0.9)))),
        Question("top_genes", Top(Kind.ALIGN, "gene", 1)),
        Question("bits_histogram", Histogram(Kind.ALIGN, "b", 0.5)),
        # A study's own, in conditions.
        *(Question(name, one.query({"q": pool.rna[1], "e": 1e-3})) for name, one in OWN.items()),
    ]


def plain(question, documents):
    """The answer by comprehensions over all documents."""
    hits, query = documents[Kind.ALIGN], question.query
    if question.name == "best_hits":
        rna = query.where[0].value
        mine = sorted((d["e"], d["_id"], d) for d in hits if d["q"] == rna)[: query.limit]
        by_id = {d["_id"]: d for kind in (Kind.RNA, Kind.GS) for d in documents[kind]}
        return [(d, by_id[d["rna"]], by_id[d["gs"]]) for _, _, d in mine]
    if question.name == "gene_hits":
        gene = query.where[0].value
        value = {}
        for name in {d["chr"] for d in hits if d["gene"] == gene}:
            mine_here = [d for d in hits if d["gene"] == gene and d["chr"] == name]
            value[name] = (len(mine_here), sorted(mine_here, key=lambda d: d["_id"]))
        return value
    if question.name == "strong_hits":
        x, y = (one.value for one in query.where)
        strong = [d for d in hits if d["e"] < x and d["i"] > y]
        return sorted(strong, key=lambda d: (d["e"], d["_id"]))
    if question.name == "top_genes":
        genes = [d["gene"] for d in hits if d["gene"] is not None]
        counts = {gene: genes.count(gene) for gene in set(genes)}
        return sorted(counts.items(), key=lambda item: (-item[1], item[0]))[: query.limit]
    if question.name in OWN:
        tests = {"=": "__eq__", "<": "__lt__", "<=": "__le__", ">": "__gt__", ">=": "__ge__"}
        found = [
            document
            for document in documents[query.kind]
            if all(
                document[one.field] is not None
                and getattr(document[one.field], tests[one.op])(one.value) is True
                for one in query.where
            )
        ]
        if isinstance(query, Top):
            values = [document[query.field] for document in found]
            counts = {value: values.count(value) for value in set(values) - {None}}
            return sorted(counts.items(), key=lambda item: (-item[1], item[0]))[: query.limit]
        key = query.order_by or "_id"
        return sorted(found, key=lambda d: (d[key], d["_id"]))[: query.limit]
    bins = [math.floor(d["b"] / query.width) for d in hits]
    return {number: bins.count(number) for number in set(bins)}


def compare(cluster, flags, request, documents):
    def ids(kind):
        every = [d["_id"] for d in documents[kind]]
        for start in range(0, len(every), 500):
            yield every[start : start + 500]

    with closing(connect(cluster, "read")) as client:
        for question in request:
            answer = ask(question, client, flags, ids)
            assert answer.value == plain(question, documents), question
            if way_of(question.query, flags).by == "scan":
                assert answer.read >= len(documents[question.query.kind])


def ask_own_text(cluster, documents):
    """What a user has written in the store's language, over all stores or refused."""
    described = engine(cluster.engine)
    if described.language is None:
        return
    hits = [d for d in documents[Kind.ALIGN] if d["e"] < 1e-3]
    own = COUNTED.own_text(described.language, {"e": 1e-3})
    with closing(connect(cluster, "read")) as client:
        if described.asks_one_store and max(len(cluster.stores), len(cluster.endpoints)) > 1:
            with pytest.raises(EngineError, match="a statement reads one store, and there are 2"):
                client.ask(own)
            return
        ((number, bits),) = client.ask(own)
        assert (number, bits) == (len(hits), max(d["b"] for d in hits))
        wrong = replace(own, text=[{"$no": 1}] if own.language == "mongodb" else "SELEKT 1")
        with pytest.raises(EngineError, match=cluster.engine):
            client.ask(wrong)


def embedded(name, place, parsed, index, **more):
    """Two stores: the first file in one, the others in the other."""
    stores, sources = (place / "a", place / "b"), []
    for number, (path, file) in enumerate(zip(FILES, parsed, strict=True)):
        counts = tuple(len(file[kind]) for kind in KINDS)
        at = path.stat().st_size, content_digest(path), counts, min(number, 1)
        sources.append(SourceFile(str(path), *at))
    for number, (store, files) in enumerate(zip(stores, (parsed[:1], parsed[1:]), strict=True)):
        whole = {kind: [d for file in files for d in file[kind]] for kind in KINDS}
        mine = tuple(replace(s, documents=(0,) * 4) for s in sources if s.store == number)
        schema = Schema(indexes=INDEXES, index_time=index) if index != "none" else Schema()
        cluster = Cluster(name, stores=(store,), sources=mine, settings=more)
        fill(cluster, whole, schema, batch=1000)
    placement = ByDigest({source.digest[:7]: source.store for source in sources})
    return replace(cluster, stores=stores, sources=tuple(sources), placement=placement)


#: Which of SQLite's verbs a phase makes do without.
WAYS = {
    "range": {"finds": False, "server_aggregation": False},
    "range without scans": {"finds": False, "server_aggregation": False, "scans": False},
    "scan": {"finds": False, "server_aggregation": False, "ranges": False},
    "ids": {"finds": False, "server_aggregation": False, "ranges": False, "scans": False},
}
CASES = [
    pytest.param(Target("sqlite"), "before", {}, id="sqlite"),
    pytest.param(Target("duckdb"), "after", {}, id="duckdb"),
    pytest.param(Target("chdb"), "after", {}, marks=pytest.mark.slow, id="chdb"),
    pytest.param(Target("parquet"), "none", {}, id="parquet"),
    pytest.param(Target("files"), "none", {}, id="files"),
    *(cell(target, "none", {}) for target in PARQUET),
    *(pytest.param(Target("sqlite"), "none", lacking, id=way) for way, lacking in WAYS.items()),
]


@pytest.mark.parametrize(("target", "index", "lacking"), CASES)
def test_answers_of_embedded_stores(target, index, lacking, tmp_path, parsed, documents, asked):
    cluster = embedded(target.name, tmp_path, parsed, index, **dict(target.settings))
    compare(cluster, replace(engine(target.name).flags, **lacking), asked, documents)
    ask_own_text(cluster, documents)


@pytest.mark.parametrize("target", cells(SINGLE))
def test_answers_of_servers(target, clusters, documents, asked):
    cluster = clusters.fresh(target)
    flags = engine(target.name).flags
    indexes = {"indexes": INDEXES, "index_time": "after"} if flags.secondary_indexes else {}
    fill(cluster, documents, Schema(**indexes), batch=1000)
    compare(cluster, flags, asked, documents)
    ask_own_text(cluster, documents)


def test_who_answers_follows_from_the_flags(asked):
    def ways(flags):
        found = [way_of(question.query, flags) for question in asked[: len(QUESTIONS)]]
        return [f"{way.answered_by} {way.by}" for way in found]

    able = replace(engine("sqlite").flags, finds=True)
    assert all(way.startswith("store ") for way in ways(able))
    expected = ["client range", "store range", "client range", "store aggregate", "client scan"]
    assert ways(replace(able, finds=False)) == expected
    least = replace(able, finds=False, ranges=False, scans=False, server_aggregation=False)
    assert set(ways(least)) == {"client ids"}
    assert all(way.startswith("client ") for way in ways(engine("files").flags))


def test_files_answer_all_verbs_as_sqlite_does(tmp_path, parsed, documents):
    ids = sorted(d["_id"] for d in documents[Kind.ALIGN])
    strong = (Where("e", "<=", 100.0), Where("f", "=", "f"))
    wanted = [ids[3], b"\x00" * 12, ids[-1], ids[3], documents[Kind.RNA][0]["_id"]]
    scans = [(b"\x00" * 12, 5), (ids[700], 4000), (ids[-2], 9), (ids[9], 0)]
    ranges = [
        (Where("e", ">=", 1e-9), Where("e", "<=", 1e-3)),
        (Where("e", "<=", 1e-5),),
        (Where("e", ">=", 1.0),),
        (),
    ]
    results = []
    for name in ("files", "sqlite"):
        (tmp_path / name).mkdir()
        with closing(connect(embedded(name, tmp_path / name, parsed, "none"), "read")) as client:
            results.append([
                *(client.count(Count(kind)) for kind in KINDS),
                client.count(Count(Kind.ALIGN, strong)),
                client.get_many(Kind.ALIGN, wanted),
                *(client.scan(Scan(Kind.ALIGN, *scan)) for scan in scans),
                *(client.find(Find(Kind.ALIGN, r, "e")) for r in ranges),
                *(client.find(Find(Kind.ALIGN, strong, name, 6)) for name in ("b", "gene")),
                len(client.find(Find(Kind.ALIGN, limit=3))),
                client.histogram(Histogram(Kind.GS, "l", 25.0)),
                client.histogram(Histogram(Kind.ALIGN, "b", 10.0)),
                client.top(Top(Kind.ALIGN, "chr", 4)),
            ])  # fmt: skip
    assert results[0] == results[1]


def test_files_know_only_what_was_inserted(tmp_path, parsed):
    source = SourceFile(str(FILES[0]), 10, content_digest(FILES[0]), (0, 0, 0, 0), 0)
    cluster = Cluster("files", stores=(tmp_path / "s",), sources=(source,))
    hits = parsed[0][Kind.ALIGN]
    with closing(connect(cluster, "write")) as client:
        client.create(Schema())
        assert client.count(Count(Kind.ALIGN)) == 0
        assert client.disk_bytes() == 0
        client.insert(Kind.ALIGN, hits[:100])
        assert client.count(Count(Kind.ALIGN)) == 100
        assert client.disk_bytes() == 10
        assert client.get(Kind.ALIGN, hits[99]["_id"]) == hits[99]
        assert client.get(Kind.ALIGN, hits[100]["_id"]) is None
        assert len(client.scan(Scan(Kind.ALIGN, b"\x00" * 12, 1000))) == 100
        with pytest.raises(EngineError, match="to no input file"):
            client.insert(Kind.ALIGN, parsed[1][Kind.ALIGN][:1])
        with pytest.raises(EngineError):
            client.update(Kind.ALIGN, hits[0]["_id"], {"e": 1.0})
    with pytest.raises(EngineError, match="closed"):
        client.count(Count(Kind.ALIGN))


def test_a_file_that_is_gone_is_named(tmp_path):
    source = SourceFile(str(tmp_path / "gone.m10"), 10, bytes(16), (1, 1, 1, 1), 0)
    cluster = Cluster("files", stores=(tmp_path,), sources=(source,))
    with closing(connect(cluster, "read")) as client, pytest.raises(EngineError, match="gone"):
        client.count(Count(Kind.ALIGN))


@pytest.fixture
def parsers():
    """The processes that engine `files` has started."""
    resource_tracker.ensure_running()  # it is a child, too
    before = set(psutil.Process().children())
    return lambda: set(psutil.Process().children()) - before


def test_parsers_end_by_themselves_when_a_client_is_closed(tmp_path, parsed, parsers):
    """One that the kernel ends at its queue keeps the lock; the next waits for ever."""
    with closing(connect(embedded("files", tmp_path, parsed, "none"), "read")) as client:
        client.count(Count(Kind.ALIGN))
        assert parsers()
    assert not parsers()


def test_a_parser_that_was_killed_is_said(tmp_path, parsed, parsers):
    with closing(connect(embedded("files", tmp_path, parsed, "none"), "read")) as client:
        client.find(Find(Kind.ALIGN, (Where("e", "<", 0.0),)))
        for process in parsers():
            with suppress(psutil.NoSuchProcess):
                process.kill()
            process.wait()
        with pytest.raises(EngineError, match="ended"):
            client.find(Find(Kind.ALIGN, (Where("e", "<", 0.0),)))
