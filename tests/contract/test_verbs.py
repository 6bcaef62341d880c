"""What every engine promises: the contract's verbs and the flags that it claims."""

import random
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import replace
from functools import cache

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from support.servers.samples import ByDigest, connect, digest_of, encoded, holds, load, sample
from support.servers.stores import KEEPING, SERVED, STANDIN, cells, marks_of

from storewise.documents import KINDS, Kind, fields, make_id
from storewise.engines.contract.engine import Client, Cluster, Schema
from storewise.engines.contract.queries import Count, Find, Scan, Top, Where
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


@pytest.fixture(scope="module", params=cells(KEEPING))
def target(request):
    """Of module scope, so that the tests of a store follow each other."""
    return request.param


@pytest.fixture
def store(target, clusters, tmp_path):
    """Embedded stores are new ones. Servers are shared by tests that write documents of their own
    (seeds), as some take seconds to make a table."""
    return clusters.shared(target, "usual") if target.nodes else target.embedded(tmp_path / "store")


@pytest.fixture
def fresh(target, clusters, tmp_path):
    """A cluster in which nothing was created."""
    return clusters.fresh(target) if target.nodes else target.embedded(tmp_path / "store")


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


def _same(client, kind, documents):
    return client.get_many(kind, [d["_id"] for d in documents]) == documents


def test_every_document_comes_back(reader):
    for kind in KINDS:
        assert holds(reader, kind, len(EVERY[kind]))
        assert _same(reader, kind, EVERY[kind])
        for document in random.Random(1).sample(EVERY[kind], 8):
            assert reader.get(kind, document["_id"]) == document
    # More ids than a statement takes.
    ids = [make_id(digest_of(0), Kind.RNA, n) for n in range(1200)]
    assert reader.get_many(Kind.RNA, ids) == [*FILES[0][Kind.RNA], *[None] * 1140]


def test_missing_and_repeated_ids(reader: Client) -> None:
    first, second = EVERY[Kind.ALIGN][0], EVERY[Kind.ALIGN][-1]
    near = make_id(digest_of(0), Kind.ALIGN, 60)
    assert reader.get(Kind.ALIGN, MISSING) is None
    assert reader.get(Kind.ALIGN, near) is None
    request = [second["_id"], MISSING, first["_id"], near, second["_id"]]
    assert reader.get_many(Kind.ALIGN, request) == [second, None, first, None, second]
    assert reader.get_many(Kind.ALIGN, []) == []


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


def test_a_writer_reads_what_it_wrote_in_any_form(target, store):
    """Written as Arrow batches (or BSON) and as dicts in turn, documents are read as dicts."""
    documents, name = sample(10, 60), target.name
    client = engine(name).connect(store, "write")
    client.create(Schema())
    for kind in KINDS:
        before, mine = _count(client, kind), documents[kind]
        batch, third = encoded(name, kind, mine), len(mine) // 3
        # Slices share the batch's columns.
        client.insert(kind, batch[:third])
        client.insert(kind, mine[third : 2 * third])
        client.insert(kind, batch[2 * third :])
        for nothing in ([], batch[:0]):
            client.insert(kind, nothing)
        assert holds(client, kind, before + len(mine))
        assert _same(client, kind, mine)
    client.finish()
    if engine(name).flags.scans:
        start = documents[Kind.RNA][0]["_id"]
        assert client.scan(Scan(Kind.RNA, start, 5)) == documents[Kind.RNA][:5]
    # After the end of a load another one may follow.
    before = _count(client, Kind.RNA)
    client.insert(Kind.RNA, sample(11, 60)[Kind.RNA])
    assert holds(client, Kind.RNA, before + 60)
    client.finish()
    assert holds(client, Kind.RNA, before + 60)
    client.close()


def test_every_flag_is_true(target, store, writer):
    _every_flag_is_true(store, writer, target.nodes)


