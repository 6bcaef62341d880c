"""What every engine promises: the contract's verbs and the flags that it claims."""

import random
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import cache

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from support.servers.samples import ByDigest, connect, digest_of, encoded, holds, load, sample
from support.servers.stores import KEEPING, SERVED, cells, marks_of

from storewise.documents import KINDS, Kind, fields, make_id
from storewise.engines.contract.engine import Client, Cluster, Schema
from storewise.engines.contract.queries import Count, Find, Scan, Top, between
from storewise.engines.registry import engine
from storewise.errors import EngineError

FILES = {seed: sample(seed, alignments=60) for seed in range(4)}
EVERY = {kind: [d for f in FILES.values() for d in f[kind]] for kind in KINDS}
MISSING = make_id(digest_of(99), Kind.ALIGN, 5)


@pytest.fixture(scope="module")
def loaded(tmp_path_factory):
    """All sample documents in one store, or in three of which the third holds two files."""

    @cache
    def make(target, layout):
        name, more = target.name, dict(target.settings)
        base = tmp_path_factory.mktemp(name)
        if layout == "one":
            return load(name, base / "store", EVERY, **more)
        stores = []
        for number, seeds in enumerate([(0,), (1,), (2, 3)]):
            # A quote and a space: paths are part of SQL texts.
            stores.append(base / f"it's store {number}")
            documents = {kind: [d for s in seeds for d in FILES[s][kind]] for kind in KINDS}
            load(name, stores[-1], documents, **more)
        placement = ByDigest({digest_of(seed)[:7]: min(seed, 2) for seed in FILES})
        return target.embedded(*stores, placement=placement)

    return make


@pytest.fixture(
    scope="module",
    params=[
        pytest.param((target, layout), marks=marks_of(target), id=f"{target}-{layout}")
        for target in KEEPING
        for layout in (["servers"] if target.nodes else ["one", "several", "unplaced"])
    ],
)
def reading(request):
    """What a reader reads; of module scope, so that the readers of a store follow each other."""
    return request.param


@pytest.fixture
def reader(reading, loaded, clusters):
    target, layout = reading
    if target.nodes:
        cluster = clusters.loaded(target, EVERY)
    else:
        cluster = loaded(target, "one" if layout == "one" else "several")
    if layout == "unplaced":
        cluster = replace(cluster, placement=None)
    client = connect(cluster, "read")
    yield client
    client.close()


def _denied(name, flag, verb):
    """Whether an engine's flags deny a verb, which then has to say so; a store that scans
    answers every query."""
    flags = engine(name).flags
    if getattr(flags, flag) or flags.scans:
        return False
    with pytest.raises(EngineError, match="flags"):
        verb()
    return True


@pytest.fixture(scope="module", params=cells(KEEPING))
def target(request):
    """Of module scope, so that the tests of a store follow each other."""
    return request.param


def _shared(target, clusters, tmp_path, what):
    """Embedded stores are new ones. Servers are shared by tests that write documents of their own
    (seeds), as some take seconds to make a table."""
    if target.nodes:
        return clusters.shared(target, what)
    return target.embedded(tmp_path / "store")


@pytest.fixture
def store(target, clusters, tmp_path):
    """For the usual tables."""
    return _shared(target, clusters, tmp_path, "usual")


@pytest.fixture
def indexed(target, clusters, tmp_path):
    """For tables with indexes from the beginning."""
    return _shared(target, clusters, tmp_path, "indexed")


@pytest.fixture
def fresh(target, clusters, tmp_path):
    """A cluster in which nothing was created."""
    if target.nodes:
        return clusters.fresh(target)
    return target.embedded(tmp_path / "store")


@pytest.fixture
def writer(store):
    client = connect(store, "write")
    client.create(Schema())
    yield client
    client.close()


def _count(client, kind):
    """What is there before; some engines cannot count, and then `holds` does not ask them."""
    try:
        return client.count(Count(kind))
    except EngineError as error:
        if "its flags say so" not in str(error):
            raise
        return 0


