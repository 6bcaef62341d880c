"""The client of Riak against a stand-in that behaves, and that does not."""

import socket
import time

import pytest
from support.riak.standin import Standin
from support.servers.samples import sample

from storewise.documents import KINDS, Kind
from storewise.engines.contract.engine import Cluster, Endpoint, Schema
from storewise.engines.registry import engine
from storewise.engines.riak import connection as connection_module
from storewise.errors import EngineError

DOCUMENTS = sample(3, alignments=60)
RNA = DOCUMENTS[Kind.RNA]
IDS = [d["_id"] for d in RNA]


@pytest.fixture
def node():
    result = Standin()
    yield result
    result.fault = ""
    result.close()


def cluster_of(*nodes, **settings):
    endpoints = tuple(
        Endpoint("data", index, "here", "127.0.0.1", node.port, {"http": 1})
        for index, node in enumerate(nodes)
    )
    return Cluster(engine="riak", endpoints=endpoints, settings=settings)


def writer(cluster, schema=None):
    client = engine("riak").connect(cluster, "write")
    client.create(schema or Schema())
    return client


@pytest.mark.parametrize("connections", [1, 4, 64])
def test_batches_come_back_in_order(node, connections):
    client = writer(cluster_of(node, connections=connections))
    for kind in KINDS:
        client.insert(kind, DOCUMENTS[kind])
        ids = [d["_id"] for d in DOCUMENTS[kind]]
        expected = [*DOCUMENTS[kind], None, DOCUMENTS[kind][0]]
        assert client.get_many(kind, [*ids, b"?" * 12, ids[0]]) == expected
    assert client.get_many(Kind.RNA, []) == []
    # While a batch is on its way a watcher hears of each document that the node has taken.
    told = []
    client.on_acknowledged = told.append
    client.insert(Kind.ALIGN, DOCUMENTS[Kind.ALIGN])
    assert sum(told) == len(DOCUMENTS[Kind.ALIGN]) and len(told) > 1
    # Of an id that comes twice in a batch the last one counts, over whatever connection it goes.
    twice = [{**RNA[0], "b": number} for number in range(50)]
    client.insert(Kind.RNA, twice)
    assert client.get(Kind.RNA, IDS[0]) == twice[-1]
    client.close()


@pytest.mark.parametrize(
    ("fault", "words"),
    [
        ("overload", r"riak: get: data0 at 127\.0\.0\.1:\d+: overload"),
        (
            "garbage",
            r"riak: rna: the answer for the key [0-9a-f]{24}: a message ends within field 1",
        ),
        ("oversized", r"riak: get: data0 at 127\.0\.0\.1:\d+: a frame of 4294967295 bytes"),
        ("wrong", r"answered with code 18 instead of 10"),
        ("cut", r"riak: get: data0 at .*closed the connection in the middle of an answer"),
        ("slow", r"riak: get: data0 at .*no answer within 0\.5 s.*timeout_seconds"),
        ("siblings", r"rna: the key [0-9a-f]{24} has 2 siblings.*allow_mult"),
    ],
)
def test_whatever_goes_wrong_is_one_clear_error_and_the_next_request_works(node, fault, words):
    client = writer(cluster_of(node, timeout_seconds=0.5))
    client.insert(Kind.RNA, RNA)
    node.fault = fault
    with pytest.raises(EngineError, match=words) as caught:
        client.get(Kind.RNA, IDS[0])
    assert "\n" not in str(caught.value)
    with pytest.raises(EngineError):
        client.get_many(Kind.RNA, IDS)
    with pytest.raises(EngineError):
        client.insert(Kind.RNA, RNA)
    node.fault = ""
    assert client.get(Kind.RNA, IDS[0]) == RNA[0]
    assert client.get_many(Kind.RNA, IDS) == RNA
    client.close()


def test_a_value_of_somebody_else_is_an_error(node):
    client = writer(cluster_of(node))
    for value in (b"not JSON", b"[1]", b"{}"):
        node.store(b"rna", IDS[0], time.time_ns(), value)
        with pytest.raises(EngineError, match=r"rna.*no document of Storewise's"):
            client.get(Kind.RNA, IDS[0])
    client.close()


def test_a_node_that_was_started_again_is_found_again(tmp_path):
    log = tmp_path / "objects"
    first = Standin(log=log)
    client = writer(cluster_of(first))
    client.insert(Kind.RNA, RNA)
    address = ("127.0.0.1", first.port)
    first.close()
    with pytest.raises(EngineError, match=rf"riak: get: data0 at 127\.0\.0\.1:{address[1]}: "):
        client.get(Kind.RNA, IDS[0])
    again = Standin(address=address, log=log)
    assert client.get_many(Kind.RNA, IDS) == RNA
    again.close()
    # A connection that nobody used while its node was away.
    third = Standin(address=address, log=log)
    assert client.get(Kind.RNA, IDS[1]) == RNA[1]
    client.close()
    third.close()


def test_requests_go_to_other_nodes_when_one_is_lost(tmp_path):
    """Two nodes with the same content: both keep their objects in one place."""
    one, two = Standin(), Standin()
    two.objects = one.objects
    client = writer(cluster_of(one, two))
    client.insert(Kind.RNA, RNA)
    assert two.asked[11] > 0 and one.asked[11] > 0, "connections spread over the nodes"
    one.close()
    assert client.get_many(Kind.RNA, IDS) == RNA
    assert [client.get(Kind.RNA, i) for i in IDS] == RNA
    fresh = engine("riak").connect(cluster_of(one, two), "read")
    assert fresh.get(Kind.RNA, IDS[0]) == RNA[0]
    two.close()
    for reader in (client, fresh):
        with pytest.raises(EngineError, match=rf"{one.port}.*{two.port}|{two.port}.*{one.port}"):
            reader.get(Kind.RNA, IDS[0])
        reader.close()


