"""MariaDB and MySQL: what real servers make of what is sent."""

from contextlib import closing
from dataclasses import replace
from itertools import product
from pathlib import Path

import pytest
from support.servers.local import running
from support.servers.mariadb import ENGINE, node
from support.servers.samples import sample
from support.servers.stores import Target, available

from storewise.documents import Kind
from storewise.engines.contract.engine import Endpoint, Schema
from storewise.engines.contract.queries import Count, Find, Top, between
from storewise.engines.contract.server import Topology
from storewise.engines.mysql.connection import sign_in
from storewise.errors import EngineError
from storewise.session.server.server import start_server

pytestmark = pytest.mark.xdist_group("mariadb")


@pytest.fixture(
    params=[
        pytest.param(pair, id="-".join(pair), marks=[pytest.mark.slow] if number else [])
        for number, pair in enumerate(product(["mysqlclient", "pymysql"], ["load_data", "insert"]))
    ]
)
def writer(request, clusters):
    driver, bulk = request.param
    cluster = clusters.fresh(Target("mariadb", 1, (("driver", driver),)))
    cluster = replace(cluster, settings={**cluster.settings, "bulk": bulk})
    with closing(ENGINE.connect(cluster, "write")) as client:
        client.create(Schema())
        yield client


NASTY = "tab\t newline\n return\r back\\slash \\N \\0 'one' \"two\" nul\0 end\x1a %s é✓😀 "


def test_texts_with_the_signs_of_the_format_come_back(writer):
    documents = [
        {**document, "s": text, "seqid": text[::-1]}
        for document, text in zip(
            sample(1, 6)[Kind.GS], [NASTY, "", " ", "\\N", "NULL", NASTY * 5000], strict=True
        )
    ]
    documents[0]["b"] = None
    writer.insert(Kind.GS, documents)
    assert writer.get_many(Kind.GS, [d["_id"] for d in documents]) == documents


def test_blanks_and_cases_are_told_apart(writer):
    documents = sample(1, 5)[Kind.ALIGN]
    for document, gene in zip(documents, ["a", "a ", "A", "á", "a "], strict=True):
        document["gene"] = gene
    writer.insert(Kind.ALIGN, documents)
    assert writer.top(Top(Kind.ALIGN, "gene", 9)) == [("a ", 2), ("A", 1), ("a", 1), ("á", 1)]
    assert len(writer.find(Find(Kind.ALIGN, between("gene", "a", "a")))) == 1


def test_what_does_not_fit_is_refused_and_nothing_stays(writer):
    good, bad = sample(1, 2)[Kind.RNA]
    for value in (1 << 63, -(1 << 63) - 1, 1.5, "1", True):
        with pytest.raises(EngineError, match=r"mariadb|cannot hold"):
            writer.insert(Kind.RNA, [good, {**bad, "b": value}])
        assert writer.count(Count(Kind.RNA)) == 0
        writer.insert(Kind.RNA, [good])
        with pytest.raises(EngineError):
            writer.update(Kind.RNA, good["_id"], {"b": value})
        assert writer.get(Kind.RNA, good["_id"]) == good
        assert writer.delete(Kind.RNA, good["_id"])


@pytest.fixture
def started(tmp_path):
    settings = available("mariadb")
    request = replace(
        node(ENGINE.find(settings)), address="127.0.0.1", directory=tmp_path / "it is #1" / "data0"
    )
    server = start_server(ENGINE, request, tmp_path / "log", lambda: None)
    try:
        yield server.node, tmp_path, server.pid
    finally:
        server.stop()


@pytest.mark.slow
def test_a_password_is_nowhere_to_be_read(started):
    request, place, pid = started
    password = request.credentials.password.encode()
    for path in place.rglob("*"):
        if path.is_file():
            assert password not in path.read_bytes(), path
    seen = Path(f"/proc/{pid}/cmdline").read_bytes() + Path(f"/proc/{pid}/environ").read_bytes()
    assert b"my.cnf" in seen and password not in seen


@pytest.mark.slow
def test_only_the_user_of_the_session_comes_in(started):
    request, _, _ = started
    endpoint = Endpoint("data", 0, "here", request.address, request.port)
    assert ENGINE.answers(endpoint, request.credentials)
    for user, password in [("storewise", "x"), ("storewise", ""), ("root", ""), ("", "")]:
        with pytest.raises(EngineError, match=rf"127\.0\.0\.1:{request.port}.*denied"):
            ENGINE.answers(endpoint, replace(request.credentials, user=user, password=password))
    with closing(sign_in(request.address, request.port, request.credentials)) as link:
        granted = " ".join(str(row[0]) for row in link.rows("SHOW GRANTS"))
    assert "PROCESS ON *.*" in granted and "ALL PRIVILEGES ON *.*" not in granted


@pytest.mark.slow
def test_an_option_that_the_server_does_not_know_is_named(tmp_path):
    settings = {**available("mariadb"), "config": {"innodb_no_such_thing": 1}}
    shape = Topology(memory_mb=256)
    with (
        pytest.raises(EngineError, match=r"innodb[-_]no[-_]such[-_]thing"),
        running("mariadb", tmp_path, shape, settings),
    ):
        pytest.fail("the server has started")