def test_every_document_comes_back(reader):
    for kind in KINDS:
        assert holds(reader, kind, len(EVERY[kind]))
        ids = [d["_id"] for d in EVERY[kind]]
        assert reader.get_many(kind, ids) == EVERY[kind]
        for document in random.Random(1).sample(EVERY[kind], 8):
            assert reader.get(kind, document["_id"]) == document


def test_missing_and_repeated_ids(reader: Client) -> None:
    first, second = EVERY[Kind.ALIGN][0], EVERY[Kind.ALIGN][-1]
    near = make_id(digest_of(0), Kind.ALIGN, 60)
    assert reader.get(Kind.ALIGN, MISSING) is None
    assert reader.get(Kind.ALIGN, near) is None
    request = [second["_id"], MISSING, first["_id"], near, second["_id"]]
    assert reader.get_many(Kind.ALIGN, request) == [second, None, first, None, second]
    assert reader.get_many(Kind.ALIGN, []) == []


def test_get_many_of_more_ids_than_a_statement_takes(reader):
    ids = [make_id(digest_of(0), Kind.RNA, n) for n in range(1200)]
    expected = {d["_id"]: d for d in FILES[0][Kind.RNA]}
    assert reader.get_many(Kind.RNA, ids) == [expected.get(i) for i in ids]


def test_scan_goes_in_the_order_of_ids(reading, reader):
    if _denied(reading[0].name, "scans", lambda: reader.scan(Scan(Kind.GS, b"", 5))):
        return
    ordered = sorted(EVERY[Kind.GS], key=lambda d: d["_id"])
    assert reader.scan(Scan(Kind.GS, b"", 1000)) == ordered
    assert reader.scan(Scan(Kind.GS, ordered[37]["_id"], 25)) == ordered[37:62]
    assert reader.scan(Scan(Kind.GS, ordered[-1]["_id"], 5)) == ordered[-1:]
    assert reader.scan(Scan(Kind.GS, b"", 0)) == []
    assert reader.scan(Scan(Kind.GS, b"\xff" * 12, 5)) == []


RANGES = [
    ("e", None, 1e-6),
    ("e", 1e-9, 1e-3),
    ("s_w", 500, None),
    ("gene", "GENE1", "GENE2"),
    ("chr", "x", None),
]


def test_a_range_is_what_a_look_at_all_gives(reading, reader):
    if _denied(reading[0].name, "ranges", lambda: reader.find(Find(Kind.ALIGN, between("e", 0)))):
        return
    for name, low, high in RANGES:
        expected = {
            d["_id"]: d
            for d in EVERY[Kind.ALIGN]
            if d[name] is not None
            and (low is None or d[name] >= low)
            and (high is None or d[name] <= high)
        }
        result = reader.find(Find(Kind.ALIGN, between(name, low, high)))
        assert len(result) == len(expected)
        assert {d["_id"]: d for d in result} == expected
        some = reader.find(Find(Kind.ALIGN, between(name, low, high), limit=7))
        assert len(some) == min(7, len(expected))
        assert all(expected[d["_id"]] == d for d in some)


def test_aggregates_count_values_most_frequent_first(reading, reader):
    ask = Top(Kind.ALIGN, "gene", 3)
    if _denied(reading[0].name, "server_aggregation", lambda: reader.top(ask)):
        return
    for name in ("gene", "chr", "o", "z", "ti"):
        counts = Counter(d[name] for d in EVERY[Kind.ALIGN] if d[name] is not None)
        expected = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
        assert reader.top(Top(Kind.ALIGN, name, 1000)) == expected
        assert reader.top(Top(Kind.ALIGN, name, 3)) == expected[:3]


def test_questions_about_unknown_fields_are_refused(reading, reader):
    flags = engine(reading[0].name).flags
    if flags.ranges:
        with pytest.raises(EngineError, match=r"no column 'genes'.*gene"):
            reader.find(Find(Kind.ALIGN, between("genes", "A", "B")))
        with pytest.raises(EngineError, match="type float"):
            reader.find(Find(Kind.ALIGN, between("e", "low", None)))
    if flags.server_aggregation:
        with pytest.raises(EngineError, match="no column 'params'"):
            reader.top(Top(Kind.TASKS, "params", 3))
    if flags.scans:
        with pytest.raises(EngineError, match="-1"):
            reader.scan(Scan(Kind.ALIGN, b"", -1))


