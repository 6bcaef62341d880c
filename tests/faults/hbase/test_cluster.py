"""HBase running: three region servers of which one is killed, and a standalone server."""

import os
import signal
import socket
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import cast

import psutil
import pytest
from support.needs import unavailable
from support.servers import local
from support.servers.local import running
from support.servers.samples import fill, sample
from support.servers.stores import available
from support.waiting import wait_until

from storewise.documents import KINDS, Kind
from storewise.engines.contract.queries import Count, Scan
from storewise.engines.contract.server import Topology
from storewise.engines.hbase.client import HbaseClient
from storewise.engines.hbase.connection import Connection, idl
from storewise.engines.registry import engine
from storewise.errors import EngineError
from storewise.session.server import server as session_server
from storewise.session.server.address import addresses, free_port, is_loopback

pytestmark = pytest.mark.xdist_group("hbase")
SERVERS = 3
REGION_SERVERS = [f"regionserver{k}" for k in range(SERVERS)]
REGIONS = 2
#: What is in the directory that the user names as root, before the session.
OTHERS = ["mine", "storewise-local"]
#: Files, each with its own digest: their ids are spread over the regions.
FILES = [sample(seed, alignments=20) for seed in range(40)]
DOCUMENTS = {kind: [d for file in FILES for d in file[kind]] for kind in KINDS}
#: A region server is dead after its session; then its log is split and its regions move.
RECOVERY_SECONDS = 60.0
SETTINGS = {
    "config": {"zookeeper.session.timeout": 8000},
    "operation_seconds": 20,
    "regions_per_server": REGIONS,
}


def open_client(cluster, mode="read"):
    return cast(HbaseClient, engine("hbase").connect(cluster, mode))


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    place = tmp_path_factory.mktemp("hbase") / "cluster"
    shared = place.parent / "shared"
    for name in OTHERS:
        (shared / name).mkdir(parents=True)
        (shared / name / "file").touch()
    settings = {**available("hbase"), **SETTINGS, "rootdir": str(shared)}
    with running("hbase", place, Topology(nodes=SERVERS, memory_mb=512), settings) as result:
        fill(result.cluster, DOCUMENTS, batch=500)
        yield result
    left = [p for p in psutil.process_iter() if str(place) in " ".join(_command(p))]
    assert left == [] and not any(place.glob("*/hbase-site.xml"))
    # Its own directory below the root of the user has gone, what others have there stays.
    assert sorted(path.name for path in shared.iterdir()) == OTHERS
    assert all((path / "file").exists() for path in shared.iterdir())


def _command(process):
    try:
        return process.cmdline()
    except psutil.Error:
        return []


def test_a_root_of_the_user_has_a_directory_of_the_session(cluster):
    """It goes with the session, which is seen when the servers have ended."""
    shared = Path(str(cluster.cluster.settings["rootdir"]))
    (process,) = shared.glob("storewise-local-*")
    assert {"hbase.id", "data"} <= {path.name for path in process.iterdir()}
    assert {path.name for path in shared.iterdir()} == {process.name, *OTHERS}


def test_regions_are_spread_and_the_owner_is_that_of_the_meta_table(cluster):
    client = open_client(cluster.cluster)
    nodes = {f"{s.node.address}:{s.node.port}": name for name, s in cluster.servers.items()}
    (gateway,) = [e for e in cluster.cluster.endpoints if e.role == "thrift"]
    with closing(Connection(gateway, 30.0)) as connection:
        results = connection.call("getScannerResults", b"hbase:meta", idl.TScan(b""), 100)
    servers = {
        result.row: cell.value.decode()
        for result in results
        for cell in result.columnValues
        if cell.qualifier == b"server"
    }
    for kind in KINDS:
        table = kind.table.encode() + b","
        regions = [
            # TABLE,FIRST KEY,TIME.NAME.
            (row.removeprefix(table).rsplit(b",", 1)[0], nodes[server])
            for row, server in servers.items()
            if row.startswith(table)
        ]
        assert Counter(name for _, name in regions) == dict.fromkeys(REGION_SERVERS, REGIONS)
        for document in DOCUMENTS[kind][::10]:
            key = document["_id"]
            assert client.owner(kind, key) == [name for first, name in regions if first <= key][-1]
    client.close()


