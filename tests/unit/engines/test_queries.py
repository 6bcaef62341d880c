"""Queries answered from plain documents, and the verbs that a client need not have."""

import pytest

from storewise.documents import Field, Kind
from storewise.engines.contract.engine import Client
from storewise.engines.contract.queries import Count, Find, Histogram, Scan, Top, Where
from storewise.errors import EngineError

ROW = Kind("row", (Field("_id", "id", ""), Field("n", "int", ""), Field("x", "float", "")))
NUMBERS = [3, None, 1, 3, 2, None, 1, 3]
DOCUMENTS = [
    {"_id": bytes([i]) * 12, "n": n, "x": None if n is None else n / 10}
    for i, n in enumerate(NUMBERS)
]


class Scanning(Client):
    """Has nothing but scans."""

    def __init__(self):
        self.scans = []

    def create(self, schema): ...

    def insert(self, kind, documents): ...

    def get(self, kind, document_id):
        return next((d for d in DOCUMENTS if d["_id"] == document_id), None)

    def scan(self, query):
        self.scans.append(query)
        return query.answer(DOCUMENTS)

    def disk_bytes(self): ...

    def close(self): ...


def numbers(documents):
    return [d["_id"][0] for d in documents]


def test_defaults_answer_from_scans():
    client = Scanning()
    few = (Where("n", ">=", 2),)
    assert numbers(client.find(Find(ROW, few))) == [0, 3, 4, 7]
    assert numbers(client.find(Find(ROW, few, "n", limit=3))) == [4, 0, 3]
    assert numbers(client.find(Find(ROW, (), "x"))) == [2, 6, 4, 0, 3, 7]
    assert client.count(Count(ROW, few)) == 4
    assert client.count(Count(ROW)) == 8
    assert client.top(Top(ROW, "n", 2)) == [(3, 3), (1, 2)]
    assert client.histogram(Histogram(ROW, "n", 2)) == {0: 2, 1: 4}
    assert client.get_many(ROW, [DOCUMENTS[3]["_id"], b"?"]) == [DOCUMENTS[3], None]
    for verb in (lambda: client.explain(Find(ROW)), lambda: client.update(ROW, b"", {"n": 1})):
        with pytest.raises(EngineError, match="flags"):
            verb()


def test_every_document_is_read_once_page_by_page():
    client = Scanning()
    assert list(client.every(ROW, page=3)) == DOCUMENTS
    assert [query.limit for query in client.scans] == [3, 3, 3]
    assert client.scans[1].after == DOCUMENTS[2]["_id"]


def test_answers_of_several_stores_become_one():
    parts = [DOCUMENTS[::2], DOCUMENTS[1::2]]
    assert Scan(ROW, b"", 5).merged(parts) == DOCUMENTS[:5]
    assert numbers(Find(ROW, (), "n", limit=3).merged(parts)) == [2, 6, 4]
    assert Top(ROW, "n", 2).merged([[(1, 2), (2, 2)], [(2, 1), (3, 2)]]) == [(2, 3), (1, 2)]


def test_scans_begin_at_an_id_or_behind_one():
    first = bytes([3]) * 12
    assert numbers(Scan(ROW, first, 2).answer(DOCUMENTS)) == [3, 4]
    assert numbers(Scan(ROW, b"", 2, after=first).answer(DOCUMENTS)) == [4, 5]
