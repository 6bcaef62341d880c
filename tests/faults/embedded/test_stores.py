"""What survives a crash, a full disk and a wrong cluster; what is left on disk after a load."""

import os
import signal
import subprocess
import sys
from concurrent.futures import ProcessPoolExecutor
from contextlib import ExitStack, closing, suppress
from functools import cache
from multiprocessing import get_context

import pytest
from support.paths import TESTS
from support.servers.samples import EMBEDDED, STORING, ByDigest, connect, load, sample

from storewise.documents import KINDS, Kind, make_id
from storewise.engines.contract.engine import Cluster, Schema
from storewise.engines.contract.queries import Count, Scan
from storewise.engines.registry import engine
from storewise.errors import EngineError

WRITER = TESTS / "support" / "servers" / "writer.py"
#: Levels at which acknowledged documents must outlive a killed process, by the engines' own words.
SURVIVING = [(n, "durable") for n in STORING] + [
    (n, "relaxed") for n in ("sqlite", "duckdb", "chdb")
]


#: What a store directory of engine `parquet` holds after a load.
DATA_SET = sorted(["dataset.json", "inputs", *(kind.table for kind in KINDS)])


def _names(directory):
    return sorted(path.name for path in directory.iterdir())


def _writing(name, consistency, directory):
    """A process that loads without end. Killed, it leaves DuckDB's temporary directory."""
    unfinished = directory.parent / f"{directory.name}.tmp"
    unfinished.mkdir(exist_ok=True)
    command = [sys.executable, str(WRITER), name, consistency, str(directory)]
    environment = {**os.environ, "TMPDIR": str(unfinished)}
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment)


def _killed_writer(name, consistency, directory, batches):
    """Run a writer, kill -9 it after `batches` acknowledged files; how many it acknowledged."""
    acknowledged = 0
    with _writing(name, consistency, directory) as process:
        assert process.stdout is not None
        for line in process.stdout:
            acknowledged = int(line) + 1
            if acknowledged == batches:
                process.kill()
        # What was in the pipe was acknowledged as well: the loop above has read it to its end.
    assert acknowledged >= batches
    return acknowledged


@pytest.mark.parametrize(("name", "consistency"), SURVIVING)
def test_acknowledged_documents_survive_a_kill_and_the_load_goes_on(name, consistency, tmp_path):
    acknowledged = _killed_writer(name, consistency, tmp_path, 15)
    with closing(connect(Cluster(name, stores=(tmp_path,)), "read")) as reader:
        for seed in range(acknowledged):
            for kind, documents in sample(seed, alignments=20).items():
                assert reader.get_many(kind, [d["_id"] for d in documents]) == documents
        # Of the file that was being written at most whole batches are there.
        counts = {kind: reader.count(Count(kind)) for kind in KINDS}
    for kind, count in counts.items():
        size = len(sample(0, alignments=20)[kind])
        assert count in (acknowledged * size, (acknowledged + 1) * size)
    # The load can be taken up again.
    last = sample(acknowledged - 1, alignments=20)
    with closing(connect(load(name, tmp_path, last), "read")) as reader:
        for kind, documents in last.items():
            assert reader.get_many(kind, [d["_id"] for d in documents]) == documents
            assert reader.count(Count(kind)) == counts[kind]


def test_relaxed_parquet_loses_only_what_it_says(tmp_path):
    acknowledged = _killed_writer("parquet", "relaxed", tmp_path, 15)
    # Nothing had filled a part: all is lost, and the store says so plainly instead of failing.
    assert acknowledged >= 15
    with closing(connect(Cluster("parquet", stores=(tmp_path,)), "read")) as reader:
        assert [reader.count(Count(kind)) for kind in KINDS] == [0, 0, 0, 0]


def test_what_a_killed_writer_had_not_finished_is_not_left(tmp_path):
    parts = tmp_path / ".load" / "0001" / Kind.TASKS.table
    parts.mkdir(parents=True)
    for place in (tmp_path, parts):
        (place / ".0000000001.parquet.host.1234.tmp").write_bytes(b"PAR1")
    load("parquet", tmp_path, sample(1, 10))
    assert _names(tmp_path) == DATA_SET


