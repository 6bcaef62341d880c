"""Cassandra: a ring of three nodes of which one is killed, and a node alone."""

import os
import random
import signal
import socket
import ssl
import threading
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import replace

import psutil
import pytest
from cassandra import OperationTimedOut
from support.needs import unavailable
from support.servers.local import running
from support.servers.nodes import make_node
from support.servers.samples import connect, fill, sample, secrets_of
from support.servers.stores import available
from support.waiting import wait_until

from storewise.documents import KINDS, Kind
from storewise.engines.cassandra import cluster as cassandra_cluster
from storewise.engines.cassandra import connection as cassandra_connection
from storewise.engines.cassandra.cluster import KEYSPACE
from storewise.engines.cassandra.connection import FAILURES, node_session
from storewise.engines.cassandra.engine import CassandraEngine
from storewise.engines.contract.queries import Count
from storewise.engines.contract.server import Credentials, Topology
from storewise.errors import EngineError
from storewise.session.server.server import start_server

pytestmark = pytest.mark.xdist_group("cassandra")
ENGINE, RING = CassandraEngine(), 3
DOCUMENTS = sample(8, alignments=200)


@pytest.fixture(scope="module")
def ring(tmp_path_factory):
    """Three nodes, each with a copy of each document; the first attempt to give each of them a copy
    of the session's user has failed on the way."""
    shape = Topology(nodes=RING, replicas=RING, memory_mb=512)
    place = tmp_path_factory.mktemp("ring")
    attempts, original = [], cassandra_cluster.drop_other_roles

    def drop_other_roles(session, credentials):
        attempts.append(session)
        if len(attempts) == 1:
            raise OperationTimedOut("a busy host")
        original(session, credentials)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(cassandra_cluster, "drop_other_roles", drop_other_roles)
        with running("cassandra", place, shape, available("cassandra"), "quorum") as result:
            fill(result.cluster, DOCUMENTS)
            yield result


def ask(cluster, endpoint, cql):
    """What one node itself says."""
    with node_session(endpoint, secrets_of(cluster)) as session:
        return list(session.execute(cql))


def assert_default_role_is_refused(endpoint):
    default = Credentials("cassandra", "cassandra", key="")
    with pytest.raises(FAILURES, match="incorrect"), node_session(endpoint, default):
        pass


def test_only_the_session_s_user_gets_in(ring):
    for endpoint in ring.cluster.endpoints:
        roles = ask(ring.cluster, endpoint, "SELECT role FROM system_auth.roles")
        assert roles == [("storewise",)]
        assert_default_role_is_refused(endpoint)
        with pytest.raises(EngineError, match=f"{endpoint.name} .*refuses"):
            ENGINE.not_ready_reason(endpoint, Credentials.make())
        assert ENGINE.not_started_reason(endpoint, Credentials.make()) is None


def test_files_are_private_and_ports_are_those_that_were_told(ring):
    for server in ring.servers.values():
        process = psutil.Process(server.pid)
        listens = {
            (c.laddr.ip, c.laddr.port) for c in process.net_connections() if c.status == "LISTEN"
        }
        endpoint = server.endpoint
        assert listens == {
            (endpoint.address, endpoint.port),
            (endpoint.address, endpoint.ports["gossip"]),
        }
        for path in (server.node.directory, server.node.directory / "cassandra.yaml"):
            assert path.stat().st_mode & 0o077 == 0


def test_the_owner_is_the_server_s(ring):
    """The driver's answer against the servers' own tokens and hash."""
    cluster = ring.cluster
    tokens = {}
    for endpoint in cluster.endpoints:
        ((own,),) = ask(cluster, endpoint, "SELECT tokens FROM system.local")
        (token,) = own
        tokens[int(token)] = endpoint.name
    ordered = sorted(tokens)
    client = connect(cluster, "read")
    owners = Counter()
    cql = 'SELECT "_id", token("_id") FROM storewise.align'
    rows = ask(cluster, cluster.endpoints[0], cql)
    assert len(rows) == len(DOCUMENTS[Kind.ALIGN])
    for identifier, token in rows:
        expected = tokens[next((t for t in ordered if t >= token), ordered[0])]
        owner = client.owner(Kind.ALIGN, identifier)
        assert owner == expected
        owners[owner] += 1
    assert len(owners) == RING
    client.close()


