"""Engine `sql` on real databases: its levels, what it leaves, and its secrets.

Its verbs are tested with those of all other engines."""

import logging
import sqlite3
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest
import sqlalchemy as sa
from support.servers.samples import connect, sample
from support.servers.stores import SERVERS, cells

from storewise.documents import Kind
from storewise.engines.contract.engine import Cluster, Schema
from storewise.engines.contract.queries import Count
from storewise.engines.registry import engine
from storewise.engines.sqlalchemy.engine import SqlEngine
from storewise.errors import EngineError
from storewise.session.jobs.external import external_store
from storewise.study.load import load_study

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


def _tables(cluster):
    database = sa.create_engine(Path(cluster.settings["url_file"]).read_text().strip())
    names = sa.inspect(database).get_table_names()
    database.dispose()
    return [name for name in names if name.startswith("mine_")]


def test_a_trial_leaves_nothing(fresh):
    described = SqlEngine()
    fresh = replace(fresh, settings={**fresh.settings, "prefix": "mine"})
    client = described.connect(fresh, "write")
    client.create(Schema(indexes=((Kind.ALIGN, "gene"),), index_time="before"))
    client.close()
    assert len(_tables(fresh)) == 5
    assert described.server(fresh)["server"].split()[0] in ("sqlite", "postgresql", "mysql")
    described.drop(fresh)
    described.drop(fresh)  # what is gone already is no error
    assert not _tables(fresh)


@pytest.mark.xdist_group("postgres")
def test_secrets_are_in_no_message(clusters, tmp_path, monkeypatch):
    url = clusters.url("postgres")
    password = url.split("@")[0].rsplit(":", 1)[1]
    cluster = Cluster("sql", settings={"url_env": "MY_DATABASE"})
    gone = Cluster("sql", settings={"url_file": str(tmp_path / "gone")})
    for text, place, words in (
        (url.replace(password, "hunter2"), cluster, "postgresql postgres at"),
        ("postgresql+psycopg://me:hunter2@127.0.0.1:1/x", cluster, r"127\.0\.0\.1:1"),
        ("", cluster, "MY_DATABASE"),
        ("", gone, "gone"),
    ):
        monkeypatch.setenv("MY_DATABASE", text)
        with pytest.raises(EngineError, match=words) as caught:
            engine("sql").connect(place, "read")
        assert "hunter2" not in str(caught.value)


def test_a_killed_run_s_tables_are_dropped_by_the_next(tmp_path):
    path = tmp_path / "s.yaml"
    path.write_text(
        f"workload: measures\nengines: {{sql: {{url: 'sqlite:///{tmp_path}/x.db'}}}}\n"
        "phases: [load: {rows: 1000}]\n"
    )
    (trial,) = load_study(path).trials()

    def run(session, trial=trial, **more):
        return external_store(trial, session, tmp_path, logging.getLogger("test"), **more)

    def names():
        with closing(sqlite3.connect(tmp_path / "x.db")) as result:
            rows = result.execute("SELECT name FROM sqlite_master WHERE name LIKE 'sw%'")
            return {name.split("_")[1] for (name,) in rows if name.endswith("_measures")}

    # A load's job ends and no verification follows.
    with run("first", creates=True):
        pass
    (old,) = names()
    with run("second", creates=True):
        assert len(names()) == 1 and old not in names()
    with run("second", ends=True):
        pass
    assert not names()
    with pytest.raises(RuntimeError), run("third", creates=True):
        assert len(names()) == 1
        raise RuntimeError
    assert not names() and not list((tmp_path / "external").iterdir())
    with run("fourth", trial.model_copy(update={"keep_data": True}), creates=True, ends=True):
        pass
    assert len(names()) == 1
