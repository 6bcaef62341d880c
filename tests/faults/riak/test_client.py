"""The client of Riak against a stand-in that behaves, and that does not."""

import socket

import pytest
from support.riak.standin import Standin
from support.servers.samples import sample

from storewise.documents import KINDS, Kind
from storewise.engines.contract.engine import Cluster, Endpoint, Schema
from storewise.engines.registry import engine
from storewise.errors import EngineError

DOCUMENTS = sample(3, alignments=400)
RNA = DOCUMENTS[Kind.RNA]
IDS = [d["_id"] for d in RNA]


@pytest.fixture
def nodes(tmp_path):
    """Two nodes with the same content."""
    started = [Standin(tmp_path, f"riak{k}@127.0.0.1") for k in (1, 2)]
    yield started
    for node in started:
        node.close()


def cluster_of(*nodes):
    endpoints = tuple(
        Endpoint("data", index, "here", "127.0.0.1", node.port) for index, node in enumerate(nodes)
    )
    return Cluster(engine="riak", endpoints=endpoints)


def writer(*nodes, schema=None):
    client = engine("riak").connect(cluster_of(*nodes), "write")
    client.create(schema or Schema())
    return client


def test_batches_come_back_in_order(nodes):
    client = writer(nodes[0])
    for kind in KINDS:
        client.insert(kind, DOCUMENTS[kind])
        ids = [d["_id"] for d in DOCUMENTS[kind]]
        expected = [*DOCUMENTS[kind], None, DOCUMENTS[kind][0]]
        assert client.get_many(kind, [*ids, b"?" * 12, ids[0]]) == expected
    assert client.get_many(Kind.RNA, []) == []
    # Of an id that comes twice in a batch the last one counts, over whatever connection it goes.
    twice = [{**RNA[0], "b": number} for number in range(50)]
    client.insert(Kind.RNA, twice)
    assert client.get(Kind.RNA, IDS[0]) == twice[-1]
    client.close()


@pytest.mark.parametrize(
    ("fault", "words"),
    [
        ("overload", r"riak: data0 \(127\.0\.0\.1:\d+\): overload"),
        ("garbage", r"riak: data0 .*Error parsing message"),
        ("oversized", r"riak: data0 .*4294967295 bytes"),
        ("wrong", r"riak: data0 .*answered with code 18"),
        ("cut", r"riak: data0 .*closed the connection"),
        ("slow", r"riak: data0 .*no answer within 0\.2 s"),
    ],
)
def test_whatever_goes_wrong_is_one_clear_error_and_the_next_request_works(
    nodes, fault, words, monkeypatch
):
    node = nodes[0]
    monkeypatch.setattr("storewise.engines.riak.client.ANSWER_SECONDS", 0.2)
    client = writer(node)
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


def test_a_node_that_was_started_again_is_found_again(tmp_path):
    first = Standin(tmp_path)
    client = writer(first)
    client.insert(Kind.RNA, RNA)
    address = ("127.0.0.1", first.port)
    first.close()
    with pytest.raises(EngineError, match=rf"riak: data0 \(127\.0\.0\.1:{address[1]}\): "):
        client.get(Kind.RNA, IDS[0])
    again = Standin(tmp_path, address=address)
    assert client.get_many(Kind.RNA, IDS) == RNA
    again.close()
    # A connection that nobody used while its node was away.
    third = Standin(tmp_path, address=address)
    assert client.get(Kind.RNA, IDS[1]) == RNA[1]
    client.close()
    third.close()


def test_requests_go_to_other_nodes_when_one_is_lost(nodes):
    one, two = nodes
    client = writer(one, two)
    client.insert(Kind.RNA, RNA)
    assert two.asked["RpbPutReq"] and one.asked["RpbPutReq"], "connections spread over the nodes"
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


