"""What a long run takes: 5,000 operations and 200 connections in one process leave nothing open.

Descriptors and threads are counted, and memory is compared, after a tenth of both and at the end.
"""

import gc
import re
from contextlib import closing, suppress
from pathlib import Path

import pytest
from support.servers.samples import STORING, connect, fill, sample
from support.servers.stores import SINGLE, STANDIN, Target, marks_of
from support.waiting import wait_until

from storewise.documents import Kind
from storewise.engines.contract.engine import Schema
from storewise.engines.contract.queries import Scan
from storewise.engines.registry import engine

OPERATIONS = 5000
CONNECTIONS = 200
#: What allocators and caches may still add, MiB: 10 kB for each operation.
GROWTH = 48
#: Threads of pools that start when they are first needed; fewer than connections that are made.
POOL = {"chdb": 160}
DOCUMENTS = sample(300, alignments=40)
RNA = DOCUMENTS[Kind.RNA]


def taken():
    """Descriptors, threads (the libraries' own, too), and MiB of memory of this process."""
    gc.collect()
    numbers = dict(re.findall(r"^(\w+):\s+(\d+)", Path("/proc/self/status").read_text(), re.M))
    descriptors = 0
    for path in list(Path("/proc/self/fd").iterdir()):
        with suppress(FileNotFoundError):
            # ClickHouse has two for each of its threads that has worked: those are counted.
            descriptors += not str(path.readlink()).startswith("/proc/")
    return descriptors, int(numbers["Threads"]), int(numbers["VmRSS"]) >> 10


def connections(cluster, number):
    for n in range(number):
        client = connect(cluster, "read")
        assert client.get(Kind.RNA, RNA[n % 40]["_id"]) is not None
        client.close()


def operations(client, name, number):
    flags = engine(name).flags
    for n in range(number):
        document = RNA[n % 40]
        document_id = document["_id"]
        match n % 10:
            case 0 if flags.updates:
                client.insert(Kind.RNA, [document])
            case 1 if flags.updates:
                assert client.update(Kind.RNA, document_id, {"b": n}) is not False
            case 2 if flags.deletes:
                assert client.delete(Kind.RNA, document_id)
                client.insert(Kind.RNA, [document])
            case 3 if flags.scans:
                assert client.scan(Scan(Kind.RNA, document_id, 5))
            case 4:
                assert client.get(Kind.RNA, b"nobody has it") is None
            case 5:
                assert None not in client.get_many(Kind.RNA, [d["_id"] for d in RNA[:5]])
            case _:
                assert client.get(Kind.RNA, document_id) is not None


#: Every day those that take few seconds; among all cells those that take minutes.
DAILY, LONGEST = ("sqlite", "valkey"), ("cassandra", "chdb", "duckdb")


def _marks(target):
    marks = [*marks_of(target), *([] if target.name in DAILY else [pytest.mark.slow])]
    return [*marks, pytest.mark.all_cells] if target.name in LONGEST else marks


TARGETS = [
    pytest.param(target, marks=_marks(target), id=target.name)
    for target in (*map(Target, STORING), *SINGLE)
]


@pytest.fixture(params=[*TARGETS, pytest.param(STANDIN, id="riak")])
def cluster(request, clusters, tmp_path):
    target = request.param
    if target.nodes:
        yield clusters.fresh(target)
    else:
        # ClickHouse leaves five threads each time that it ends in a process: here it never does.
        with closing(connect(target.embedded(tmp_path / "other"), "write")):
            yield target.embedded(tmp_path / "store")


@pytest.mark.long("5,000 operations, of which some stores do a hundred a second", limit=600)
def test_nothing_grows_with_operations_and_connections(cluster):
    fill(cluster, DOCUMENTS, Schema())
    mode = "write" if engine(cluster.engine).flags.updates else "read"
    seen = []
    for share in (0.1, 0.9):
        connections(cluster, int(CONNECTIONS * share))
        client = connect(cluster, mode)
        if mode == "write":
            client.create(Schema())
        operations(client, cluster.engine, int(OPERATIONS * share))
        client.close()
        seen.append(taken())
    (descriptors, threads, memory), _ = seen
    # A driver may keep one for itself; 180 connections that stay are seen.
    descriptors += 8
    threads += POOL.get(cluster.engine, 0)

    def as_before():
        now = taken()
        seen.append(now)
        return now[0] <= descriptors and now[1] <= threads and now[2] <= memory + GROWTH

    # Some drivers' threads end a little later than their clients.
    wait_until(as_before, 10, lambda: f"an end of what was taken ({seen[0]}, then {seen[-1]})")