def test_a_reader_does_not_write(reader):
    for change in (
        lambda: reader.create(Schema()),
        lambda: reader.insert(Kind.RNA, FILES[0][Kind.RNA]),
        reader.finish,
        lambda: reader.update(Kind.RNA, MISSING, {"b": 1}),
        lambda: reader.delete(Kind.RNA, MISSING),
    ):
        with pytest.raises(EngineError):
            change()


def test_a_writer_reads_what_it_wrote(target, writer):
    first, second = sample(10, 60), sample(11, 60)
    for kind in KINDS:
        before = _count(writer, kind)
        writer.insert(kind, first[kind])
        writer.insert(kind, [])
        assert holds(writer, kind, before + len(first[kind]))
        assert writer.get(kind, first[kind][-1]["_id"]) == first[kind][-1]
    writer.finish()
    if engine(target.name).flags.scans:
        assert writer.scan(Scan(Kind.RNA, first[Kind.RNA][0]["_id"], 5)) == first[Kind.RNA][:5]
    # After the end of a load another one may follow.
    before = _count(writer, Kind.RNA)
    writer.insert(Kind.RNA, second[Kind.RNA])
    assert holds(writer, Kind.RNA, before + 60)
    writer.finish()
    assert holds(writer, Kind.RNA, before + 60)


def test_every_flag_is_true(target, store, writer):
    _every_flag_is_true(store, writer)
    described = engine(target.name)
    flags = described.flags
    owner = writer.owner(Kind.ALIGN, sample(12, 60)[Kind.ALIGN][0]["_id"])
    if not flags.embedded:
        # A server without shards may know no owner; with shards it is one of the nodes.
        names = {f"{e.role}{e.index}" for e in store.endpoints}
        assert owner in names if flags.owner and target.nodes > 1 else owner in {None, *names}
    if not flags.embedded and not flags.external:
        assert list(described.consistencies)[:2] == ["durable", "relaxed"]


def _every_flag_is_true(cluster, client):
    """A verb whose flag is off raises EngineError; one whose flag is on does not."""
    described = engine(cluster.engine)
    flags = described.flags
    documents = sample(12, 60)[Kind.ALIGN]
    client.insert(Kind.ALIGN, documents)
    first = documents[0]["_id"]
    verbs = {
        "updates": lambda: client.update(Kind.ALIGN, first, {"gene": "A"}),
        "deletes": lambda: client.delete(Kind.ALIGN, first),
        "scans": lambda: client.scan(Scan(Kind.ALIGN, b"", 3)),
        "ranges": lambda: client.find(Find(Kind.ALIGN, between("e", 0.0, 1.0))),
        "server_aggregation": lambda: client.top(Top(Kind.ALIGN, "gene", 3)),
    }
    for flag, verb in verbs.items():
        if getattr(flags, flag) or (flag in ("ranges", "server_aggregation") and flags.scans):
            verb()
        else:
            with pytest.raises(EngineError, match="flags"):
                verb()
    if flags.count == "none" and flags.stores:
        with pytest.raises(EngineError, match="flags"):
            client.count(Count(Kind.ALIGN))
    if flags.embedded:
        assert client.owner(Kind.ALIGN, first) is None and not flags.owner
        assert not flags.replicas and not flags.authentication
        assert set(described.consistencies) == {"durable", "relaxed"}
    assert {"durable", "relaxed"} <= set(described.consistencies)
    assert described.losing <= set(described.consistencies)
    assert all(described.versions().values())
    assert all(isinstance(value, float) for value in client.status().values())


def test_a_closed_client_says_so(store):
    client = connect(store, "write")
    client.create(Schema())
    thread = client.for_thread()
    client.close()
    client.close()
    for closed in (client, thread):
        with pytest.raises(EngineError):
            closed.insert(Kind.RNA, FILES[0][Kind.RNA])
        with pytest.raises(EngineError):
            closed.get(Kind.RNA, MISSING)