def test_a_node_is_lost_in_the_middle_of_a_batch(nodes, monkeypatch):
    """Of what was sent at once some is answered, some is not."""
    one, two = nodes
    client = writer(one, two)
    client.insert(Kind.RNA, RNA)
    answer, last = one.answer, one.asked["RpbGetReq"] + 5

    def until_then(code, body):
        if one.asked["RpbGetReq"] >= last:
            raise ConnectionError
        return answer(code, body)

    monkeypatch.setattr(one, "answer", until_then)
    for _ in range(3):
        assert client.get_many(Kind.RNA, IDS) == RNA
    client.close()


def test_what_was_with_a_node_that_died_is_asked_of_the_next(nodes):
    """A real one answers such a request with `timeout`, after a minute."""
    one, two = nodes
    client = writer(one, two)
    client.insert(Kind.RNA, RNA)
    one.fault = "timeout"
    client.insert(Kind.RNA, RNA)
    assert client.get_many(Kind.RNA, IDS) == RNA
    assert [client.get(Kind.RNA, i) for i in IDS] == RNA
    two.fault = "timeout"
    asked = one.asked["RpbGetReq"] + two.asked["RpbGetReq"]
    with pytest.raises(EngineError, match=r"riak: data\d .*: timeout; riak: data\d .*: timeout$"):
        client.get(Kind.RNA, IDS[0])
    assert one.asked["RpbGetReq"] + two.asked["RpbGetReq"] - asked == 3, "not for ever"
    client.close()


def test_nobody_there_and_nobody_speaking(monkeypatch):
    monkeypatch.setattr("storewise.engines.riak.client.PING_SECONDS", 0.5)
    with socket.socket() as closed, socket.socket() as mute:
        for result in (closed, mute):
            result.bind(("127.0.0.1", 0))
        mute.listen()
        for where in (closed, mute):
            port = where.getsockname()[1]
            endpoint = Endpoint("data", 0, "here", "127.0.0.1", port)
            cluster = Cluster("riak", endpoints=(endpoint,))
            with pytest.raises(EngineError, match=rf"riak: data0 \(127\.0\.0\.1:{port}\)"):
                engine("riak").connect(cluster, "read")


def test_the_owner_is_the_servers(nodes):
    client = writer(*nodes)
    names = [node.name for node in nodes]
    for node in nodes:
        node.members, node.n_val = lambda: names, 2
    owners = {i: client.owner(Kind.RNA, i) for i in IDS}
    assert set(owners.values()) == {"data0", "data1"}
    for document_id, owner in owners.items():
        (_, first), _ = nodes[0].holders(b"rna", document_id)
        assert owner == dict(zip(names, ("data0", "data1"), strict=True))[first]
    asked = sum(node.asked["RpbGetBucketKeyPreflistReq"] for node in nodes)
    assert asked <= 16, "each partition is asked for once"
    client.close()
    # A server whose ring is cut otherwise must not be believed silently.
    for node in nodes:
        node.ring_size = 1024
    wrong = engine("riak").connect(cluster_of(*nodes), "read")
    with pytest.raises(EngineError, match=r"partition \d+, but the server says"):
        for document_id in IDS:
            wrong.owner(Kind.RNA, document_id)
    wrong.close()


def test_kinds_and_closed_clients(nodes):
    unmade = engine("riak").connect(cluster_of(nodes[0]), "write")
    with pytest.raises(EngineError, match="rna was never created"):
        unmade.insert(Kind.RNA, RNA)
    unmade.close()
    client = writer(nodes[0], schema=Schema(kinds=(Kind.RNA,)))
    reader = engine("riak").connect(cluster_of(nodes[0]), "read")
    with pytest.raises(EngineError, match="gs was never created"):
        reader.get(Kind.GS, IDS[0])
    for wrong in ({**RNA[0], "_id": None}, {**RNA[0], "_id": b"short"}, {**RNA[0], "x": 1}):
        with pytest.raises(EngineError, match="rna"):
            client.insert(Kind.RNA, [RNA[1], wrong])
    assert reader.get(Kind.RNA, IDS[1]) is None, "a refused batch leaves nothing behind"
    for closed in (client, reader):
        thread = closed.open_thread()
        closed.close()
        with pytest.raises(EngineError, match="closed"):
            thread.get(Kind.RNA, IDS[0])
