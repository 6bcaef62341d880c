"""MariaDB and MySQL: what real servers make of what is sent."""

from contextlib import closing
from pathlib import Path

import pytest
from support.servers.local import running
from support.servers.samples import connect, sample, secrets_of
from support.servers.stores import Target, available

from storewise.documents import Kind
from storewise.engines.contract.engine import Schema
from storewise.engines.contract.queries import Count, Find, Top, Where
from storewise.engines.contract.server import Topology
from storewise.engines.mysql.connection import sign_in
from storewise.errors import EngineError

pytestmark = pytest.mark.xdist_group("mariadb")


@pytest.fixture(params=["mysqlclient", pytest.param("pymysql", marks=pytest.mark.slow)])
def writer(request, clusters):
    cluster = clusters.fresh(Target("mariadb", 1, (("driver", request.param),)))
    with closing(connect(cluster, "write")) as client:
        client.create(Schema())
        yield client


NASTY = "tab\t newline\n return\r back\\slash \\N \\0 'one' \"two\" nul\0 end\x1a %s é✓😀 "


def test_blanks_cases_and_the_signs_of_the_format_come_back(writer):
    documents = sample(1, 5)[Kind.ALIGN]
    for document, gene in zip(documents, ["a", "a ", "A", "á", "a "], strict=True):
        document["gene"] = gene
    for document, text in zip(documents, [NASTY, "", "\\N", "NULL", NASTY * 5000], strict=True):
        document["chr"] = text
    writer.insert(Kind.ALIGN, documents)
    assert writer.get_many(Kind.ALIGN, [d["_id"] for d in documents]) == documents
    assert writer.top(Top(Kind.ALIGN, "gene", 9)) == [("a ", 2), ("A", 1), ("a", 1), ("á", 1)]
    assert len(writer.find(Find(Kind.ALIGN, (Where("gene", "=", "a"),)))) == 1


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


@pytest.mark.slow
def test_levels_reach_the_server_and_a_password_is_nowhere_to_be_read(tmp_path):
    directory, shape = tmp_path / "it is #1", Topology(memory_mb=256)
    with running("mariadb", directory, shape, available("mariadb"), "uncommitted") as result:
        (server,) = result.servers.values()
        secrets, place = secrets_of(result.cluster), server.endpoint
        files = [path for path in server.node.directory.rglob("*") if path.is_file()]
        seen = [Path(f"/proc/{server.pid}/{name}").read_bytes() for name in ("cmdline", "environ")]
        assert b"my.cnf" in seen[0]
        for text in (*seen, *(path.read_bytes() for path in files)):
            assert secrets.password.encode() not in text
        with closing(sign_in(place, secrets)) as link:
            cursor = link.cursor()
            cursor.execute("SHOW GRANTS")
            granted = " ".join(str(row[0]) for row in cursor.fetchall())
            cursor.execute("SHOW VARIABLES")
            values = dict(cursor.fetchall())
    assert "PROCESS ON *.*" in granted and "ALL PRIVILEGES ON *.*" not in granted
    isolation = {values.get(name) for name in ("tx_isolation", "transaction_isolation")}
    assert isolation - {None} == {"READ-UNCOMMITTED"}
    assert values["innodb_flush_log_at_trx_commit"] == "0"
    assert values["innodb_doublewrite"] == "ON"
