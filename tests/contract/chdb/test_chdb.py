"""ClickHouse in the client's process: what only this engine does."""

import os
import subprocess
import sys

import pytest
from support.servers.samples import connect, load, sample

from storewise.documents import Kind
from storewise.engines.chdb import engine as chdb_engine
from storewise.engines.chdb.settings import ChdbSettings
from storewise.engines.contract.engine import Cluster, Schema
from storewise.engines.contract.queries import Count, Find, Where
from storewise.engines.registry import engine
from storewise.engines.support import installation
from storewise.errors import EngineError

pytestmark = pytest.mark.slow
HARD = ("it's", "\\", "\\' OR 1 = 1 --", "'); DROP TABLE gs; --", "?", "{x:String}", "\0\n\t", "")
START = """
import os, signal, sys
from pathlib import Path
from storewise.engines.contract.engine import Cluster, Schema
from storewise.engines.registry import engine
from storewise.engines.support import installation

cluster, described = Cluster("chdb", stores=(Path(sys.argv[1]),)), engine("chdb")
before = signal.pthread_sigmask(signal.SIG_BLOCK, ())
client = described.connect(cluster, "write")
"""
FORKED = """
client.create(Schema())
child = os.fork()
if not child:
    try:
        described.connect(cluster, "read")
    except Exception as error:
        print(error, flush=True)
    os._exit(0)
os.waitpid(child, 0)
client.close()
"""
SIGNALS = """
print(before == signal.pthread_sigmask(signal.SIG_BLOCK, ()))
caught = next(l for l in Path("/proc/self/status").read_text().splitlines() if "SigCgt" in l)
print(*(bool(int(caught.split()[1], 16) >> s - 1 & 1) for s in (signal.SIGTERM, signal.SIGTSTP)))
"""


@pytest.fixture
def clickhouse():
    """Another connection to the ClickHouse of this process."""
    from storewise.engines.chdb.connection import Connection

    connection = Connection(ChdbSettings())
    yield connection
    connection.close()


def _writer(directory, schema=None, **more):
    client = connect(Cluster("chdb", stores=(directory,), **more), "write")
    client.create(schema or Schema())
    return client


def test_texts_are_values_and_nothing_else(tmp_path):
    documents = sample(1, len(HARD))[Kind.GS]
    for document, text in zip(documents, HARD, strict=True):
        document["seqid"] = text
    client = _writer(tmp_path, Schema(indexes=((Kind.GS, "seqid"),), index_time="before"))
    client.insert(Kind.GS, documents)
    for document, text in zip(documents, HARD, strict=True):
        assert client.find(Find(Kind.GS, (Where("seqid", "=", text),))) == [document]
        assert client.update(Kind.GS, document["_id"], {"s": text})
        assert client.get(Kind.GS, document["_id"]) == {**document, "s": text}
    assert client.count(Count(Kind.GS)) == len(HARD)
    client.close()


def test_clickhouse_itself_refuses_that_a_reader_writes(clickhouse, tmp_path):
    reader = connect(load("chdb", tmp_path, sample(1, 20)), "read")
    ((database,),) = clickhouse.rows("SELECT database FROM system.tables WHERE name = 'rna'")
    for sql in ("INSERT INTO {} (_id) VALUES ('x')", "OPTIMIZE TABLE {} FINAL"):
        with pytest.raises(RuntimeError, match=r"(?i)read-?only"):
            clickhouse.rows(sql.format(f"{database}.rna"))
    assert reader.count(Count(Kind.RNA)) == 20
    reader.close()


@pytest.mark.parametrize("level", ["durable", "relaxed"])
def test_tables_are_synced_as_their_level_says(level, clickhouse, tmp_path):
    client = _writer(tmp_path, consistency=level)
    ((text,),) = clickhouse.rows("SELECT engine_full FROM system.tables WHERE name = 'rna'")
    after_merge = ("min_rows_to_fsync_after_merge", "min_compressed_bytes_to_fsync_after_merge")
    for name in ("fsync_after_insert", "fsync_part_directory", *after_merge):
        assert (f"{name} = 1" in text) == (level == "durable")
    client.close()


def test_a_finished_table_is_one_part(tmp_path):
    client = _writer(tmp_path)
    documents = sample(1, 40)[Kind.RNA]
    for start in range(0, 40, 4):
        client.insert(Kind.RNA, documents[start : start + 4])
    assert client.delete(Kind.RNA, documents[0]["_id"])
    client.finish()
    (table,) = tmp_path.glob("data/documents_*/rna")
    assert len([path for path in table.iterdir() if path.name.startswith("all_")]) == 1
    assert client.count(Count(Kind.RNA)) == 39
    # What was deleted can come back.
    client.insert(Kind.RNA, documents[:1])
    assert client.get(Kind.RNA, documents[0]["_id"]) == documents[0]
    client.close()


def _told(program, tmp_path):
    command = [sys.executable, "-c", START + program, str(tmp_path / "store")]
    more = {"timeout": 120, "env": {**os.environ, "TMPDIR": str(tmp_path)}}
    done = subprocess.run(command, capture_output=True, text=True, check=True, **more)
    assert [path.name for path in tmp_path.iterdir()] == ["store"]
    return done.stdout


def test_a_forked_process_is_told(tmp_path):
    assert "forked" in _told(FORKED, tmp_path)


def test_signals_stay_with_the_program(tmp_path):
    assert _told(SIGNALS, tmp_path).split() == ["True", "False", "False"]


@pytest.mark.parametrize(
    "does, said", [("exec sleep 60", "timed out"), ("kill -ILL $$", "ended with status -4")]
)
def test_a_chdb_that_cannot_be_loaded_is_an_error_in_words(does, said, tmp_path, monkeypatch):
    (tmp_path / "python").write_text(f"#!/bin/sh\n{does}\n")
    (tmp_path / "python").chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(tmp_path / "python"))
    monkeypatch.setattr(installation, "_SECONDS", 0.5)
    chdb_engine._clickhouse.cache_clear()
    with pytest.raises(EngineError, match=f"chdb: .*{said}"):
        engine("chdb").versions()
