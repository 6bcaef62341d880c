"""Cassandra: single documents of a server alone, with and without the driver."""

import socket
import subprocess
from contextlib import closing
from dataclasses import replace
from typing import Any

import psutil
import pytest
from cassandra import AuthenticationFailed, ConsistencyLevel, OperationTimedOut
from support.servers.cassandra import ENGINE
from support.servers.local import running
from support.servers.samples import fill, sample, secrets_of
from support.servers.stores import Target, available
from support.waiting import wait_until

from storewise.documents import Kind
from storewise.engines.cassandra import connection as cassandra_link
from storewise.engines.cassandra.direct import Direct
from storewise.engines.contract.server import Topology
from storewise.errors import EngineError

pytestmark = [pytest.mark.xdist_group("cassandra"), pytest.mark.slow]


@pytest.fixture(scope="module")
def alone(clusters):
    """The server of the contract, with nothing but the tables of the study."""
    target = Target("cassandra", 1)
    fill(clusters.fresh(target), {})
    return clusters.servers(target)


@pytest.fixture
def client(alone):
    with closing(ENGINE.connect(alone.cluster, "write")) as result:
        yield result


def directly(server, seconds=30.0, **secrets):
    """A connection; with other secrets than the session's where some are named."""
    known = secrets_of(server.cluster)
    return Direct(
        server.cluster.endpoints[0],
        replace(known, **secrets),
        connect=10.0,
        seconds=seconds,
        level=ConsistencyLevel.ONE,
        now=lambda: 1,
    )


def forbid(client, monkeypatch, name):
    """Let the test fail where the driver's session, or the direct connections, are asked."""

    def fail(*args):
        raise AssertionError(f"{name} was asked")

    if name == "driver":
        monkeypatch.setattr(client._shared.session, "execute", fail)
    else:
        monkeypatch.setattr(Direct, "execute", fail)


@pytest.mark.parametrize("direct", [True, False])
def test_single_documents_come_the_same_with_and_without_the_driver(alone, monkeypatch, direct):
    cluster = replace(alone.cluster, settings={**alone.cluster.settings, "direct": direct})
    with closing(ENGINE.connect(cluster, "write")) as client:
        tasks = sample(70, 3)[Kind.TASKS]
        documents = sample(70, 3)[Kind.GS]
        # More than one read of a socket brings.
        documents[1] = {**documents[1], "s": "ACGT" * 100_000, "seqid": "grün \0", "b": None}
        client.insert(Kind.GS, documents)
        client.insert(Kind.TASKS, tasks)
        forbid(client, monkeypatch, "driver" if direct else "direct connection")
        first, second, third = documents
        assert [client.get(Kind.GS, d["_id"]) for d in documents] == documents
        changes: dict[str, Any]
        for changes in ({"b": -5}, {"b": None}, {"s": "TGCA" * 100_000, "b": 2**40}, {"s": ""}):
            assert client.update(Kind.GS, second["_id"], changes)
            second = {**second, **changes}
            assert client.get(Kind.GS, second["_id"]) == second
        assert client.delete(Kind.GS, first["_id"])
        assert client.get(Kind.GS, first["_id"]) is None
        assert not client.update(Kind.GS, first["_id"], {"b": 1})
        assert not client.delete(Kind.GS, first["_id"])
        with pytest.raises(EngineError, match=r"cassandra: bind: .*column \"b\""):
            client.update(Kind.GS, third["_id"], {"b": 2**63})
        assert client.get(Kind.GS, third["_id"]) == third
        task = tasks[0]
        for changes in ({"q": "other"}, {"mp_extrap": "1"}, {"q": "third", "pg_new": "2"}):
            assert client.update(Kind.TASKS, task["_id"], changes)
            task = {**task, **changes}
            assert client.get(Kind.TASKS, task["_id"]) == task
        assert not client.update(Kind.TASKS, first["_id"], {"pg_new": "2"})


def test_a_connection_that_the_server_has_closed_is_made_again(client):
    """A read and an update find out, whether the connection has rested for long or not."""
    (document,) = sample(71, 1)[Kind.GS]
    client.insert(Kind.GS, [document])
    assert client.get(Kind.GS, document["_id"]) == document
    (resting,) = client._shared.alone.resting
    resting._socket.shutdown(socket.SHUT_RDWR)
    assert client.get(Kind.GS, document["_id"]) == document
    assert not resting.open
    assert client.update(Kind.GS, document["_id"], {"b": 5})
    (resting,) = client._shared.alone.resting
    resting._used -= 60.0
    resting._socket.shutdown(socket.SHUT_RDWR)
    assert client.update(Kind.GS, document["_id"], {"b": 6})
    assert not resting.open
    assert client.get(Kind.GS, document["_id"]) == {**document, "b": 6}


