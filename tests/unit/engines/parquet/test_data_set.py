"""Engine `parquet` and data sets: what it has loaded is one, and it reads those of `convert`."""

import errno
import json
import shutil
from contextlib import closing

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from support.inputs.datasets import check_order, expected, files_of, stored
from support.paths import DATA, SAMPLE

from storewise.dataset.conversion import Options, convert
from storewise.dataset.settings import Wanted
from storewise.dataset.storage import storage_of
from storewise.documents import KINDS, Kind
from storewise.engines.contract.engine import Cluster, Schema
from storewise.engines.contract.queries import Count, Find, Histogram, Scan, Top, Where
from storewise.engines.registry import engine
from storewise.errors import EngineError, StorewiseError
from storewise.ssearch.parse.stream import content_digest
from storewise.ssearch.reader import DocumentReader

ENGINE = engine("parquet")
SMALLEST = sorted(SAMPLE.glob("*.m10*"), key=lambda path: path.stat().st_size)[:4]
INPUTS = [
    *sorted(map(str, SMALLEST)),
    *(str(DATA / name) for name in ("ssearch36.m10", "ssearch36_nohits.m10", "tfastx36.m10")),
]
PARTITIONS = ["hash", "query", "library"]


def insert(client, paths):
    for path in paths:
        reader = DocumentReader(
            path, content_digest(path), encoding="arrow", alignments_per_batch=100
        )
        for batch in reader:
            for kind, part in batch:
                client.insert(kind, part)


def connect(root, mode="read", **settings):
    cluster = Cluster("parquet", stores=(root,), settings=settings)
    client = ENGINE.connect(cluster, mode)
    if mode == "write":
        client.create(Schema())
    return closing(client)


def load(root, paths=INPUTS, **settings):
    with connect(root, "write", **settings) as client:
        insert(client, paths)
        client.finish()


def converted(directory, paths=INPUTS, **wanted):
    convert([str(path) for path in paths], storage_of(directory), Options(Wanted(**wanted)))
    return directory


def rows_of(root):
    """The rows of each partition in their order, without what depends on how they were written."""
    result = {}
    for kind in KINDS:
        for path in files_of(root, kind):
            name = path.parent.relative_to(root).as_posix()
            result.setdefault(name, []).append(pq.ParquetFile(path).read())
    joined = {name: pa.concat_tables(tables) for name, tables in result.items()}
    return {name: rows.to_pylist() for name, rows in joined.items() if len(rows)}


@pytest.mark.parametrize("partition", PARTITIONS)
def test_what_was_loaded_is_what_convert_writes(tmp_path, partition):
    root = tmp_path / "store"
    load(root, partition=partition, partitions=4)
    assert stored(root) == expected(INPUTS)
    check_order(root, partition)
    other = converted(tmp_path / "set", by=partition, partitions=4)
    assert rows_of(root) == rows_of(other)
    assert not (root / ".work").exists() and not (root / ".load").exists()
    (path, *_) = files_of(root, Kind.ALIGN)
    assert pq.ParquetFile(path).metadata.row_group(0).column(0).statistics is not None