def test_documents_and_roles_are_on_each_node(ring):
    cql = "SELECT keyspace_name, replication FROM system_schema.keyspaces"
    for endpoint in ring.cluster.endpoints:
        replication = dict(ask(ring.cluster, endpoint, cql))
        for keyspace in (KEYSPACE, "system_auth"):
            assert replication[keyspace]["datacenter1"] == str(RING)


def test_nothing_fails_while_one_of_three_dies(ring):
    """kill -9 of a node while four threads read at QUORUM. The last test of the ring."""
    client = connect(ring.cluster, "read")
    documents = [(kind, d) for kind in KINDS for d in DOCUMENTS[kind]]
    ended, reads, lock = threading.Event(), Counter[str](), threading.Lock()
    killed = threading.Event()

    def read(seed):
        draw, mine = random.Random(seed), client.open_thread()
        while not ended.is_set():
            kind, document = draw.choice(documents)
            assert mine.get(kind, document["_id"]) == document
            with lock:
                reads["after" if killed.is_set() else "before"] += 1

    def wait(name, number):
        def enough():
            assert not any(f.done() for f in futures), "a reader has failed"
            return reads[name] >= number

        wait_until(enough, 60, lambda: f"{number} reads {name} ({reads})")

    victim = ring.servers["data1"]
    with ThreadPoolExecutor(4) as pool:
        futures = [pool.submit(read, seed) for seed in range(4)]
        try:
            wait("before", 200)
            os.kill(victim.pid, signal.SIGKILL)
            while victim.failure(0.1) is None:
                pass
            killed.set()
            wait("after", 1500)
        finally:
            ended.set()
        for future in futures:
            future.result()
    assert "data1: the server of Cassandra" in str(victim.failure())
    assert "SIGKILL" in str(victim.failure())
    # A new client gets in, reads and writes.
    late = connect(ring.cluster, "write")
    assert late.count(Count(Kind.GS)) == len(DOCUMENTS[Kind.GS])
    late.insert(Kind.RNA, sample(11, alignments=50)[Kind.RNA])
    late.close()
    client.close()


def test_all_replicas_are_one_too_many_then(ring, monkeypatch):
    """Of the ring of the test before: ALL needs the dead node, and says so."""
    monkeypatch.setattr(cassandra_connection, "RETRY_SECONDS", 2.0)
    # The second, as long as the others have not noticed yet that the node is dead.
    said = "Cannot achieve consistency level ALL|received only 2 responses"
    client = connect(replace(ring.cluster, consistency="all"), "read")
    with closing(client), pytest.raises(EngineError, match=said):
        client.get(Kind.RNA, DOCUMENTS[Kind.RNA][0]["_id"])


def spoken(place, key):
    """Whether a server goes on with TLS after it has seen our certificate, or that we have none."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    if key is not None:
        context.load_cert_chain(key)
    try:
        with (
            socket.create_connection(place, 5) as connection,
            context.wrap_socket(connection) as encrypted,
        ):
            encrypted.settimeout(1)
            encrypted.recv(1)
    except TimeoutError:
        return True  # it waits for our first word
    except OSError:
        return False
    return False


def test_off_loopback_the_default_role_never_is(tmp_path):
    """At the address that others reach, the first server that answers knows the session's user."""
    others = [
        entry.address
        for entries in psutil.net_if_addrs().values()
        for entry in entries
        if entry.family == socket.AF_INET and not entry.address.startswith("127.")
    ]
    if not others:
        unavailable("this host has no address but loopback")
    node = make_node(
        ENGINE,
        topology=Topology(memory_mb=512),
        installation=ENGINE.find(available("cassandra")),
        directory=tmp_path / "node",
        address=others[0],
    )
    server = start_server(ENGINE, node, tmp_path / "log", lambda: None)
    try:
        # An error where it refuses them, which would be seen at once.
        wait_until(
            lambda: not ENGINE.not_ready_reason(server.endpoint, node.credentials), 120, "an answer"
        )
        assert_default_role_is_refused(server.endpoint)
        assert not (node.directory / "first_start" / "plan.json").exists(), "it holds the password"
        key = node.directory / "own.pem"
        assert key.stat().st_mode & 0o777 == 0o600
        # A node that is alone talks to other nodes only if they have its own key.
        gossip = ("127.0.0.1", server.endpoint.ports["gossip"])
        assert spoken(gossip, key)
        assert not spoken(gossip, None)
    finally:
        server.stop()
        server.remove()
