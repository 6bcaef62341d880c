"""Servers killed under load: what they acknowledged at a durable level is there afterwards, and
clients go on with the restarted server by themselves."""

import threading
import time
from contextlib import closing

import pytest
from support.servers.local import running
from support.servers.stores import available
from support.waiting import wait_until

from storewise.documents import Kind
from storewise.engines.registry import engine
from storewise.errors import EngineError

#: Those of the engines' levels that CI tries.
_TRIED = {
    "postgres": ("durable", "relaxed"),
    "mongodb": ("durable",),
    "valkey": ("durable", "relaxed", "memory"),
}
_ALL = ("postgres", "mariadb", "mongodb", "cassandra", "hbase", "valkey")
CELLS = [
    pytest.param(
        name,
        level,
        marks=[
            pytest.mark.xdist_group(name),
            *([] if level in _TRIED.get(name, ()) else [pytest.mark.all_cells]),
        ],
    )
    for name in _ALL
    for level in engine(name).consistencies
]
_BEFORE = 400
#: Longer than any server keeps the definition of a table unwritten at its weakest level.
_SECONDS = 2.0
_AFTER = 200
_PATIENCE = 24.0


@pytest.mark.parametrize(("name", "level"), CELLS)
def test_acknowledged_documents_outlive_a_crash(name, level, tmp_path):
    """Single documents are written while the server is killed with SIGKILL and started again, and
    afterwards, by the same client; a new one reads back every acknowledged id."""
    acknowledged, times, errors = [], [], []
    ended = threading.Event()

    def write(client):
        for number in range(1, 1 << 40):
            if ended.is_set():
                return
            key = number.to_bytes(12, "big")
            document = {"_id": key, "t": 602, "b": 1, "e": 2, "l": 3, "s": "ACGT", "ti": key}
            try:
                client.insert(Kind.RNA, [document])
            except EngineError as error:
                errors.append(error)
                continue
            acknowledged.append(key)
            times.append(time.monotonic())

    def until(done, what):
        wait_until(done, _PATIENCE, lambda: f"{what} ({errors[-1:]})")

    with running(name, tmp_path / "c", None, available(name), level) as result:
        with closing(engine(name).connect(result.cluster, "write")) as client:
            writer = threading.Thread(target=write, args=(client,))
            writer.start()
            try:
                until(
                    lambda: len(acknowledged) >= _BEFORE and times[-1] - times[0] > _SECONDS,
                    "writes before the kill",
                )
                server = result.servers["master0" if name == "hbase" else "data0"]
                server.kill()
                dead = time.monotonic()
                server.again(lambda: None)
                until(lambda: sum(t > dead for t in times[-_AFTER:]) >= _AFTER, "writes after it")
            finally:
                ended.set()
                writer.join()
        with closing(engine(name).connect(result.cluster, "read")) as reader:
            lost = 0
            for start in range(0, len(acknowledged), 200):
                lost += reader.get_many(Kind.RNA, acknowledged[start : start + 200]).count(None)
    if level not in engine(name).losing:
        assert lost == 0, (len(acknowledged), errors[-1:])
    # A store at any level still has most: the log is written behind, not never.
    assert lost < len(acknowledged)