def _every_flag_is_true(cluster, client, nodes=0):
    """A verb whose flag is off raises EngineError; one whose flag is on does not."""
    described = engine(cluster.engine)
    flags = described.flags
    documents = sample(12, 60)[Kind.ALIGN]
    client.insert(Kind.ALIGN, documents)
    first = documents[0]["_id"]
    for flag, verb in (
        ("updates", lambda: client.update(Kind.ALIGN, first, {"gene": "A"})),
        ("deletes", lambda: client.delete(Kind.ALIGN, first)),
        ("scans", lambda: client.scan(Scan(Kind.ALIGN, b"", 3))),
        ("ranges", lambda: client.find(Find(Kind.ALIGN, (Where("e", "<=", 1.0),)))),
        ("server_aggregation", lambda: client.top(Top(Kind.ALIGN, "gene", 3))),
    ):
        if getattr(flags, flag) or (flag in ("ranges", "server_aggregation") and flags.scans):
            verb()
        else:
            with pytest.raises(EngineError, match="flags"):
                verb()
    if flags.count == "none" and flags.stores:
        with pytest.raises(EngineError, match="flags"):
            client.count(Count(Kind.ALIGN))
    # With shards, the owner of an id is one of the nodes; a single server may not know it.
    names = {endpoint.name for endpoint in cluster.endpoints}
    assert client.owner(Kind.ALIGN, first) in (
        names if flags.owner and nodes > 1 else {None, *names}
    )
    assert list(described.consistencies)[:2] == ["durable", "relaxed"] or flags.external
    assert all(described.versions().values())


def test_a_closed_client_says_so(store):
    client = connect(store, "write")
    client.create(Schema())
    thread = client.open_thread()
    client.close()
    client.close()
    for closed in (client, thread):
        for verb, what in ((closed.insert, FILES[0][Kind.RNA]), (closed.get, MISSING)):
            with pytest.raises(EngineError):
                verb(Kind.RNA, what)


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


def test_threads_write_and_read_side_by_side(store, writer):
    files = [sample(seed, 60) for seed in range(13, 17)]
    before = {kind: _count(writer, kind) for kind in KINDS}

    def write(file):
        mine = writer.open_thread()
        for start in range(0, 60, 10):
            for kind in KINDS:
                mine.insert(kind, file[kind][start : start + 10])

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(write, files))
    writer.finish()
    writer.close()
    with closing(connect(store, "read")) as reader, ThreadPoolExecutor(4) as pool:

        def read(file):
            mine = reader.open_thread()
            return all(_same(mine, kind, file[kind]) for kind in KINDS)

        assert all(pool.map(read, files))
        for kind in KINDS:
            assert holds(reader, kind, before[kind] + sum(len(file[kind]) for file in files))


WRONG_VALUES = {"b": 1 << 70, "_id": None, "s": "\ud800"}


def _wrong_batches(name, documents):
    """Record batches that are no documents, with what is said of each."""
    good = encoded(name, Kind.RNA, documents)
    ids = pa.array([documents[0]["_id"], None, None], pa.binary(12))
    yield good.drop_columns(["s"]), r"ti \(fixed_size_binary\[12\]\); expected .*, s \(string\)"
    yield good.append_column("colour", pa.array(["red"] * 3)), r"colour \(string\); expected"
    yield good.append_column("s", good.column("s")), r"s \(string\); expected"
    yield good.select(good.schema.names[::-1]), "expected _id"
    place = good.schema.names.index("b")
    wrong = good.set_column(place, "b", pa.array(["1", "2", "3"]))
    yield wrong, r"b \(string\).* expected .*b \(int64\)"
    names = good.schema.names
    yield pa.RecordBatch.from_arrays([ids, *good.columns[1:]], names=names), "null in _id"


def test_what_is_no_document_of_the_kind_is_refused(target, writer):
    encoding, documents = engine(target.name).encoding, sample(17, 3)
    before = _count(writer, Kind.RNA)
    good, align = documents[Kind.RNA][0], documents[Kind.ALIGN][0]
    wrong = [
        ([good, {**good, "colour": "red"}], "rna.*unknown"),
        *(([{**good, name: value}], "") for name, value in WRONG_VALUES.items()),
    ]
    if encoding == "arrow":
        wrong += _wrong_batches(target.name, documents[Kind.RNA])
    for batch, words in wrong:
        with pytest.raises(EngineError, match=words):
            writer.insert(Kind.RNA, batch)
    # The embedded engines hold all that the next test makes.
    served = SERVED.get(target.server[0])
    if served is not None and not served.takes_nul:
        with pytest.raises(EngineError):
            writer.insert(Kind.RNA, [{**good, "s": "a\0b"}])
    if served is not None and not served.takes_infinity:
        with pytest.raises(EngineError):
            writer.insert(Kind.ALIGN, [{**align, "z": float("inf")}])
        assert writer.get(Kind.ALIGN, align["_id"]) is None
    # A refused batch leaves nothing behind (of several servers in the one that refuses), and the
    # next one goes in.
    assert holds(writer, Kind.RNA, before)
    assert writer.get(Kind.RNA, good["_id"]) is None
    writer.insert(Kind.RNA, encoded(target.name, Kind.RNA, documents[Kind.RNA]))
    assert _same(writer, Kind.RNA, documents[Kind.RNA])