def test_documents_come_back_from_all_servers(cluster):
    client = open_client(cluster.cluster)
    for kind in KINDS:
        every = sorted(DOCUMENTS[kind], key=lambda d: d["_id"])
        assert client.count(Count(kind)) == len(every)
        assert client.scan(Scan(kind, b"", len(every) + 1)) == every
        middle = every[len(every) // 3]["_id"]
        assert client.scan(Scan(kind, middle, 50)) == [d for d in every if d["_id"] >= middle][:50]
        assert client.get_many(kind, [d["_id"] for d in every]) == every
    assert client.disk_bytes() > sum(len(documents) for documents in DOCUMENTS.values()) * 100
    client.close()


def test_only_its_own_ports_and_not_too_much_memory(cluster):
    memory = 0
    for name, server in cluster.servers.items():
        memory += psutil.Process(server.pid).memory_info().rss
        assert _listening(server) == {("127.0.0.1", port) for port in _told(server)}, name
    assert memory < 6 << 30


def _told(server):
    return {server.node.port, *server.node.ports.values()}


def _listening(server):
    return {
        (result.laddr.ip, result.laddr.port)
        for result in psutil.Process(server.pid).net_connections("inet")
        if result.status == psutil.CONN_LISTEN
    }


def test_levels_write_ahead_or_not(cluster):
    """The files of the write-ahead logs grow at each level but one."""
    (root,) = Path(cluster.cluster.settings["rootdir"]).glob("storewise-local-*")

    def log_bytes():
        return sum(path.stat().st_size for path in root.glob("WALs/*/*"))

    def bytes_before_an_insert(level):
        before = log_bytes()
        with closing(open_client(replace(cluster.cluster, consistency=level), "write")) as client:
            client.insert(Kind.RNA, DOCUMENTS[Kind.RNA][:200])
        return before

    assert bytes_before_an_insert("relaxed") == log_bytes()
    for level in ("durable", "sync"):
        assert bytes_before_an_insert(level) < log_bytes()
    before = bytes_before_an_insert("async")
    wait_until(lambda: log_bytes() > before, 10, "the log follows")


def test_updates_of_many_clients_are_all_kept(cluster):
    """Each client changes another field of the same document."""
    document = DOCUMENTS[Kind.GS][0]
    client = open_client(cluster.cluster, "write")
    changes = [{"b": 1}, {"e": 2}, {"l": 3}, {"s": "x"}]

    def change(number):
        mine = client.open_thread()
        for _ in range(10):
            assert mine.update(Kind.GS, document["_id"], changes[number])
        mine.close_thread()

    with ThreadPoolExecutor(len(changes)) as pool:
        list(pool.map(change, range(len(changes))))
    expected = {**document, "b": 1, "e": 2, "l": 3, "s": "x"}
    assert client.get(Kind.GS, document["_id"]) == expected
    client.insert(Kind.GS, [document])
    client.close()


def test_a_dead_server_s_documents_come_back(cluster):
    """kill -9: until its regions have moved, an error names it; then nothing is missing."""
    client = open_client(cluster.cluster, "write")
    victim = cluster.servers["regionserver1"]
    ids = [d["_id"] for d in DOCUMENTS[Kind.RNA]]
    lost = [i for i in ids if client.owner(Kind.RNA, i) == "regionserver1"]
    assert lost
    os.kill(victim.pid, signal.SIGKILL)
    assert "was ended by SIGKILL" in wait_until(victim.failure, 30, "its end is seen")
    errors = []

    def asked():
        try:
            return client.get_many(Kind.RNA, lost)
        except EngineError as error:
            errors.append(str(error))
            return None

    result = wait_until(asked, RECOVERY_SECONDS, lambda: f"its regions' move ({errors[-1:]})")
    print(f"errors meanwhile: {errors}")
    where = f"regionserver1 on host {socket.gethostname()} at {victim.node.address}:"
    where += f"{victim.node.port} cannot be reached"
    assert all(where in text for text in errors)
    documents = {d["_id"]: d for d in DOCUMENTS[Kind.RNA]}
    assert result == [documents[i] for i in lost]
    client.insert(Kind.RNA, result)
    assert client.count(Count(Kind.RNA)) == len(ids)
    client.close()
    client = open_client(cluster.cluster)
    assert {client.owner(Kind.RNA, i) for i in ids} == {"regionserver0", "regionserver2"}
    client.close()


@pytest.mark.parametrize("which", [2, pytest.param(0, marks=pytest.mark.all_cells)])
def test_a_taken_port_is_left_for_another(tmp_path, monkeypatch, which):
    """Somebody takes the region server's port (0), or ZooKeeper's (2), after the look."""
    with socket.create_server(("127.0.0.1", 0)) as other:
        taken = other.getsockname()[1]
        values = []

        def free(address, ports, tried):
            chosen = taken if len(values) == which else free_port(address, ports, tried)
            values.append(chosen)
            return values[-1]

        monkeypatch.setattr(session_server, "free_port", free)
        with running(
            "hbase", tmp_path / "c", Topology(memory_mb=256), available("hbase")
        ) as result:
            node = result.servers["master0"].node
            assert taken not in (node.port, *node.ports.values())
    log = (tmp_path / "c" / "master0.log").read_text()
    output = "Could not start ZK at requested port of" if which else "Address already in use"
    assert output in log


# CI tries it with Cassandra.
@pytest.mark.all_cells
@pytest.mark.parametrize("nodes", [1, 2])
def test_off_loopback_it_listens_there_only(nodes, tmp_path, monkeypatch):
    outside = [address for address in addresses().values() if not is_loopback(address)]
    if not outside:
        unavailable("this host has no address but loopback")
    monkeypatch.setattr(local, "address_of", lambda *given: outside[0])
    shape = Topology(nodes=nodes, memory_mb=256)
    with running("hbase", tmp_path / "c", shape, available("hbase")) as result:
        fill(result.cluster, FILES[0])
        client = open_client(result.cluster)
        assert client.count(Count(Kind.RNA)) == len(FILES[0][Kind.RNA])
        assert client.owner(Kind.RNA, FILES[0][Kind.RNA][0]["_id"]) in result.servers
        client.close()
        for name, server in result.servers.items():
            message = {(outside[0], port) for port in _told(server)}
            if name == "master0" and nodes == 1:
                # HBase looks for the ZooKeeper of a standalone server at localhost only.
                port = server.node.ports["zookeeper"]
                message = message - {(outside[0], port)} | {("127.0.0.1", port)}
            assert _listening(server) == message, name


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"jvm_options": ["-XX:+Nonsense"]}, "Unrecognized VM option 'Nonsense'"),
        ({"rootdir": "nonsense://there/hbase"}, "No FileSystem for scheme.*nonsense"),
    ],
)
def test_a_server_that_cannot_start_says_why(settings, words, tmp_path):
    with (
        pytest.raises(EngineError, match=rf"(?s)master0: .*ended with status \d.*{words}"),
        running("hbase", tmp_path / "c", Topology(), {**available("hbase"), **settings}),
    ):
        pass
    assert not list((tmp_path / "c").glob("*/hbase-site.xml"))


def test_servers_that_share_no_root_say_so(tmp_path):
    """The directory that the other nodes look for is not there, as on another host."""
    place = tmp_path / "c"
    settings = {**available("hbase"), "distributed": True}

    def away():
        root = place / "zookeeper0" / "root"
        wait_until(root.exists, 30, "the servers' root", pause=0.005)
        (place / "zookeeper0" / "root").rename(tmp_path / "elsewhere")

    with ThreadPoolExecutor(1) as pool:
        done = pool.submit(away)
        with (
            pytest.raises(EngineError, match=r"(?s)(master|regionserver)0: sh ended.*`rootdir`"),
            running("hbase", place, Topology(), settings),
        ):
            pass
        done.result()
