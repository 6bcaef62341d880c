"""What engines with servers promise beyond the verbs: passwords, restarts, owners, clear errors."""

import os
import random
import resource
import signal
import socket
import threading
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pytest
from support.servers.local import running
from support.servers.samples import connect, fill, holds, sample, secrets_of
from support.servers.stores import SERVED, SERVERS, SINGLE, available, cells
from support.waiting import wait_until

from storewise.documents import KINDS, Kind
from storewise.engines.contract.engine import Schema
from storewise.engines.contract.queries import Count, Where
from storewise.engines.contract.server import Credentials, Topology
from storewise.engines.registry import engine
from storewise.errors import EngineError
from storewise.workloads.sensors.generator import MEASURES, Readings

#: Several nodes are independent servers (`storewise.engines.sql.sharded`).
SHARDED = [t for t in SERVERS if t.nodes > 1 and t.name in ("postgres", "mariadb")]
DOCUMENTS = sample(5, alignments=120)


@pytest.fixture(params=cells(SINGLE))
def single(request, clusters):
    return clusters.fresh(request.param)


@pytest.fixture(params=cells(SHARDED))
def sharded(request, clusters):
    cluster = clusters.fresh(request.param)
    fill(cluster, DOCUMENTS)
    return cluster


def test_nobody_comes_in_without_the_credentials(single, tmp_path):
    described, address = engine(single.engine), single.endpoints[0].address
    if single.engine in ("hbase", "riak"):
        return  # they ask for no password
    assert described.flags.authentication
    secrets = secrets_of(single)
    wrong = Credentials.make()
    wrong.write(tmp_path / "wrong.json")
    for mode in ("read", "write"):
        with pytest.raises(EngineError, match=address) as caught:
            described.connect(replace(single, credentials=tmp_path / "wrong.json"), mode)
        assert wrong.password not in str(caught.value)
    logins = [(secrets.user, ""), (secrets.user, "x"), ("root", ""), ("default", "")]
    for user, password in [(wrong.user, wrong.password), *logins]:
        login = replace(wrong, user=user, password=password)
        with pytest.raises(EngineError, match=address):
            described.not_ready_reason(single.endpoints[0], login)
    with pytest.raises(EngineError, match="credentials"):
        described.connect(replace(single, credentials=None), "read")


def test_wrong_settings_are_refused_by_name(single):
    with pytest.raises(EngineError, match=r"colour.*known"):
        engine(single.engine).connect(replace(single, settings={"colour": 1}), "read")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "option", "words"),
    [
        ("postgres", {"shared_buffers": "lots"}, r"data0.*PostgreSQL[\s\S]*shared_buffers"),
        ("mariadb", {"innodb_no_such_thing": 1}, r"innodb[-_]no[-_]such[-_]thing"),
    ],
)
def test_a_server_that_cannot_start_says_why_and_leaves_nothing(name, option, words, tmp_path):
    settings = {**available(name), "config": option}
    with (
        pytest.raises(EngineError, match=words),
        running(name, tmp_path / "cluster", Topology(memory_mb=256), settings),
    ):
        pytest.fail("the server has started")
    assert not (tmp_path / "cluster" / "data0").exists()


#: How long an engine waits for a server, in whole seconds.
WAITS = (
    "hbase.client._CONNECT_SECONDS",
    "mysql.connection._CONNECT_SECONDS",
    "mysql.engine._ANSWER_SECONDS",
    "postgres.client.CONNECT_SECONDS",
    "valkey.connection._CONNECT_SECONDS",
    "valkey.connection._ANSWER_SECONDS",
)