def _value(field, texts, infinity):
    values = {
        "id": st.binary(min_size=12, max_size=12),
        "int": st.none() | st.integers(-(2**63), 2**63 - 1),
        "float": st.none() | st.floats(allow_nan=False, allow_infinity=infinity),
        "str": st.none() | texts,
    }
    return values[field.type]


def _documents(target, kind):
    served = SERVED.get(target.server[0])
    nul = [] if served is None or served.takes_nul else ["\0"]
    letters = st.characters(exclude_categories=["Cs"], exclude_characters=nul)
    texts = st.text(letters, max_size=40)
    infinity = served is None or served.takes_infinity
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


@pytest.mark.parametrize("consistency", ["durable", "relaxed"])
def test_an_id_is_overwritten_and_never_doubled(target, clusters, tmp_path, consistency):
    name, cluster = target.name, _indexed(target, clusters, tmp_path)
    cluster = replace(cluster, consistency=consistency)
    client = engine(name).connect(cluster, "write")
    client.create(_with_indexes(name))
    before = _count(client, Kind.ALIGN)
    old = sample(20 if consistency == "durable" else 21, 60)[Kind.ALIGN]
    gene = f"NEW {consistency}"
    new = [{**d, "gene": gene, "e": 0.5} for d in old[10:30]]
    # The last one of an id counts, within a batch, too: among new ids and those that exist.
    twice = [{**d, "gene": g} for g in ("A", None, "B") for d in (*old[:39:-1], *old[5:9])]
    client.insert(Kind.ALIGN, old[:50])
    client.insert(Kind.ALIGN, old[:20])
    client.insert(Kind.ALIGN, encoded(name, Kind.ALIGN, [*new, *old[45:50]]))
    client.insert(Kind.ALIGN, encoded(name, Kind.ALIGN, twice))
    client.insert(Kind.ALIGN, [{**old[40], "gene": "C"}, {**old[40], "gene": "D"}])
    client.finish()
    # And once more after the load was finished.
    again = {**old[41], "gene": "E"}
    client.insert(Kind.ALIGN, [again])
    expected = {d["_id"]: d for d in [*old, *new, *twice, {**old[40], "gene": "D"}, again]}
    assert holds(client, Kind.ALIGN, before + 60)
    client.finish()
    client.close()
    reader = connect(cluster, "read")
    assert holds(reader, Kind.ALIGN, before + 60)
    assert _same(reader, Kind.ALIGN, list(expected.values()))
    if engine(name).flags.scans:
        assert reader.scan(Scan(Kind.ALIGN, old[0]["_id"], 60)) == list(expected.values())
    if engine(name).flags.ranges:
        assert len(reader.find(Find(Kind.ALIGN, (Where("gene", "=", gene),)))) == 20
    reader.close()


def _indexed(target, clusters, tmp_path):
    """As `store`, for tables with indexes from the beginning."""
    return (
        clusters.shared(target, "indexed") if target.nodes else target.embedded(tmp_path / "store")
    )


def _with_indexes(name):
    """Indexes from the beginning, where there are such."""
    if not engine(name).flags.secondary_indexes:
        return Schema()
    return Schema(indexes=((Kind.ALIGN, "e"), (Kind.ALIGN, "gene")), index_time="before")


def test_update_and_delete_where_the_flags_allow(target, clusters, tmp_path):
    flags = engine(target.name).flags
    client = connect(_indexed(target, clusters, tmp_path), "write")
    client.create(_with_indexes(target.name))
    documents = sample(22, 60)
    before = _count(client, Kind.RNA)
    for kind in KINDS:
        client.insert(kind, documents[kind])
    document, task = documents[Kind.ALIGN][3], documents[Kind.TASKS][0]
    if flags.updates:
        changes = {"gene": "X", "z": None, "e": 0.25}
        assert client.update(Kind.ALIGN, document["_id"], changes) is not False
        changed = {**document, "gene": "X", "z": None, "e": 0.25}
        assert client.get(Kind.ALIGN, document["_id"]) == changed
        if flags.ranges:
            assert client.find(Find(Kind.ALIGN, (Where("gene", "=", "X"),))) == [changed]
        # A store that does not tell keeps what was set.
        assert not client.update(Kind.ALIGN, MISSING, {"gene": "X"})
        assert client.update(Kind.TASKS, task["_id"], {"q": "new"}) is not False
        assert client.get(Kind.TASKS, task["_id"]) == {**task, "q": "new"}
        assert not client.update(Kind.TASKS, MISSING, {"q": "new"})
        for changes in ({}, {"_id": MISSING}, {"nothing": 1}):
            with pytest.raises(EngineError):
                client.update(Kind.ALIGN, document["_id"], changes)
        with pytest.raises(EngineError, match="pg_ver"):
            client.update(Kind.TASKS, task["_id"], {"pg_ver": "37"})
    if flags.deletes:
        gone = documents[Kind.RNA][0]["_id"]
        assert client.delete(Kind.RNA, gone) and not client.delete(Kind.RNA, gone)
        assert client.get(Kind.RNA, gone) is None
        assert holds(client, Kind.RNA, before + 59)
    client.finish()
    client.close()


