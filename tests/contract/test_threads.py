"""Connections of client threads: open and signed in before a step begins, closed at its end."""

import threading
from concurrent.futures import ThreadPoolExecutor

import psutil
import pytest
from support.servers.samples import connect, fill, sample
from support.servers.stores import SINGLE, Target, cells
from support.waiting import wait_until

from storewise.documents import Kind

STEPS, THREADS = 8, 4
EMBEDDED = [Target(name) for name in ("sqlite", "duckdb", "parquet", "chdb", "null")]


def established(servers):
    """Connections of this process, whose threads are the clients, to the servers' ports."""
    ports = {
        port for server in servers for port in (server.endpoint.port, *server.node.ports.values())
    }
    every = psutil.Process().net_connections("tcp")
    return sum(one.status == psutil.CONN_ESTABLISHED and one.raddr.port in ports for one in every)


@pytest.mark.parametrize("target", cells([*SINGLE, *EMBEDDED]))
def test_eight_steps_leave_no_connection_and_none_is_opened_by_an_operation(
    target, clusters, tmp_path
):
    documents = sample(33, 8)
    if target.nodes:
        cluster = clusters.fresh(target)
        servers = list(clusters.servers(target).servers.values())

        def opened():
            return established(servers)
    else:
        cluster = target.embedded(tmp_path / "store")
        opened = psutil.Process().num_fds
    fill(cluster, documents)
    mode = "write" if target.nodes else "read"
    client = connect(cluster, mode)
    meet = threading.Barrier(THREADS + 1, timeout=60)

    def work(thread):
        mine = client.open_thread()
        try:
            meet.wait()  # all are ready: the clock of a step starts here
            meet.wait()
            for document in documents[Kind.RNA]:
                mine.get(Kind.RNA, document["_id"])
            meet.wait()  # each has done its operations
            meet.wait()
        finally:
            mine.close_thread()

    counts = []
    with ThreadPoolExecutor(THREADS) as pool:
        for _ in range(STEPS):
            futures = [pool.submit(work, thread) for thread in range(THREADS)]
            meet.wait()
            before = opened()
            meet.wait()
            meet.wait()
            if target.nodes:
                assert 0 < opened() <= before, "an operation has opened a connection"
            meet.wait()
            for future in futures:
                future.result()
            if counts:
                wait_until(lambda: opened() <= counts[0], 30, "connections are closed")
            counts.append(opened())
    client.close()
    assert max(counts) == counts[0]
