"""Engine `parquet` and data sets: what it has loaded is one, and it reads those of `convert`."""

import errno
import shutil

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from support.inputs.datasets import check_order, expected, files_of, stored
from support.paths import DATA, SAMPLE

from storewise.dataset.conversion import Options, convert
from storewise.dataset.home import home_of
from storewise.dataset.settings import Wanted
from storewise.documents import KINDS, Kind
from storewise.engines.contract.engine import Cluster, Schema
from storewise.engines.contract.queries import Count, Find, Histogram, Scan, Top, Where
from storewise.engines.registry import engine
from storewise.errors import EngineError, StorewiseError
from storewise.ssearch.parse.reader import DocumentReader
from storewise.ssearch.parse.stream import content_digest

ENGINE = engine("parquet")
SMALLEST = sorted(SAMPLE.glob("*.m10*"), key=lambda path: path.stat().st_size)[:4]
INPUTS = [
    *sorted(map(str, SMALLEST)),
    *(str(DATA / name) for name in ("ssearch36.m10", "ssearch36_nohits.m10", "tfastx36.m10")),
]
LAYOUTS = [("hash", None), ("query", None), ("library", None), ("query", "id"), ("hash", "library")]
READERS = ["duckdb", "pyarrow"]


def insert(client, paths):
    for path in paths:
        reader = DocumentReader(
            path, content_digest(path), encoding="arrow", alignments_per_batch=100
        )
        for batch in reader:
            for kind, part in batch:
                client.insert(kind, part)


def load(directory, paths=INPUTS, **settings):
    cluster = Cluster("parquet", stores=(directory,), settings=settings)
    client = ENGINE.connect(cluster, "write")
    client.create(Schema())
    insert(client, paths)
    client.finish()
    client.close()
    return cluster


def converted(directory, **wanted):
    convert(INPUTS, home_of(directory), Options(Wanted(**wanted)))
    return directory


def rows_of(root):
    """The rows of each partition in their order, without what depends on how they were written."""
    result = {}
    for kind in KINDS:
        for path in files_of(root, kind):
            name = path.parent.relative_to(root).as_posix()
            result.setdefault(name, []).append(pq.ParquetFile(path).read())
    joined = {name: pa.concat_tables(tables) for name, tables in result.items()}
    return {name: rows for name, rows in joined.items() if len(rows)}


@pytest.mark.parametrize(("partition", "sort"), LAYOUTS)
def test_what_was_loaded_is_what_convert_writes(tmp_path, partition, sort):
    root = tmp_path / "store"
    load(root, partition=partition, sort=sort, partitions=4)
    assert stored(root) == expected(INPUTS)
    check_order(root, partition, sort)
    other = converted(tmp_path / "set", by=partition, sort=sort, partitions=4)
    assert rows_of(root) == rows_of(other)
    assert not (root / ".work").exists() and not (root / ".load").exists()
    (path, *_) = files_of(root, Kind.ALIGN)
    group = pq.ParquetFile(path).metadata.row_group(0)
    # The library is no column of an alignment.
    assert bool(group.sorting_columns) == ("library" not in (partition, sort))
    assert group.column(0).has_offset_index and group.column(0).statistics is not None