def test_the_disk_is_counted(writer):
    writer.insert(Kind.RNA, sample(100, 60)[Kind.RNA])
    writer.finish()
    before = writer.disk_bytes()
    if before is None:
        return  # no client can know it
    # Texts that do not compress; some servers know whole MiB only.
    draw = random.Random(1)
    documents = [{**d, "s": draw.randbytes(20_000).hex()} for d in sample(101, 150)[Kind.RNA]]
    for start in range(0, len(documents), 10):
        writer.insert(Kind.RNA, documents[start : start + 10])
    writer.finish()
    after = writer.disk_bytes()
    assert after is not None
    assert 0 < before < after
    assert after - before > 1 << 20


def test_threads_write_and_read_side_by_side(store):
    client = connect(store, "write")
    client.create(Schema())
    files = [sample(seed, 60) for seed in range(13, 17)]
    before = {kind: _count(client, kind) for kind in KINDS}

    def write(file):
        mine = client.for_thread()
        for start in range(0, 60, 10):
            for kind in KINDS:
                mine.insert(kind, file[kind][start : start + 10])

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(write, files))
    client.finish()
    client.close()
    reader = connect(store, "read")

    def read(file):
        mine = reader.for_thread()
        return all(mine.get(k, d["_id"]) == d for k in KINDS for d in file[k][:20])

    with ThreadPoolExecutor(4) as pool:
        assert all(pool.map(read, files))
    for kind in KINDS:
        assert holds(reader, kind, before[kind] + sum(len(file[kind]) for file in files))
    reader.close()


def test_documents_with_other_fields_are_refused(target, writer):
    if engine(target.name).encoding == "bson":
        return  # its documents were checked when they were encoded
    good = sample(17, 1)[Kind.RNA][0]
    before = _count(writer, Kind.RNA)
    lacking = {key: value for key, value in good.items() if key != "s"}
    for wrong in (lacking, {**good, "colour": "red"}, {**lacking, "colour": "red"}):
        with pytest.raises(EngineError, match=r"rna.*(lacks|unknown)"):
            writer.insert(Kind.RNA, [good, wrong])
    with pytest.raises(EngineError):
        writer.insert(Kind.RNA, [{**good, "b": 1 << 70}])
    with pytest.raises(EngineError):
        writer.insert(Kind.RNA, [{**good, "_id": None}])
    with pytest.raises(EngineError):
        writer.insert(Kind.RNA, [{**good, "s": "\ud800"}])
    # A refused batch leaves nothing behind (of several servers in the one that refuses), and the
    # next one goes in.
    assert holds(writer, Kind.RNA, before)
    assert writer.get(Kind.RNA, good["_id"]) is None
    writer.insert(Kind.RNA, [good])
    assert writer.get(Kind.RNA, good["_id"]) == good


def _value(field, texts, infinity):
    values = {
        "id": st.binary(min_size=12, max_size=12),
        "int": st.none() | st.integers(-(2**63), 2**63 - 1),
        "float": st.none() | st.floats(allow_nan=False, allow_infinity=infinity),
        "str": st.none() | texts,
    }
    return values[field.type]


def _documents(target, kind):
    served = SERVED.get(target.name)
    options = dict(target.settings)
    nul = [] if served is None or served.takes_nul(options) else ["\0"]
    letters = st.characters(exclude_categories=["Cs"], exclude_characters=nul)
    texts = st.text(letters, max_size=40)
    infinity = served is None or served.takes_infinity(options)
    fixed = st.fixed_dictionaries({f.name: _value(f, texts, infinity) for f in fields(kind)})
    if kind is not Kind.TASKS:
        return st.lists(fixed, min_size=1, max_size=8, unique_by=lambda d: d["_id"])
    # The reader refuses lines with NUL, and BSON has no such names.
    names = texts.map(lambda text: text.replace("\0", ""))
    keys = st.builds("{}_{}".format, st.sampled_from(["pg", "mp"]), names)
    extra = st.dictionaries(keys, texts | st.none(), max_size=4)
    whole = st.builds(lambda a, b: {**a, **b}, fixed, extra)
    return st.lists(whole, min_size=1, max_size=8, unique_by=lambda d: d["_id"])