def test_an_unreachable_server_is_one_clear_error(single, monkeypatch):
    """A port where nobody listens, and one where the listener never says a word; looked at
    together, because clients and nodes rightly wait for seconds."""
    for name in WAITS:
        if name.startswith(single.engine.replace("mariadb", "mysql")):
            monkeypatch.setattr(f"storewise.engines.{name}", 1)
    described = engine(single.engine)
    secrets = secrets_of(single)

    def connects(endpoint):
        # HBase's clients need a gateway.
        every = tuple(replace(each, port=endpoint.port) for each in single.endpoints)
        with pytest.raises(EngineError, match=rf"{endpoint.address}:{endpoint.port}"):
            described.connect(replace(single, endpoints=every), "read").count(Count(Kind.RNA))

    with socket.socket() as closed, socket.socket() as mute, ThreadPoolExecutor(4) as pool:
        for result in (closed, mute):
            result.bind(("127.0.0.1", 0))
        mute.listen()
        ports = [result.getsockname()[1] for result in (closed, mute)]
        endpoints = [replace(single.endpoints[0], port=port) for port in ports]
        refused = pool.map(connects, endpoints)
        said = pool.map(lambda endpoint: described.not_ready_reason(endpoint, secrets), endpoints)
        assert all(said), "what the driver says of it"
        assert list(refused) == [None, None], "an error has come from both"


# HBase's are killed in tests/faults.
@pytest.mark.parametrize("target", cells(t for t in SINGLE if t.name != "hbase"))
def test_acknowledged_documents_survive_the_death_of_the_server(target, clusters):
    """kill -9 of the server while clients write; the same client goes on after its restart."""
    cluster = clusters.fresh(target)
    # A gateway beside the clients holds nothing.
    running = clusters.servers(target).servers.values()
    (server,) = [s for s in running if s.node.spec.placement == "node"]
    client = connect(cluster, "write")
    client.create(Schema())
    acknowledged = []
    for seed in range(12):
        documents = sample(seed, alignments=20)
        for kind in KINDS:
            client.insert(kind, documents[kind])
        acknowledged.append(documents)
    os.kill(server.pid, signal.SIGKILL)
    assert "SIGKILL" in wait_until(server.failure, 30, "its end is seen")
    with pytest.raises(EngineError, match=str(server.endpoint.port)):
        client.insert(Kind.RNA, sample(99, alignments=20)[Kind.RNA])
    server.restart()
    server.wait_ready(lambda: None)
    for documents in acknowledged:
        for kind in KINDS:
            ids = [d["_id"] for d in documents[kind]]
            assert client.get_many(kind, ids) == documents[kind]
    client.insert(Kind.RNA, sample(99, alignments=20)[Kind.RNA])
    assert holds(client, Kind.RNA, 13 * 20)
    client.close()


