"""Engine `sql`: what the other engines promise, through SQLAlchemy, against real databases.

The tests of other modules that are imported here run again with this module's stores.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from support.servers.samples import connect
from support.servers.stores import Target

from storewise.documents import Kind
from storewise.engines.base import Client, Cluster, Schema
from storewise.engines.registry import engine
from storewise.engines.sql import SqlEngine
from storewise.errors import EngineError

if TYPE_CHECKING:
    from support.servers.stores import Clusters

from typing import TYPE_CHECKING

from contract.test_kinds import (  # noqa: F401
    DOCUMENTS,
    KINDS,
    MEASURES,
    test_a_limit_without_an_order,
    test_aggregates,
    test_conditions_on_text_ids,
    test_documents_come_back_by_their_ids,
    test_each_operator_compares_as_python_does,
    test_histograms,
    test_order_limit_and_ties,
    test_plans_are_told,
    test_ranges,
    test_scans_go_in_the_order_of_ids,
    test_wrong_questions_are_refused,
)
from contract.test_verbs import (  # noqa: F401
    EVERY,
    test_an_id_is_overwritten_and_never_doubled,
    test_documents_with_other_fields_are_refused,
    test_every_document_comes_back,
    test_kinds_that_were_not_created,
    test_missing_and_repeated_ids,
    test_only_the_fields_of_the_study,
    test_range_is_what_a_look_at_all_gives,
    test_threads_write_and_read_side_by_side,
    test_update_and_delete_where_the_flags_allow,
)
from support.servers.url import url_of

if TYPE_CHECKING:
    from support.servers.stores import Clusters

BACKENDS = ("sqlite", "postgres", "mariadb")
_NUMBERS = count()


def cluster_of(url: str, directory: Path, kinds: tuple[Kind, ...]) -> Cluster:
    """A trial's cluster, with a name for its tables that no other one has."""
    file = directory / f"url{next(_NUMBERS)}"
    file.write_text(url + "\n")
    settings: dict[str, Any] = {"url_file": str(file), "prefix": f"t{next(_NUMBERS)}"}
    return Cluster("sql", settings=settings, kinds=kinds)


@pytest.fixture(scope="module", params=BACKENDS)
def url(
    request: pytest.FixtureRequest, clusters: Clusters, tmp_path_factory: pytest.TempPathFactory
) -> str:
    return url_of(request.param, clusters, tmp_path_factory.mktemp("sql"))


@pytest.fixture(scope="module")
def target() -> Target:
    return Target("sql")


@pytest.fixture(scope="module")
def store(url: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Client]:
    """All documents of other kinds, through the client that wrote them."""
    cluster = cluster_of(url, tmp_path_factory.mktemp("other"), KINDS)
    client = connect(cluster, "write")
    client.create(Schema(KINDS, ((MEASURES, "mv"),), "after"))
    for kind, documents in DOCUMENTS.items():
        for start in range(0, len(documents), 90):
            client.insert(kind, documents[start : start + 90])
    client.finish()
    yield client
    client.close()


@pytest.fixture
def fresh(url: str, tmp_path: Path) -> Cluster:
    from storewise.documents import KINDS as STUDY

    return cluster_of(url, tmp_path, STUDY)


@pytest.fixture
def writer(fresh: Cluster) -> Iterator[Client]:
    client = connect(fresh, "write")
    client.create(Schema())
    yield client
    client.close()


@pytest.fixture(scope="module")
def reading() -> tuple[Target, str]:
    return Target("sql"), "one"


@pytest.fixture(scope="module")
def _loaded(url: str, tmp_path_factory: pytest.TempPathFactory) -> Cluster:
    from support.servers.samples import fill

    from storewise.documents import KINDS as STUDY

    cluster = cluster_of(url, tmp_path_factory.mktemp("study"), STUDY)
    fill(cluster, EVERY)
    return cluster


@pytest.fixture
def reader(_loaded: Cluster) -> Iterator[Client]:
    client = connect(_loaded, "read")
    yield client
    client.close()


@pytest.mark.parametrize("level", list(SqlEngine.consistencies))
def test_each_level_has_its_isolation(fresh: Cluster, level: str) -> None:
    client = connect(replace(fresh, consistency=level), "write")
    client.create(Schema())
    for kind, documents in EVERY.items():
        client.insert(kind, documents[:20])
        assert client.get(kind, documents[0]["_id"]) == documents[0]
        assert client.count(kind) == len(documents[:20])
    client.finish()
    assert (client.disk_bytes() or 0) > 1000
    client.close()


def test_a_trial_leaves_nothing(fresh: Cluster) -> None:
    import sqlalchemy as sa

    described = SqlEngine()
    client = described.connect(fresh, "write")
    client.create(Schema(indexes=((Kind.ALIGN, "gene"),), index_time="before"))
    names = client._shared.engine.connect()
    with names:
        prefix = str(fresh.settings["prefix"])
        mine = [n for n in sa.inspect(names).get_table_names() if n.startswith(f"{prefix}_")]
        assert len(mine) == 5
    client.close()
    assert described.server(fresh)["server"].split()[0] in ("sqlite", "postgresql", "mysql")
    described.drop(fresh)
    described.drop(fresh)  # what is gone already is no error
    other = described.connect(fresh, "write")
    with other._shared.engine.connect() as names:
        found = sa.inspect(names).get_table_names()
    other.close()
    assert not [n for n in found if n.startswith(f"{prefix}_")]


def _refused(settings: dict[str, Any]) -> str:
    with pytest.raises(EngineError) as caught:
        engine("sql").check_kinds(settings, ())
    return str(caught.value)


def test_secrets_are_in_no_message(
    clusters: Clusters, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    wrong = "not-the-password"
    url = url_of("postgres", clusters, tmp_path)
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


def test_a_killed_run_s_tables_are_dropped_by_the_next(tmp_path: Path) -> None:
    import logging
    import sqlite3

    from storewise.config import load_study
    from storewise.session.external import external_store

    path = tmp_path / "s.yaml"
    path.write_text(
        f"workload: measures\nengines: {{sql: {{url: 'sqlite:///{tmp_path}/x.db'}}}}\n"
        "phases: [load: {rows: 1000}]\n"
    )
    (trial,) = load_study(path).trials()
    log = logging.getLogger("test")

    def names() -> set[str]:
        with sqlite3.connect(tmp_path / "x.db") as found:
            rows = found.execute("SELECT name FROM sqlite_master WHERE name LIKE 'sw%'")
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