def test_a_thread_s_connection_is_open_before_its_first_request(client):
    client.for_thread()
    held = client._shared.alone._held.connection
    assert held.open
    (document,) = sample(72, 1)[Kind.GS]
    client.insert(Kind.GS, [document])
    assert client.get(Kind.GS, document["_id"]) == document
    assert client._shared.alone.resting == [held]
    client.close()
    assert not held.open


def test_a_wrong_password_is_refused(alone):
    with pytest.raises(AuthenticationFailed, match="incorrect"):
        directly(alone, password="guess")


def test_a_statement_that_the_server_has_forgotten_is_prepared_again(client, monkeypatch):
    (document,) = sample(73, 1)[Kind.GS]
    client.insert(Kind.GS, [document])
    assert client.get(Kind.GS, document["_id"]) == document
    # The server forgets all statements of a table whose columns change.
    cql = "ALTER TABLE storewise.gs ADD further int"
    client._ddl(cql)
    forbid(client, monkeypatch, "driver")
    prepared = []
    prepare = Direct._prepare

    def counted(self, statement):
        prepared.append(statement)
        prepare(self, statement)

    monkeypatch.setattr(Direct, "_prepare", counted)
    assert client.get(Kind.GS, document["_id"]) == document
    assert client.get(Kind.GS, document["_id"]) == document
    assert len(prepared) == 1


def test_a_server_that_stands_still_has_no_answer_in_time(alone, client):
    (document,) = sample(74, 1)[Kind.GS]
    client.insert(Kind.GS, [document])
    assert client.get(Kind.GS, document["_id"]) == document
    (cql,) = (cql for cql in client._shared.prepared if cql.startswith('SELECT "_id", '))
    statement = client._shared.prepared[cql]
    server = directly(alone, seconds=0.5)
    columns = [name for *_, name, _ in statement.result_metadata]
    assert server.execute(statement, [document["_id"]]) == [tuple(document[c] for c in columns)]
    stopped = psutil.Process(alone.servers["data0"].pid)
    stopped.suspend()
    try:
        with pytest.raises(OperationTimedOut, match="no answer in time"):
            server.execute(statement, [document["_id"]])
    finally:
        stopped.resume()
    assert not server.open
    assert client.get(Kind.GS, document["_id"]) == document


def test_the_driver_answers_where_no_connection_can_be_made(client, monkeypatch):
    def refuse():
        raise AuthenticationFailed("no")

    (document,) = sample(75, 1)[Kind.GS]
    client.insert(Kind.GS, [document])
    client._shared.alone.connect = refuse
    assert client.get(Kind.GS, document["_id"]) == document


def test_a_server_that_is_killed_is_named_and_used_again_when_it_is_back(tmp_path, monkeypatch):
    monkeypatch.setattr(cassandra_link, "PATIENCE_SECONDS", 2.0)
    shape = Topology(memory_mb=512)
    with (
        running("cassandra", tmp_path / "killed", shape, available("cassandra")) as own,
        closing(ENGINE.connect(own.cluster, "write")) as client,
    ):
        (document,) = sample(76, 1)[Kind.GS]
        client.insert(Kind.GS, [document])
        assert client.get(Kind.GS, document["_id"]) == document
        assert client.update(Kind.GS, document["_id"], {"b": 1})
        server = psutil.Process(own.servers["data0"].pid)
        command, environment = server.cmdline(), server.environ()
        server.kill()
        wait_until(lambda: not answers(own), 30, "an end of the server")
        for ask in (
            lambda: client.get(Kind.GS, document["_id"]),
            lambda: client.update(Kind.GS, document["_id"], {"b": 2}),
        ):
            with pytest.raises(EngineError, match=r"cassandra: query: data0 .*no server answers"):
                ask()
        assert client._shared.alone.resting == []
        with (tmp_path / "again.log").open("wb") as log:
            again = subprocess.Popen(command, env=environment, stdout=log, stderr=log)
        try:
            wait_until(lambda: answers(own), 120, "a server that is back")
            # The driver may find it later: it is not asked.
            forbid(client, monkeypatch, "driver")
            assert client.get(Kind.GS, document["_id"]) == {**document, "b": 1}
            assert client.update(Kind.GS, document["_id"], {"b": 2})
            assert client.get(Kind.GS, document["_id"]) == {**document, "b": 2}
        finally:
            again.kill()
            again.wait()


def answers(server):
    secrets = secrets_of(server.cluster)
    return ENGINE.answers(server.cluster.endpoints[0], secrets)