@pytest.mark.parametrize("reader", ["duckdb", "pyarrow"])
@pytest.mark.parametrize("partition", PARTITIONS)
def test_a_converted_data_set_is_a_store(tmp_path, partition, reader):
    root = converted(tmp_path / "set", by=partition, partitions=4)
    with connect(root, reader=reader) as client:
        for kind, documents in expected(INPUTS).items():
            assert client.count(Count(kind)) == len(documents)
            ids = sorted(documents)
            assert client.get_many(kind, ids) == [documents[i] for i in ids]
            assert client.get(kind, ids[len(ids) // 2]) == documents[ids[len(ids) // 2]]
            assert client.scan(Scan(kind, ids[3], 20)) == [documents[i] for i in ids[3:23]]


def test_a_data_set_without_alignments_is_a_store(tmp_path):
    with connect(converted(tmp_path / "set", [DATA / "ssearch36_scores.m10"])) as client:
        assert client.count(Count(Kind.TASKS)) > 0
        assert client.count(Count(Kind.ALIGN)) == 0
        assert client.get(Kind.ALIGN, b"x" * 12) is None
        assert client.top(Top(Kind.ALIGN, "gene", 3)) == []


@pytest.mark.parametrize("partition", ["query", "hash"])
def test_partitions_that_cannot_have_an_answer_are_not_opened(tmp_path, partition):
    load(tmp_path, partition=partition, partitions=4)
    hits = list(expected(INPUTS)[Kind.ALIGN].values())
    query, document_id = hits[0]["q"], hits[0]["_id"]
    same = Where("q", "=", query)

    def answered(ask, *question):
        try:
            return ask(*question) is not None
        except EngineError:
            return False

    with connect(tmp_path, partition=partition) as client:
        assert client.count(Count(Kind.ALIGN, (same,))) == sum(d["q"] == query for d in hits)
        # Only the partition of this document can still be read.
        for path in files_of(tmp_path, Kind.ALIGN):
            if document_id not in pq.read_table(path)["_id"].to_pylist():
                path.write_bytes(b"damaged")
        for where, few in (
            (same, partition == "query"),
            (Where("q", ">=", query), False),
            (Where("_id", "=", document_id), partition == "hash"),
        ):
            assert answered(client.count, Count(Kind.ALIGN, (where,))) == few, where
            assert answered(client.find, Find(Kind.ALIGN, (where,))) == few, where
        assert not answered(client.histogram, Histogram(Kind.ALIGN, "b", 10.0))
        assert not answered(client.scan, Scan(Kind.ALIGN, b"", 3))
        assert answered(client.get, Kind.ALIGN, document_id) == (partition == "hash")


def test_a_later_load_goes_into_the_same_files(tmp_path):
    root = tmp_path / "store"
    load(root, INPUTS[:5], partitions=2)
    before = files_of(root, Kind.RNA)
    load(root, INPUTS[4:], partitions=2)
    assert stored(root) == expected(INPUTS)
    check_order(root, "hash")
    assert not set(before) & set(files_of(root, Kind.RNA))
    assert [path.name for path in (root / "inputs").iterdir()] == ["0002.parquet"]
    # Who inserts nothing changes nothing.
    files = files_of(root, Kind.RNA)
    load(root, [], partitions=2)
    assert files_of(root, Kind.RNA) == files
    with connect(root, partitions=2) as client:
        assert client.count(Count(Kind.ALIGN)) == len(expected(INPUTS)[Kind.ALIGN])
    with pytest.raises(EngineError, match="was made with by = hash, and query is asked for"):
        load(root, INPUTS[1:2], partition="query")


def test_partitions_follow_from_what_was_loaded(tmp_path, monkeypatch):
    load(tmp_path / "one")
    assert {path.parent.name for path in files_of(tmp_path / "one", Kind.RNA)} == {"part=00"}
    monkeypatch.setattr("storewise.dataset.settings.USUAL_PARTITIONS", 3)
    monkeypatch.setattr("storewise.dataset.settings.SHARE_OF_TEXT", 1e9)
    load(tmp_path / "many")
    assert len({path.parent.name for path in files_of(tmp_path / "many", Kind.RNA)}) > 1
    assert stored(tmp_path / "many") == expected(INPUTS)


def test_convert_leaves_a_store_alone(tmp_path):
    root = tmp_path / "store"
    with connect(root, "write") as client:
        insert(client, INPUTS[:1])
        with pytest.raises(StorewiseError, match="a load that has not ended"):
            convert(INPUTS, storage_of(root), Options(update=True))
        client.finish()
    with pytest.raises(StorewiseError, match="no list of their inputs"):
        convert(INPUTS, storage_of(root), Options(update=True))
    assert stored(root) == expected(INPUTS[:1])


def test_a_place_elsewhere(tmp_path):
    place, store = tmp_path / "disk", tmp_path / "trial" / "store.0" / "p0"
    load(store, place=str(place))
    (root,) = place.iterdir()
    assert stored(root) == expected(INPUTS)
    assert [path.name for path in store.iterdir()] == ["place.json"]
    with connect(store, place=str(place)) as client:
        assert client.count(Count(Kind.GS)) == len(expected(INPUTS)[Kind.GS])
        assert (client.disk_bytes() or 0) > sum(f.stat().st_size for f in files_of(root, Kind.GS))
    # The job that made the store was killed: its directory is gone, what it wrote there is not.
    shutil.rmtree(store)
    load(store, INPUTS[:2], place=str(place))
    assert stored(root) == expected(INPUTS[:2])
    ours = (store / "place.json").read_text()
    (tmp_path / "storage").mkdir()
    (store / "place.json").write_text(json.dumps({"place": str(tmp_path / "storage")}))
    with pytest.raises(EngineError, match=r"storage, which place\.json names, is not"):
        ENGINE.remove(Cluster("parquet", stores=(store,), settings={"place": str(place)}))
    assert (tmp_path / "storage").is_dir()
    (store / "place.json").write_text(ours)
    ENGINE.remove(Cluster("parquet", stores=(store,), settings={"place": str(place)}))
    assert list(place.iterdir()) == []


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"partition": "gene"}, "partition"),
        ({"partitions": 300}, "partitions"),
        ({"reader": "duckdb", "place": "s3://bucket/x"}, "use `reader: pyarrow`"),
    ],
)
def test_wrong_settings_are_named(tmp_path, settings, words):
    with pytest.raises(EngineError, match=words):
        connect(tmp_path, "write", **settings)


def test_a_file_system_without_locks(tmp_path, monkeypatch):
    def flock(*_):
        raise OSError(errno.ENOSYS, "Function not implemented")

    monkeypatch.setattr("fcntl.flock", flock)
    load(tmp_path / "store", INPUTS[:2])
    assert stored(tmp_path / "store") == expected(INPUTS[:2])
    with pytest.raises(StorewiseError, match="Function not implemented"):
        convert(INPUTS, storage_of(tmp_path / "set"), Options())