@pytest.mark.parametrize("reader", READERS)
@pytest.mark.parametrize(("partition", "sort"), LAYOUTS[:3])
def test_a_converted_data_set_is_a_store(tmp_path, partition, sort, reader):
    root = converted(tmp_path / "set", by=partition, sort=sort, partitions=4)
    cluster = Cluster("parquet", stores=(root,), settings={"reader": reader})
    client = ENGINE.connect(cluster, "read")
    for kind, documents in expected(INPUTS).items():
        assert client.count(Count(kind)) == len(documents)
        ids = sorted(documents)
        assert client.get_many(kind, ids) == [documents[i] for i in ids]
        assert client.get(kind, ids[len(ids) // 2]) == documents[ids[len(ids) // 2]]
        assert client.scan(Scan(kind, ids[3], 20)) == [documents[i] for i in ids[3:23]]
    client.close()


def test_a_data_set_without_alignments_is_a_store(tmp_path):
    convert([str(DATA / "ssearch36_scores.m10")], home_of(tmp_path / "set"), Options())
    client = ENGINE.connect(Cluster("parquet", stores=(tmp_path / "set",)), "read")
    assert client.count(Count(Kind.TASKS)) > 0
    assert client.count(Count(Kind.ALIGN)) == 0
    assert client.get(Kind.ALIGN, b"x" * 12) is None
    assert client.top(Top(Kind.ALIGN, "gene", 3)) == []
    client.close()


def test_partitions_that_cannot_have_an_answer_are_not_opened(tmp_path):
    hits = list(expected(INPUTS)[Kind.ALIGN].values())
    query, document_id = hits[0]["q"], hits[0]["_id"]
    for partition, where, few in (
        ("query", Where("q", "=", query), True),
        ("query", Where("q", ">=", query), False),
        ("query", Where("_id", "=", document_id), False),
        ("hash", Where("_id", "=", document_id), True),
        ("hash", Where("q", "=", query), False),
    ):
        root = tmp_path / partition
        cluster = Cluster("parquet", stores=(root,), settings={"partition": partition})
        if not root.exists():
            load(root, partition=partition, partitions=4)
        client = ENGINE.connect(cluster, "read")
        matching = [d for d in hits if where.field != "q" or d["q"] == query]
        for question in (
            Count(Kind.ALIGN, (where,)),
            Find(Kind.ALIGN, (where,)),
            Histogram(Kind.ALIGN, "b", 10.0, (where,)),
        ):
            ((_, sql, _),) = client._requests(question)
            assert (sql.count("part=") == 1) == few, (partition, where)
        if where.op == "=" and where.field == "q":
            assert client.count(Count(Kind.ALIGN, (where,))) == len(matching)
        ((_, sql, _),) = client._requests(Scan(Kind.ALIGN, b"", 3))
        assert sql.count("part=") > 1
        get = client._get_sql
        asked = get[Kind.ALIGN, client._router.stores_of(document_id)[0]]
        assert (asked.count("part=") == 1) == (partition == "hash")
        client.close()


def test_a_later_load_goes_into_the_same_files(tmp_path):
    root = tmp_path / "store"
    load(root, INPUTS[:5], partitions=2)
    before = files_of(root, Kind.RNA)
    cluster = load(root, INPUTS[4:], partitions=2)
    assert stored(root) == expected(INPUTS)
    check_order(root, "hash")
    assert not set(before) & set(files_of(root, Kind.RNA))
    assert [path.name for path in (root / "inputs").iterdir()] == ["0002.parquet"]
    # Who inserts nothing changes nothing.
    files = files_of(root, Kind.RNA)
    load(root, [], partitions=2)
    assert files_of(root, Kind.RNA) == files
    client = ENGINE.connect(cluster, "read")
    assert client.count(Count(Kind.ALIGN)) == len(expected(INPUTS)[Kind.ALIGN])
    client.close()


def test_partitions_follow_from_what_was_loaded(tmp_path):
    load(tmp_path / "one")
    assert {path.parent.name for path in files_of(tmp_path / "one", Kind.RNA)} == {"part=00"}
    load(tmp_path / "many", target_size="20kB")
    assert len({path.parent.name for path in files_of(tmp_path / "many", Kind.RNA)}) > 1
    assert stored(tmp_path / "many") == expected(INPUTS)


def test_convert_leaves_a_store_alone(tmp_path):
    root = tmp_path / "store"
    client = ENGINE.connect(Cluster("parquet", stores=(root,)), "write")
    client.create(Schema())
    insert(client, INPUTS[:1])
    with pytest.raises(StorewiseError, match="a load that has not ended"):
        convert(INPUTS, home_of(root), Options(update=True))
    client.finish()
    client.close()
    with pytest.raises(StorewiseError, match="no list of their inputs"):
        convert(INPUTS, home_of(root), Options(update=True))
    assert stored(root) == expected(INPUTS[:1])


def test_a_place_elsewhere(tmp_path):
    place, store = tmp_path / "disk", tmp_path / "trial" / "store.0" / "p0"
    cluster = load(store, place=str(place))
    (root,) = place.iterdir()
    assert stored(root) == expected(INPUTS)
    assert [path.name for path in store.iterdir()] == ["place.json"]
    client = ENGINE.connect(cluster, "read")
    assert client.count(Count(Kind.GS)) == len(expected(INPUTS)[Kind.GS])
    assert (client.disk_bytes() or 0) > sum(f.stat().st_size for f in files_of(root, Kind.GS))
    client.close()
    # The job that made the store was killed: its directory is gone, what it wrote there is not.
    shutil.rmtree(store)
    load(store, INPUTS[:2], place=str(place))
    assert stored(root) == expected(INPUTS[:2])
    ENGINE.remove(cluster)
    assert list(place.iterdir()) == []


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"target_size": "big"}, "'big' is no size"),
        ({"partition": "gene"}, "partition"),
        ({"partitions": 300}, "partitions"),
        ({"reader": "duckdb", "place": "s3://bucket/x"}, "use `reader: pyarrow`"),
    ],
)
def test_wrong_settings_are_named(tmp_path, settings, words):
    with pytest.raises(EngineError, match=words):
        ENGINE.connect(Cluster("parquet", stores=(tmp_path,), settings=settings), "write")


def test_a_file_system_without_locks(tmp_path, monkeypatch):
    def flock(*_):
        raise OSError(errno.ENOSYS, "Function not implemented")

    monkeypatch.setattr("fcntl.flock", flock)
    load(tmp_path / "store", INPUTS[:2])
    assert stored(tmp_path / "store") == expected(INPUTS[:2])
    with pytest.raises(StorewiseError, match="Function not implemented"):
        convert(INPUTS, home_of(tmp_path / "set"), Options())


def test_other_settings_than_a_data_set_has_are_refused(tmp_path):
    load(tmp_path / "store", INPUTS[:1], partition="query")
    with pytest.raises(EngineError, match="was made with by = query, and hash is asked for"):
        load(tmp_path / "store", INPUTS[1:2])