def test_only_the_kinds_and_fields_that_were_created(target, fresh):
    described = engine(fresh.engine)
    # Partitions by names need fields that the study has not.
    few = fresh.settings.get("partition", "hash") == "hash"
    documents = sample(7, 30, study_fields=few)
    kinds = tuple(kind for kind in KINDS if kind is not Kind.RNA)
    schema = Schema(kinds=kinds, study_fields=few)
    client = described.connect(fresh, "write")
    if not few:
        with pytest.raises(EngineError, match="no fields of the published study"):
            described.check_schema(fresh.settings, Schema(study_fields=True))
    with pytest.raises(EngineError, match="never created"):
        client.insert(Kind.ALIGN, documents[Kind.ALIGN])
    client.create(schema)
    with pytest.raises(EngineError, match="never created"):
        client.insert(Kind.RNA, documents[Kind.RNA])
    client.finish()
    client.close()
    # An empty store can be read.
    reader = connect(fresh, "read")
    assert holds(reader, Kind.ALIGN, 0)
    assert reader.get(Kind.ALIGN, MISSING) is None
    if described.flags.scans:
        assert reader.scan(Scan(Kind.ALIGN, b"", 9)) == []
    if described.flags.server_aggregation:
        assert reader.top(Top(Kind.ALIGN, "f", 9)) == []
    with pytest.raises(EngineError, match="never created"):
        reader.get(Kind.RNA, MISSING)
    reader.close()
    client = described.connect(fresh, "write")
    client.create(schema)
    for kind in kinds:
        client.insert(kind, encoded(target.name, kind, documents[kind], study_fields=few))
    if described.encoding == "arrow" and few:
        with pytest.raises(EngineError, match="has the columns"):
            more = encoded(target.name, Kind.ALIGN, sample(208, 3)[Kind.ALIGN])
            client.insert(Kind.ALIGN, more)
    client.finish()
    client.close()
    reader = connect(fresh, "read")
    for kind in kinds:
        assert holds(reader, kind, len(documents[kind]))
        assert _same(reader, kind, documents[kind])
    if described.flags.ranges and few:
        with pytest.raises(EngineError, match="no column 'gene'"):
            reader.find(Find(Kind.ALIGN, (Where("gene", ">=", "A"),)))
    reader.close()


@pytest.mark.parametrize("target", cells([*KEEPING, STANDIN]), indirect=True)
def test_a_second_create_with_another_schema_is_refused(target, fresh):
    """Else one client would read what another has written as something else."""
    if fresh.settings.get("partition", "hash") != "hash":
        return  # partitions by names need fields that the study has not
    with closing(engine(fresh.engine).connect(fresh, "write")) as client:
        client.create(Schema())
        client.create(Schema())
        with pytest.raises(EngineError, match=r"another schema|has the columns|study_fields"):
            client.create(Schema(study_fields=True))


def test_null_answers_without_looking(tmp_path):
    null, cluster = engine("null"), Cluster(engine="null", stores=(tmp_path,))
    client = null.connect(cluster, "write")
    client.create(Schema(indexes=((Kind.ALIGN, "e"),), index_time="after"))
    client.insert(Kind.RNA, FILES[0][Kind.RNA])
    client.finish()
    assert client.get_many(Kind.RNA, [MISSING] * 2) == [client.get(Kind.RNA, MISSING)] * 2
    assert client.get(Kind.RNA, MISSING) == {"_id": MISSING}
    assert len(client.scan(Scan(Kind.RNA, MISSING, 9))) == 9
    assert client.disk_bytes() == 0 and not null.flags.stores
    _every_flag_is_true(cluster, client)
    client.close()
