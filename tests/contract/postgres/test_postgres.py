"""PostgreSQL: who enters, indexes, ways to load, and levels, on real servers."""

from contextlib import closing
from dataclasses import replace
from operator import itemgetter
from pathlib import Path

import pytest
from support.servers.local import running
from support.servers.samples import connect, fill, sample, secrets_of
from support.servers.stores import Target, available

from storewise.documents import KINDS, Kind
from storewise.engines.contract.engine import Schema
from storewise.engines.contract.queries import Scan
from storewise.engines.contract.server import Topology
from storewise.engines.postgres.client import connect as sign_in

HARD = 'it\'s \\ "2" $(touch x) `touch y` ; # {z} ${HOME} %s \N{GREEK SMALL LETTER MU}'
pytestmark = pytest.mark.xdist_group("postgres")


@pytest.fixture
def columns(clusters):
    return clusters.fresh(Target("postgres", 1))


def _ask(cluster, sql):
    (endpoint,) = cluster.endpoints
    with sign_in(endpoint, secrets_of(cluster)) as connection:
        return connection.execute(sql).fetchall()


def test_the_environment_of_a_user_does_not_count(columns, monkeypatch):
    for name, value in {
        "PGHOST": "/nowhere",
        "PGHOSTADDR": "192.0.2.1",
        "PGOPTIONS": "-c default_transaction_read_only=on",
        "PGSSLMODE": "require",
        "PGCHANNELBINDING": "require",
        "PGCLIENTENCODING": "LATIN1",
    }.items():
        monkeypatch.setenv(name, value)
    fill(columns, sample(1, 20))


@pytest.mark.slow
@pytest.mark.parametrize("bulk", ["insert", "copy"])
def test_the_same_is_stored_whatever_way(bulk, clusters):
    cluster = clusters.fresh(Target("postgres", 3))
    cluster = replace(cluster, settings={**cluster.settings, "bulk": bulk})
    documents = sample(1, 300)
    fill(cluster, documents)
    again = [{**d, "gene": "x"} for d in documents[Kind.ALIGN][:50]]
    with closing(connect(cluster, "write")) as client:
        client.insert(Kind.ALIGN, [*documents[Kind.ALIGN][:90], *again])
        for kind in KINDS:
            expected = [*again, *documents[kind][50:]] if kind is Kind.ALIGN else documents[kind]
            assert client.scan(Scan(kind, b"", 10_000)) == sorted(expected, key=itemgetter("_id"))
            assert [client.get(kind, d["_id"]) for d in expected[:20]] == expected[:20]


#: synchronous_commit, fsync, full_page_writes, transaction_isolation, and how tables are kept.
LEVELS = {
    "relaxed": (["off", "on", "on", "read committed"], "p"),
    "unsafe": (["off", "off", "off", "read committed"], "p"),
    "serializable": (["on", "on", "on", "serializable"], "p"),
    "unlogged": (["off", "on", "on", "read committed"], "u"),
}


@pytest.mark.slow
@pytest.mark.parametrize("level", LEVELS)
def test_levels_and_settings_reach_the_server(level, tmp_path):
    config = {"work_mem": "7MB", "jit": False, "auto_explain.hard": HARD}
    config["search_path"] = '"$user", public'
    settings = {**available("postgres"), "config": config}
    shape = Topology(memory_mb=256, threads=3)
    schema = Schema(indexes=((Kind.ALIGN, "gene"),), index_time="before")
    with running("postgres", tmp_path / "cluster", shape, settings, level, schema) as result:
        cluster = result.cluster
        (server,) = result.servers.values()

        def shown(*names):
            return [_ask(cluster, f"SHOW {name}")[0][0] for name in names]

        values, kept = LEVELS[level]
        names = ("synchronous_commit", "fsync", "full_page_writes", "transaction_isolation")
        assert shown(*names) == values
        names = ("work_mem", "jit", "auto_explain.hard", "shared_buffers", "max_parallel_workers")
        assert shown(*names) == ["7MB", "off", HARD, "64MB", "2"]
        tables = _ask(
            cluster,
            "SELECT relname, relpersistence FROM pg_class WHERE relkind IN ('r', 'i') "
            "AND relname LIKE 'align%'",
        )
        assert len(tables) == 3 and {how for _, how in tables} == {kept}
        directory = server.node.directory
        assert not (directory / "password").exists()
        assert (directory / "postgresql.conf").stat().st_mode & 0o077 == 0
        pid = server.pid
        assert secrets_of(cluster).password not in Path(f"/proc/{pid}/cmdline").read_text()
    assert not Path(f"/proc/{pid}").exists()
    assert not directory.exists()
    assert "database system is shut down" in server.log.read_text()