@pytest.fixture
def many_descriptors():
    """All descriptors below 1,100 are taken: select(2) cannot wait for those that follow."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, min(hard, 4096)), hard))
    opened = [os.open(os.devnull, os.O_RDONLY) for _ in range(1100)]
    yield
    for descriptor in opened:
        os.close(descriptor)
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


@pytest.mark.usefixtures("many_descriptors")
def test_clients_connect_in_a_process_with_many_descriptors(single):
    fill(single, sample(6, alignments=20))
    client = connect(single, "read")
    for document in sample(6, alignments=20)[Kind.RNA]:
        assert client.get(Kind.RNA, document["_id"]) == document
    client.close()


@pytest.mark.usefixtures("many_descriptors")
def test_a_server_starts_in_a_process_with_many_descriptors(tmp_path):
    with running("valkey", tmp_path, Topology(memory_mb=64), available("valkey")) as result:
        fill(result.cluster, sample(6, alignments=20))


def test_the_owner_is_where_the_document_is(sharded):
    client = connect(sharded, "read")
    alone = {
        f"{endpoint.role}{endpoint.index}": connect(
            replace(sharded, endpoints=(replace(endpoint, index=0),)), "read"
        )
        for endpoint in sharded.endpoints
    }
    owners = Counter()
    for kind in KINDS:
        for document in random.Random(2).sample(DOCUMENTS[kind], min(30, len(DOCUMENTS[kind]))):
            owner = client.owner(kind, document["_id"])
            assert owner is not None
            owners[owner] += 1
            for name, one in alone.items():
                result = one.get(kind, document["_id"])
                assert result == (document if name == owner else None)
    assert len(owners) == len(sharded.endpoints)
    counts = [one.count(Count(Kind.RNA)) for one in alone.values()]
    assert sum(counts) == client.count(Count(Kind.RNA)) == len(DOCUMENTS[Kind.RNA])
    assert all(counts)
    for one in (client, *alone.values()):
        one.close()


def test_a_later_client_finds_the_schema_of_all_servers(sharded, clusters):
    schema = Schema(indexes=((Kind.ALIGN, "gene"),), index_time="after", study_fields=False)
    SERVED[sharded.engine].empty(sharded)
    first = connect(sharded, "write")
    first.create(schema)
    first.create(schema)
    first.close()
    # One client loads, and another one ends the load.
    loader = connect(sharded, "write")
    loader.insert(Kind.ALIGN, DOCUMENTS[Kind.ALIGN])
    loader.close()
    last = connect(sharded, "write")
    last.finish()
    with pytest.raises(EngineError, match="another schema"):
        last.create(Schema(kinds=(Kind.RNA,)))
    last.close()
    reader = connect(sharded, "read")
    ids = [d["_id"] for d in DOCUMENTS[Kind.ALIGN]]
    assert reader.get_many(Kind.ALIGN, ids) == DOCUMENTS[Kind.ALIGN]
    reader.close()
    # Servers of different schemas are no store.
    one = replace(sharded, endpoints=(replace(sharded.endpoints[0], index=0),))
    SERVED[sharded.engine].empty(one)
    with pytest.raises(EngineError, match=r"data1.*data0.*none"):
        connect(sharded, "read")


def test_writers_of_the_same_ids_do_not_block_each_other(sharded):
    """Four clients write the same rows at once, each in another order; ids new, then known."""
    client = connect(sharded, "write")
    loads = [*(sample(100 + n, 3000)[Kind.ALIGN] for n in range(2)), *[DOCUMENTS[Kind.ALIGN]] * 2]
    together = threading.Barrier(4, timeout=600)

    def write(seed):
        mine = client.open_thread()
        for number, documents in enumerate(loads):
            batch = [{**d, "gene": f"{seed}-{number}"} for d in documents]
            random.Random(seed + number).shuffle(batch)
            together.wait()
            mine.insert(Kind.ALIGN, batch)

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(write, range(4)))
    for number in (0, 1, 3):
        result = client.get_many(Kind.ALIGN, [d["_id"] for d in loads[number]])
        assert None not in result
        assert {d["gene"].split("-")[1] for d in result} == {str(number)}
    assert client.count(Count(Kind.ALIGN)) == len(DOCUMENTS[Kind.ALIGN]) + 2 * 3000
    client.close()


@pytest.mark.slow
@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=pytest.mark.needs(name)) for name in ("postgres", "mariadb")]
)
def test_serializable_clients_that_meet_try_again(name, tmp_path):
    """Four threads load rows that overlap and change the same ones: nothing fails or is lost."""
    rows = list(Readings().batches(Readings().rows(0, 400), 100))
    same = [document["_id"] for document in rows[0][:5]]
    schema = Schema((MEASURES,), ((MEASURES, "mv"),), "before")
    with running(name, tmp_path / "servers", consistency="serializable", schema=schema) as result:
        client = connect(replace(result.cluster, kinds=(MEASURES,)), "write")

        def work(thread):
            mine = client.open_thread()
            for batch in rows[thread:] + rows[:thread]:
                mine.insert(MEASURES, batch)
            for n in range(40):
                assert (
                    mine.update(MEASURES, same[n % 5], {"mv": float(100 * thread + n)}) is not False
                )
                assert mine.get(MEASURES, same[n % 5]) is not None
            return mine.count(Count(MEASURES, (Where("mv", ">", 0),)))

        with ThreadPoolExecutor(4) as pool:
            counts = list(pool.map(work, range(4)))
        assert max(counts) <= 400
        assert client.count(Count(MEASURES)) == 400
        # The last change of one of the threads is there, whole.
        last = {float(100 * thread + n) for thread in range(4) for n in range(35, 40)}
        assert {document["mv"] for document in client.get_many(MEASURES, same)} <= last
        client.finish()
        client.close()