@pytest.mark.parametrize("connections", [1, 4])
@pytest.mark.parametrize("window", [1, 3, 32])
def test_a_node_is_lost_in_the_middle_of_a_batch(connections, window, monkeypatch):
    """Of what was sent at once some is answered, some is not."""
    monkeypatch.setattr(connection_module, "_WINDOW", window)
    one, two = Standin(), Standin()
    two.objects = one.objects
    client = writer(cluster_of(one, two, connections=connections))
    client.insert(Kind.RNA, RNA)
    assert client.get_many(Kind.RNA, IDS) == RNA
    answer, last = one.answer, one.asked[9] + 5

    def until_then(code, body):
        if one.asked[9] >= last:
            raise ConnectionError
        yield from answer(code, body)

    monkeypatch.setattr(one, "answer", until_then)
    for _ in range(3):
        assert client.get_many(Kind.RNA, IDS) == RNA
    client.close()
    one.close()
    two.close()


@pytest.mark.parametrize("connections", [1, 4])
def test_what_was_with_a_node_that_died_is_asked_of_the_next(connections):
    """A real one answers such a request with `timeout`, after a minute."""
    one, two = Standin(), Standin()
    two.objects = one.objects
    client = writer(cluster_of(one, two, connections=connections))
    client.insert(Kind.RNA, RNA)
    one.fault = "timeout"
    client.insert(Kind.RNA, RNA)
    assert client.get_many(Kind.RNA, IDS) == RNA
    assert [client.get(Kind.RNA, i) for i in IDS] == RNA
    two.fault = "timeout"
    request = one.asked[9] + two.asked[9]
    with pytest.raises(
        EngineError, match=r"riak: get: data\d at .*: timeout; data\d at .*: timeout$"
    ):
        client.get(Kind.RNA, IDS[0])
    assert one.asked[9] + two.asked[9] - request == 2, "once more, not for ever"
    two.fault = "overload"
    one.fault = ""
    with pytest.raises(EngineError, match="overload"):
        for document_id in IDS:
            client.open_thread().get(Kind.RNA, document_id)
    client.close()
    one.close()
    two.close()


def test_nobody_there_and_nobody_speaking():
    with socket.socket() as closed, socket.socket() as mute:
        for result in (closed, mute):
            result.bind(("127.0.0.1", 0))
        mute.listen()
        for where in (closed, mute):
            port = where.getsockname()[1]
            endpoint = Endpoint("data", 0, "here", "127.0.0.1", port)
            with pytest.raises(EngineError, match=rf"riak: connect: .*127\.0\.0\.1:{port}"):
                engine("riak").connect(
                    Cluster(engine="riak", endpoints=(endpoint,), settings={"timeout_seconds": 2}),
                    "read",
                )


def test_the_owner_is_the_servers(node):
    other = Standin("riak2@127.0.0.1")
    client = writer(cluster_of(node, other))
    for one in (node, other):
        one.members, one.n_val = ["riak1@127.0.0.1", "riak2@127.0.0.1"], 2
    owners = {i: client.owner(Kind.RNA, i) for i in IDS}
    assert set(owners.values()) == {"data0", "data1"}
    for document_id, owner in owners.items():
        (_, first), _ = node.holders(b"rna", document_id)
        assert owner == {"riak1@127.0.0.1": "data0", "riak2@127.0.0.1": "data1"}[first]
    request = node.asked[33] + other.asked[33]
    assert request <= 16, "each partition is asked for once"
    client.close()
    # A server whose ring is cut otherwise must not be believed silently.
    wrong = engine("riak").connect(cluster_of(node, other, ring_size=1024), "read")
    with pytest.raises(EngineError, match=r"partition \d+ of 1024, but the server has it in"):
        for document_id in IDS:
            wrong.owner(Kind.RNA, document_id)
    wrong.close()
    other.close()


def test_kinds_settings_and_levels(node):
    cluster = cluster_of(node)
    unmade = engine("riak").connect(cluster, "write")
    with pytest.raises(EngineError, match="rna was never created"):
        unmade.insert(Kind.RNA, RNA)
    unmade.close()
    client = writer(cluster, Schema(kinds=(Kind.RNA,)))
    reader = engine("riak").connect(cluster, "read")
    with pytest.raises(EngineError, match="gs was never created"):
        reader.get(Kind.GS, IDS[0])
    with pytest.raises(EngineError, match="connected to write"):
        reader.insert(Kind.RNA, RNA)
    for wrong in ({**RNA[0], "_id": None}, {**RNA[0], "_id": b"short"}, {**RNA[0], "x": 1}):
        with pytest.raises(EngineError, match="rna"):
            client.insert(Kind.RNA, [RNA[1], wrong])
    assert reader.get(Kind.RNA, IDS[1]) is None, "a refused batch leaves nothing behind"
    for closed in (client, reader):
        thread = closed.open_thread()
        closed.close()
        with pytest.raises(EngineError, match="closed"):
            thread.get(Kind.RNA, IDS[0])
    for settings, level, words in (
        ({}, "nothing", r"'nothing'.*durable"),
        ({"backend": "memory"}, "durable", "keeps nothing on disk.*relaxed"),
    ):
        refused = Cluster("riak", (), cluster.endpoints, settings, consistency=level)
        with pytest.raises(EngineError, match=words):
            engine("riak").connect(refused, "read")
    with pytest.raises(EngineError, match="endpoints"):
        engine("riak").connect(Cluster("riak"), "read")
