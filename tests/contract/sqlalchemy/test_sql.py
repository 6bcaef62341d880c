"""Engine `sql` on real databases: its levels, what it leaves, and its secrets.

Its verbs are tested with those of all other engines."""

from dataclasses import replace

import pytest
from support.servers.samples import connect, sample
from support.servers.stores import SERVERS, cells

from storewise.documents import Kind
from storewise.engines.contract.engine import Cluster, Schema
from storewise.engines.contract.queries import Count
from storewise.engines.registry import engine
from storewise.engines.sqlalchemy.engine import SqlEngine
from storewise.errors import EngineError

pytestmark = pytest.mark.slow
DOCUMENTS = sample(0, alignments=20)


@pytest.fixture(params=cells(t for t in SERVERS if t.name == "sql"))
def fresh(request, clusters):
    return clusters.fresh(request.param)


@pytest.mark.parametrize("level", list(SqlEngine.consistencies))
def test_each_level_has_its_isolation(fresh, level):
    client = connect(replace(fresh, consistency=level), "write")
    client.create(Schema())
    for kind, documents in DOCUMENTS.items():
        client.insert(kind, documents)
        assert client.get(kind, documents[0]["_id"]) == documents[0]
        assert client.count(Count(kind)) == len(documents)
    client.finish()
    assert (client.disk_bytes() or 0) > 1000
    client.close()


def test_a_trial_leaves_nothing(fresh):
    import sqlalchemy as sa

    described = SqlEngine()
    fresh = replace(fresh, settings={**fresh.settings, "prefix": "mine"})
    client = described.connect(fresh, "write")
    client.create(Schema(indexes=((Kind.ALIGN, "gene"),), index_time="before"))
    names = client._shared.engine.connect()
    with names:
        mine = [n for n in sa.inspect(names).get_table_names() if n.startswith("mine_")]
        assert len(mine) == 5
    client.close()
    assert described.server(fresh)["server"].split()[0] in ("sqlite", "postgresql", "mysql")
    described.drop(fresh)
    described.drop(fresh)  # what is gone already is no error
    other = described.connect(fresh, "write")
    with other._shared.engine.connect() as names:
        result = sa.inspect(names).get_table_names()
    other.close()
    assert not [n for n in result if n.startswith("mine_")]


@pytest.mark.xdist_group("postgres")
def test_secrets_are_in_no_message(clusters, tmp_path, monkeypatch):
    wrong = "not-the-password"
    url = clusters.url("postgres")
    password = url.split("@")[0].rsplit(":", 1)[1]
    monkeypatch.setenv("MY_DATABASE", url.replace(password, wrong))
    cluster = Cluster("sql", settings={"url_env": "MY_DATABASE"})
    with pytest.raises(EngineError, match="postgresql postgres at") as caught:
        engine("sql").connect(cluster, "read")
    assert wrong not in str(caught.value)
    monkeypatch.setenv("MY_DATABASE", "postgresql+psycopg://me:hunter2@127.0.0.1:1/x")
    with pytest.raises(EngineError, match=r"127\.0\.0\.1:1") as caught:
        engine("sql").connect(cluster, "read")
    assert "hunter2" not in str(caught.value)
    monkeypatch.delenv("MY_DATABASE")
    with pytest.raises(EngineError, match="MY_DATABASE"):
        engine("sql").connect(cluster, "read")
    gone = Cluster("sql", settings={"url_file": str(tmp_path / "gone")})
    with pytest.raises(EngineError, match="gone"):
        engine("sql").connect(gone, "read")


def test_a_killed_run_s_tables_are_dropped_by_the_next(tmp_path):
    import logging
    import sqlite3

    from storewise.session.jobs.external import external_store
    from storewise.study.load import load_study

    path = tmp_path / "s.yaml"
    path.write_text(
        f"workload: measures\nengines: {{sql: {{url: 'sqlite:///{tmp_path}/x.db'}}}}\n"
        "phases: [load: {rows: 1000}]\n"
    )
    (trial,) = load_study(path).trials()
    log = logging.getLogger("test")

    def names():
        with sqlite3.connect(tmp_path / "x.db") as result:
            rows = result.execute("SELECT name FROM sqlite_master WHERE name LIKE 'sw%'")
            return {name.split("_")[1] for (name,) in rows if name.endswith("_measures")}

    # A load's job ends and no verification follows.
    with external_store(trial, "first", tmp_path, log, creates=True):
        pass
    (old,) = names()
    with external_store(trial, "second", tmp_path, log, creates=True):
        assert len(names()) == 1 and old not in names()
    with external_store(trial, "second", tmp_path, log, ends=True):
        pass
    assert not names()
    with pytest.raises(RuntimeError), external_store(trial, "third", tmp_path, log, creates=True):
        assert len(names()) == 1
        raise RuntimeError
    assert not names() and not list((tmp_path / "external").iterdir())
    kept = trial.model_copy(update={"keep_data": True})
    with external_store(kept, "fourth", tmp_path, log, creates=True, ends=True):
        pass
    assert len(names()) == 1