@pytest.mark.parametrize("network", [False, True])
@pytest.mark.parametrize("consistency", ["durable", "relaxed"])
@pytest.mark.parametrize("name", STORING)
def test_a_finished_store_is_complete_in_itself(name, consistency, network, tmp_path):
    cluster = Cluster(
        engine=name, stores=(tmp_path,), consistency=consistency, network_file_system=network
    )
    client = connect(cluster, "write")
    thread = client.open_thread()
    client.create(Schema())
    thread.insert(Kind.RNA, sample(1, 100)[Kind.RNA])
    if name == "sqlite":
        assert (tmp_path / "documents.sqlite-wal").exists() != network
    client.finish()
    client.close()
    expected = {
        "sqlite": ["documents.sqlite"],
        "duckdb": ["documents.duckdb"],
        "chdb": ["data", "schema.json"],
        "parquet": DATA_SET,
    }[name]
    assert _names(tmp_path) == expected


def _counted(name, directory):
    with closing(connect(Cluster(name, stores=(directory,)), "read")) as reader:
        return reader.count(Count(Kind.RNA))


@pytest.mark.parametrize("name", STORING)
def test_several_processes_read_at_once(name, tmp_path):
    cluster = load(name, tmp_path, sample(1, 50))
    with ExitStack() as stack, ProcessPoolExecutor(1, get_context("spawn")) as other:
        readers = [stack.enter_context(closing(connect(cluster, "read"))) for _ in range(2)]
        assert other.submit(_counted, name, tmp_path).result() == 50
        assert [reader.count(Count(Kind.GS)) for reader in readers] == [50, 50]


@cache
def _many(seed):
    """Made once for all tests: making them takes longer than storing them."""
    return sample(seed, 400)[Kind.RNA]


@pytest.mark.parametrize("name", STORING)
@pytest.mark.parametrize("consistency", ["durable", "relaxed"])
def test_a_full_disk_is_one_clear_error_and_corrupts_nothing(
    name, consistency, small_disk, monkeypatch
):
    monkeypatch.setattr("storewise.engines.parquet.client.BUFFERED_DOCUMENTS", 2000)
    # DuckDB grows by blocks of 256 KiB; the others fill a smaller disk sooner.
    disk = small_disk("6m" if name == "duckdb" else "3m")
    ballast = disk / "ballast"
    ballast.write_bytes(bytes(1 << 20))
    store = disk / "store"
    cluster = Cluster(engine=name, stores=(store,), consistency=consistency)
    client = connect(cluster, "write")
    client.create(Schema())
    acknowledged = []
    with pytest.raises(EngineError, match=r"(?i)full|space") as caught:
        for seed in range(10_000):
            client.insert(Kind.RNA, [dict(document) for document in _many(seed)])
            acknowledged.append(seed)
        client.finish()
    assert str(store) in str(caught.value)
    assert acknowledged
    # What has failed may fail once more when the client closes, but not in another way.
    with suppress(EngineError):
        client.close()
    ballast.unlink()
    reader = connect(cluster, "read")
    result = {d["_id"]: d for d in reader.scan(Scan(Kind.RNA, b"", 1_000_000))}
    assert len(result) == reader.count(Count(Kind.RNA))
    if (name, consistency) in SURVIVING:
        for seed in acknowledged:
            for document in _many(seed):
                assert result[document["_id"]] == document
    reader.close()


@pytest.mark.parametrize("name", STORING)
def test_a_disk_that_is_full_when_the_load_ends(name, small_disk):
    disk = small_disk("40m")
    store = disk / "store"
    cluster = Cluster(engine=name, stores=(store,))
    client = connect(cluster, "write")
    index = engine(name).flags.secondary_indexes
    client.create(
        Schema(indexes=((Kind.RNA, "s"),) if index else (), index_time="after" if index else "none")
    )
    documents = [d for seed in range(30) for d in sample(seed, 1000)[Kind.RNA]]
    for start in range(0, len(documents), 1000):
        client.insert(Kind.RNA, documents[start : start + 1000])
    ballast = disk / "ballast"
    with pytest.raises(OSError), ballast.open("wb", buffering=0) as file:
        while True:
            file.write(bytes(4096))
    with pytest.raises(EngineError, match=r"(?i)full|space"):
        client.finish()
    # Room again: the same client ends its load, or another one finds all documents.
    ballast.unlink()
    with suppress(EngineError):
        client.finish()
    client.close()
    reader = connect(cluster, "read")
    assert reader.count(Count(Kind.RNA)) == len(documents)
    assert reader.get(Kind.RNA, documents[-1]["_id"]) == documents[-1]
    reader.close()


