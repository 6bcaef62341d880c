"""A thread's own connection to MongoDB: it answers, or leaves the question to the driver."""

from __future__ import annotations

import socket
import struct
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import bson
import pytest
from engine_samples import sample
from server_stores import Clusters, Target

from storewise.documents import Kind
from storewise.engines.base import Cluster, Schema
from storewise.engines.mongo import MongoEngine
from storewise.engines.mongo_client import MongodbClient
from storewise.engines.mongo_lane import Lane, Trouble
from storewise.engines.server import Credentials
from storewise.errors import EngineError

pytestmark = pytest.mark.slow

ENGINE = MongoEngine()
RNA = sample(8, alignments=300)[Kind.RNA]


@pytest.fixture(scope="module")
def cluster(clusters: Clusters) -> Cluster:
    return clusters.fresh(Target("mongodb", 1))


@pytest.fixture
def base(cluster: Cluster) -> Iterator[MongodbClient]:
    found = connect(cluster)
    found.create(Schema())
    found.insert(Kind.RNA, RNA)
    yield found
    found.close()


def connect(cluster: Cluster, **settings: object) -> MongodbClient:
    chosen = replace(cluster, settings={**cluster.settings, **settings})
    found = ENGINE.connect(chosen, "write")
    assert isinstance(found, MongodbClient)
    return found


def open_lane(client: MongodbClient) -> bool:
    return client._lane is not None and client._lane.open


def test_threads_have_connections_of_their_own(base: MongodbClient) -> None:
    def work(number: int) -> MongodbClient:
        mine = base.for_thread()
        for document in RNA[number::8]:
            assert mine.get(Kind.RNA, document["_id"]) == document
            assert mine.update(Kind.RNA, document["_id"], {"b": number})
            mine.insert(Kind.RNA, [document, document])
        assert mine.get_many(Kind.RNA, [d["_id"] for d in RNA[number::8]]) == RNA[number::8]
        return mine

    with ThreadPoolExecutor(8) as pool:
        used = list(pool.map(work, range(8)))
    assert all(map(open_lane, used)) and len({id(client._lane) for client in used}) == 8
    assert not open_lane(base) and base.count(Kind.RNA) == len(RNA)


def test_settings_that_leave_everything_to_the_driver(cluster: Cluster) -> None:
    for settings, level in (
        ({"direct": False}, ""),
        ({"read_preference": "nearest"}, ""),
        ({}, "unacknowledged"),
    ):
        client = connect(replace(cluster, consistency=level), **settings)
        client.create(Schema())
        mine = client.for_thread()
        mine.insert(Kind.RNA, RNA[:1])
        mine.flush()
        assert mine.get(Kind.RNA, RNA[0]["_id"]) == RNA[0]
        assert not open_lane(mine)
        client.close()


def test_answers_longer_than_one_message(base: MongodbClient) -> None:
    """Several batches of a cursor, because one answer has at most 16 MB."""
    long = [{**document, "s": "ACGT" * 100_000} for document in RNA[:60]]
    mine = base.for_thread()
    mine.insert(Kind.RNA, long)
    expected = sorted(long, key=lambda d: d["_id"])
    ids = [d["_id"] for d in expected]
    assert mine.get_many(Kind.RNA, ids) == expected
    assert mine.scan(Kind.RNA, b"", 1000) == sorted([*long, *RNA[60:]], key=lambda d: d["_id"])
    assert open_lane(mine)
    mine.insert(Kind.RNA, RNA)


def test_a_broken_connection_is_the_driver_s_matter_for_a_moment(base: MongodbClient) -> None:
    mine = base.for_thread()
    for verb in (
        lambda: mine.get(Kind.RNA, RNA[0]["_id"]) == RNA[0],
        lambda: mine.insert(Kind.RNA, RNA[:3]) is None,
        lambda: mine.update(Kind.RNA, RNA[0]["_id"], {"b": RNA[0]["b"]}),
        lambda: len(mine.scan(Kind.RNA, b"", 20)) == 20,
    ):
        until = time.monotonic() + 30
        while not open_lane(mine):
            assert mine.get(Kind.RNA, RNA[1]["_id"]) == RNA[1]
            assert time.monotonic() < until
        assert mine._lane is not None
        mine._lane._socket.shutdown(socket.SHUT_RDWR)
        assert verb() and not open_lane(mine)


def test_what_bson_cannot_hold_is_one_error_and_the_connection_stays(base: MongodbClient) -> None:
    mine = base.for_thread()
    for wrong in (1 << 70, {1, 2}, "\ud800"):
        with pytest.raises(EngineError, match="mongodb: update"):
            mine.update(Kind.RNA, RNA[0]["_id"], {"b": wrong})
    assert mine.get(Kind.RNA, RNA[0]["_id"]) == RNA[0]
    assert open_lane(mine)
    base.close()
    with pytest.raises(EngineError):
        mine.get(Kind.RNA, RNA[0]["_id"])
    with pytest.raises(EngineError):
        base.for_thread().get(Kind.RNA, RNA[0]["_id"])


def test_whom_the_server_refuses(cluster: Cluster) -> None:
    assert cluster.credentials is not None
    secrets = Credentials.read(cluster.credentials)
    at = cluster.endpoints[0]
    with pytest.raises(Trouble, match="Authentication failed"):
        Lane(at.address, at.port, secrets.user, "wrong")
    with pytest.raises(Trouble, match="Authentication failed"):
        Lane(at.address, at.port, "no,bo=dy", secrets.password)
    lane = Lane(at.address, at.port, secrets.user, secrets.password)
    with pytest.raises(Trouble, match="no such command"):
        lane.ask({"paint": 1, "$db": "storewise"})
    assert not lane.open
    with pytest.raises(Trouble):
        lane.ask({"ping": 1, "$db": "admin"})


@pytest.mark.parametrize(
    "answer", ["nothing", "half", "foreign", "rubbish", "empty", "no payload", "no password"]
)
def test_answers_that_are_none(answer: str) -> None:
    """A server that closes, sends half an answer, one to another request, or knows no password."""

    def frame(number: int, **document: object) -> bytes:
        body = bson.encode(document)
        return struct.pack("<iiiiiB", 21 + len(body), 1, number, 2013, 0, 0) + body

    found = frame(1, ok=1.0, conversationId=1, payload=b"r=mine,s=AAAA,i=1", done=False)
    answers = {
        "nothing": b"",
        "half": found[:30],
        "foreign": frame(7, ok=1.0),
        "rubbish": found[:21] + b"\xff" * (len(found) - 21),
        "empty": frame(1),
        "no payload": frame(1, ok=1.0),
        "no password": found,
    }
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve() -> None:
            connection, _ = server.accept()
            with connection:
                connection.recv(1 << 16)
                connection.sendall(answers[answer])

        thread = threading.Thread(target=serve)
        thread.start()
        with pytest.raises(Trouble):
            Lane("127.0.0.1", server.getsockname()[1], "user", "password")
        thread.join()