# Each example is a request of a store.
@settings(
    max_examples=max(5, settings.default.max_examples // 4),
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(data=st.data())
def test_any_document_comes_back_as_it_was(target, writer, data):
    kind = data.draw(st.sampled_from(list(KINDS)))
    documents = data.draw(_documents(target, kind))
    in_columns = engine(target.name).encoding == "arrow" and data.draw(st.booleans())
    writer.insert(kind, encoded(target.name, kind, documents) if in_columns else documents)
    assert writer.get_many(kind, [d["_id"] for d in documents]) == documents
    assert writer.get(kind, documents[0]["_id"]) == documents[0]


def test_what_cannot_be_held_is_refused(target, writer):
    served = SERVED.get(target.name)
    if served is None:
        return  # the embedded engines hold all of it (the test above)
    options = dict(target.settings)
    gs, align = (sample(18, 1)[kind][0] for kind in (Kind.GS, Kind.ALIGN))
    for kind, document, held in (
        (Kind.GS, {**gs, "seqid": "a\0b"}, served.takes_nul(options)),
        (Kind.ALIGN, {**align, "z": float("inf")}, served.takes_infinity(options)),
    ):
        if not held:
            with pytest.raises(EngineError):
                writer.insert(kind, [document])
            assert writer.get(kind, document["_id"]) is None


@pytest.mark.parametrize("consistency", ["durable", "relaxed"])
def test_an_id_is_overwritten_and_never_doubled(indexed, consistency):
    name = indexed.engine
    cluster = replace(indexed, consistency=consistency)
    client = connect(cluster, "write")
    client.create(_with_indexes(name))
    before = _count(client, Kind.ALIGN)
    old = sample(20 if consistency == "durable" else 21, 60)[Kind.ALIGN]
    new = [{**d, "gene": f"NEW {consistency}", "e": 0.5} for d in old[10:30]]
    client.insert(Kind.ALIGN, old)
    client.insert(Kind.ALIGN, old[:20])
    client.insert(Kind.ALIGN, new)
    # Once more inside one batch: the last one counts.
    client.insert(Kind.ALIGN, [{**old[40], "gene": "A"}, {**old[40], "gene": "B"}])
    expected = {d["_id"]: d for d in [*old, *new, {**old[40], "gene": "B"}]}
    assert holds(client, Kind.ALIGN, before + 60)
    client.finish()
    # And once more after the load was finished.
    again = {**old[41], "gene": "C"}
    client.insert(Kind.ALIGN, [again])
    expected[again["_id"]] = again
    client.finish()
    client.close()
    reader = connect(cluster, "read")
    assert holds(reader, Kind.ALIGN, before + 60)
    assert reader.get_many(Kind.ALIGN, list(expected)) == list(expected.values())
    if engine(name).flags.scans:
        assert reader.scan(Scan(Kind.ALIGN, old[0]["_id"], 60)) == list(expected.values())
    if engine(name).flags.ranges:
        gene = f"NEW {consistency}"
        assert len(reader.find(Find(Kind.ALIGN, between("gene", gene, gene)))) == 20
    reader.close()


def _with_indexes(name):
    """Indexes from the beginning, where there are such."""
    if not engine(name).flags.secondary_indexes:
        return Schema()
    return Schema(indexes=((Kind.ALIGN, "e"), (Kind.ALIGN, "gene")), index_time="before")


def test_update_and_delete_where_the_flags_allow(indexed):
    flags = engine(indexed.engine).flags
    client = connect(indexed, "write")
    client.create(_with_indexes(indexed.engine))
    documents = sample(22, 60)
    before = _count(client, Kind.RNA)
    for kind in KINDS:
        client.insert(kind, documents[kind])
    rna, document, task = documents[Kind.RNA][0], documents[Kind.ALIGN][3], documents[Kind.TASKS][0]
    if not flags.updates:
        with pytest.raises(EngineError, match="update"):
            client.update(Kind.ALIGN, document["_id"], {"gene": "X"})
    else:
        assert client.update(Kind.ALIGN, document["_id"], {"gene": "X", "z": None, "e": 0.25})
        changed = {**document, "gene": "X", "z": None, "e": 0.25}
        assert client.get(Kind.ALIGN, document["_id"]) == changed
        if flags.ranges:
            assert client.find(Find(Kind.ALIGN, between("gene", "X", "X"))) == [changed]
        assert not client.update(Kind.ALIGN, MISSING, {"gene": "X"})
        assert client.update(Kind.TASKS, task["_id"], {"q": "new", "pg_ver": "37", "pg_x": "y"})
        assert client.get(Kind.TASKS, task["_id"]) == {
            **task, "q": "new", "pg_ver": "37", "pg_x": "y"
        }  # fmt: skip
        assert not client.update(Kind.TASKS, MISSING, {"q": "new"})
        for changes in ({}, {"_id": MISSING}, {"nothing": 1}):
            with pytest.raises(EngineError):
                client.update(Kind.ALIGN, document["_id"], changes)
    if not flags.deletes:
        with pytest.raises(EngineError, match="delete"):
            client.delete(Kind.RNA, rna["_id"])
    else:
        assert client.delete(Kind.RNA, rna["_id"])
        assert not client.delete(Kind.RNA, rna["_id"])
        assert client.get(Kind.RNA, rna["_id"]) is None
        assert holds(client, Kind.RNA, before + 59)
    client.finish()
    client.close()


def test_only_the_kinds_and_fields_that_were_created(fresh):
    flags = engine(fresh.engine).flags
    # Partitions by names need fields that the study has not.
    few = fresh.settings.get("partition", "hash") == "hash"
    documents = sample(7, 30, study_fields=few)
    kinds = tuple(kind for kind in KINDS if kind is not Kind.RNA)
    client = connect(fresh, "write")
    with pytest.raises(EngineError, match="never created"):
        client.insert(Kind.ALIGN, documents[Kind.ALIGN])
    client.create(Schema(kinds=kinds, study_fields=few))
    with pytest.raises(EngineError, match="never created"):
        client.insert(Kind.RNA, documents[Kind.RNA])
    client.finish()
    client.close()
    # An empty store can be read.
    reader = connect(fresh, "read")
    assert holds(reader, Kind.ALIGN, 0)
    assert reader.get(Kind.ALIGN, MISSING) is None
    if flags.scans:
        assert reader.scan(Scan(Kind.ALIGN, b"", 9)) == []
    if flags.server_aggregation:
        assert reader.top(Top(Kind.ALIGN, "f", 9)) == []
    with pytest.raises(EngineError, match="never created"):
        reader.get(Kind.RNA, MISSING)
    reader.close()
    client = connect(fresh, "write")
    client.create(Schema(kinds=kinds, study_fields=few))
    for kind in kinds:
        client.insert(kind, documents[kind])
    client.finish()
    client.close()
    reader = connect(fresh, "read")
    for kind in kinds:
        assert holds(reader, kind, len(documents[kind]))
        assert reader.get_many(kind, [d["_id"] for d in documents[kind]]) == documents[kind]
    if flags.ranges and few:
        with pytest.raises(EngineError, match="no column 'gene'"):
            reader.find(Find(Kind.ALIGN, between("gene", "A", "Z")))
    reader.close()


def test_null_answers_without_looking(tmp_path):
    null = engine("null")
    client = null.connect(Cluster(engine="null", stores=(tmp_path,)), "write")
    client.create(Schema(indexes=((Kind.ALIGN, "e"),), index_time="after"))
    client.insert(Kind.RNA, FILES[0][Kind.RNA])
    client.finish()
    assert client.get(Kind.RNA, MISSING) == {"_id": MISSING}
    assert client.get_many(Kind.RNA, [MISSING, MISSING]) == [{"_id": MISSING}] * 2
    assert len(client.scan(Scan(Kind.RNA, MISSING, 9))) == 9
    assert client.disk_bytes() == 0
    _every_flag_is_true(Cluster(engine="null", stores=(tmp_path,)), client)
    assert not null.flags.stores and null.flags.count == "none"
    assert client.for_thread() is client
    client.close()
    client.close()