@pytest.mark.parametrize("name", STORING)
def test_a_read_only_disk_is_one_clear_error(name, small_disk):
    store = small_disk("1m", "ro")
    for directory in (store, store / "new"):
        with pytest.raises(EngineError, match=str(store)):
            connect(Cluster(name, stores=(directory,)), "write")


@pytest.mark.parametrize("name", EMBEDDED)
def test_a_directory_that_cannot_be_made(name, tmp_path):
    (tmp_path / "file").write_text("in the way")
    cluster = Cluster(engine=name, stores=(tmp_path / "file" / "store",))
    with pytest.raises(EngineError, match=r"cannot make the store directory.*file"):
        connect(cluster, "write")


@pytest.mark.parametrize("name", STORING)
def test_a_store_that_is_not_there(name, tmp_path):
    with pytest.raises(EngineError, match="nothing was loaded"):
        connect(Cluster(name, stores=(tmp_path,)), "read")
    with pytest.raises(EngineError, match="is not a directory"):
        connect(Cluster(name, stores=(tmp_path / "none",)), "read")


@pytest.mark.parametrize(
    ("name", "file_name"),
    [
        ("sqlite", "documents.sqlite"),
        ("duckdb", "documents.duckdb"),
        ("parquet", "rna/part=00/0001-0.parquet"),
    ],
)
def test_a_damaged_file_is_named(name, file_name, tmp_path):
    cluster = load(name, tmp_path, sample(1, 50))
    path = tmp_path / file_name
    path.write_bytes(os.urandom(path.stat().st_size))
    with pytest.raises(EngineError, match=str(tmp_path)):
        connect(cluster, "read").get(Kind.RNA, b"x" * 12)


@pytest.mark.parametrize("name", EMBEDDED)
@pytest.mark.parametrize("mode", ["read", "write"])
def test_wrong_settings_are_refused_by_name(name, mode, tmp_path):
    cluster = Cluster(engine=name, stores=(tmp_path,), settings={"colour": 1})
    with pytest.raises(EngineError, match=r"colour.*known"):
        engine(name).connect(cluster, mode)


def test_an_index_on_no_field_is_refused(tmp_path):
    for name in STORING:
        schema = Schema(indexes=((Kind.ALIGN, "evalue"),), index_time="after")
        client = connect(Cluster(name, stores=(tmp_path / name,)), "write")
        with closing(client), pytest.raises(EngineError, match="no column 'evalue'"):
            client.create(schema)


def test_parts_left_by_a_crash_after_the_merge_do_not_count(tmp_path):
    old, new = sample(1, 10), sample(1, 10)
    for document in new[Kind.RNA]:
        document["s"] = "NEW"
    cluster = Cluster(engine="parquet", stores=(tmp_path,))
    client = connect(cluster, "write")
    client.create(Schema())
    client.insert(Kind.RNA, old[Kind.RNA])
    parts = tmp_path / ".load" / "0001" / "rna"
    stale = {path.name: path.read_bytes() for path in parts.iterdir()}
    client.insert(Kind.RNA, new[Kind.RNA])
    client.finish()
    client.close()
    # As if the parts had not been removed yet: the data set has taken them in.
    parts.mkdir(parents=True)
    for name, content in stale.items():
        (parts / name).write_bytes(content)
    with closing(connect(cluster, "read")) as reader:
        assert reader.scan(Scan(Kind.RNA, b"", 99)) == new[Kind.RNA]
    load("parquet", tmp_path, sample(2, 10))
    assert _names(tmp_path) == DATA_SET


#: Where a process that ends its load is killed: calls before which it is, and whether the load has
#: got as far as its journal.
MOMENTS = {
    "sorting": ("storewise.dataset.commits:Commit.write", 0, False),
    "committing": ("storewise.dataset.storage:Directory.put", 2, True),
    "naming the commit": ("storewise.dataset.storage:Directory.put_commit", 0, True),
    "removing parts": ("storewise.engines.parquet.store:Store.remove_parts", 0, True),
}
FINISHING = """
import os, signal, sys
from importlib import import_module
from pathlib import Path
from storewise.engines.contract.engine import Cluster, Schema
from storewise.engines.registry import engine

store, moment, calls = sys.argv[1:]
module, _, name = moment.partition(":")
owner, _, name = name.rpartition(".")
owner = getattr(import_module(module), owner)
before, left = getattr(owner, name), [int(calls)]

def watched(*arguments):
    if not left[0]:
        os.kill(os.getpid(), signal.SIGKILL)
    left[0] -= 1
    return before(*arguments)

setattr(owner, name, watched)
client = engine("parquet").connect(Cluster("parquet", stores=(Path(store),)), "write")
client.create(Schema())
client.finish()
"""


@pytest.mark.parametrize("moment", MOMENTS)
@pytest.mark.parametrize("again", [False, True])
def test_a_kill_at_the_end_of_a_load(moment, again, tmp_path):
    """Whoever reads then, or goes on, finds each document once. `again`: after another load."""
    place, calls, committed = MOMENTS[moment]
    cluster = Cluster(engine="parquet", stores=(tmp_path,))
    every = [sample(seed, 30) for seed in range(3)]
    if again:
        load("parquet", tmp_path, every[0])
    client = connect(cluster, "write")
    client.create(Schema())
    for documents in every:  # those of the load before once more
        for kind in KINDS:
            client.insert(kind, documents[kind])
    client.close()
    command = [sys.executable, "-c", FINISHING, str(tmp_path), place, str(calls)]
    done = subprocess.run(command, env={**os.environ, "TMPDIR": str(tmp_path.parent)})
    assert done.returncode == -signal.SIGKILL
    assert bool(list(tmp_path.glob(".work/whole/*.commit"))) == (
        committed and moment != "removing parts"
    )

    def check(mode):
        client = connect(cluster, mode)
        if mode == "write":
            client.create(Schema())
        for kind in KINDS:
            documents = [d for some in every for d in some[kind]]
            assert client.count(Count(kind)) == len(documents)
            assert client.get_many(kind, [d["_id"] for d in documents]) == documents
        if mode == "write":
            client.finish()
        client.close()

    modes = ["read", "write", "read"]
    for mode in modes:
        check(mode)
    assert _names(tmp_path) == DATA_SET
    files = list(tmp_path.glob("*/part=*/*.parquet"))
    assert len(files) == len(KINDS) and len(list((tmp_path / "inputs").iterdir())) == 1


def test_a_store_that_another_process_writes_is_refused(tmp_path):
    with _writing("duckdb", "durable", tmp_path) as process:
        process.stdout.readline()
        for mode in ("read", "write"):
            with pytest.raises(EngineError, match=r"documents\.duckdb.*lock"):
                connect(Cluster("duckdb", stores=(tmp_path,)), mode)
        process.kill()


@pytest.mark.parametrize(
    ("module", "unwanted"),
    [
        ("null", ("pandas", "numpy", "pyarrow", "duckdb", "sqlite3")),
        ("sqlite.engine", ("pandas", "numpy", "pyarrow", "duckdb")),
        ("duckdb.engine", ("pandas", "pyarrow", "sqlite3")),
        ("parquet.engine", ("pandas", "pyarrow", "sqlite3")),
        ("chdb.engine", ("pandas", "pyarrow", "chdb", "duckdb", "sqlite3")),
    ],
)
def test_imports_stay_light(module, unwanted):
    code = f"import sys, storewise.engines.{module}; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert not set(unwanted) & set(done.stdout.split())


def test_an_id_of_no_placement_is_missing(tmp_path):
    for name in STORING:
        stores = (tmp_path / name / "a", tmp_path / name / "b")
        for number, store in enumerate(stores):
            load(name, store, sample(number, 10))
        cluster = Cluster(engine=name, stores=stores, placement=ByDigest({}))
        ids = [sample(0, 10)[Kind.RNA][0]["_id"], make_id(b"z" * 7, Kind.RNA, 1)]
        with closing(connect(cluster, "read")) as reader:
            assert reader.get(Kind.RNA, ids[0]) is None
            assert reader.get_many(Kind.RNA, ids) == [None, None]
