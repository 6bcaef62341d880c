"""Engine `sql`: settings that a study may not have, and secrets that no message repeats."""

import pytest

from storewise.engines.contract.engine import Schema
from storewise.engines.registry import engine
from storewise.errors import ConfigError, EngineError


def _refused(settings):
    with pytest.raises(EngineError) as caught:
        engine("sql").check_schema(settings, Schema(()))
    return str(caught.value)


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({}, "exactly one of url"),
        ({"url": "sqlite://", "url_env": "X"}, "url and url_env"),
        ({"url": "postgresql+psycopg://me:hunter2@db/x"}, "url_env"),
        ({"url": "postgresql+psycopg://me@db/x?password=hunter2"}, "url_env"),
        ({"url": "sqlite:///?odbc_connect=DRIVER%3D%7BX%7D%3BUID%3Dme%3BPWD%3Dhunter2"}, "url_env"),
        ({"url": "nosuch+hunter2://me@db/x"}, "dialect"),
        ({"url": "hunter2"}, "cannot be read"),
        ({"url": "postgresql://me:hunter2@db:port/x"}, "cannot be read"),
        ({"url": "sqlite://", "prefix": "Robert'); DROP"}, "small letters"),
        ({"url": "sqlite://", "connect_args": {"password": "hunter2"}}, "connect_args.password"),
        ({"url": "sqlite://", "connect_args": {"dsn": "db;pwd=hunter2"}}, "connect_args.dsn"),
    ],
)
def test_settings_that_a_study_may_not_have(settings, words):
    text = _refused(settings)
    assert words in text
    assert "hunter2" not in text or settings["url"].startswith("nosuch")


def test_a_password_in_a_study_is_refused_and_not_repeated(tmp_path):
    from storewise.study.load import load_study

    path = tmp_path / "s.yaml"
    path.write_text(
        "workload: measures\nengines: {sql: {url: 'postgresql+psycopg://me:hunter2@db/x'}}\n"
        "phases: [load: {rows: 1000}]\n"
    )
    with pytest.raises(ConfigError) as caught:
        load_study(path)
    assert "url_env" in str(caught.value) and "hunter2" not in str(caught.value)


def test_a_secret_within_an_option_is_taken_out():
    from storewise.engines.sqlalchemy.engine import SqlSettings, _url

    text = "sqlite:///?odbc_connect=UID%3Dme%3BPWD%3D%7Bhunter2%3Bx%7D%3BServer%3Ddb"
    _, scrub = _url(SqlSettings(url=text))
    assert scrub("login failed: UID=me;PWD={hunter2;x};Server=db") == (
        "login failed: UID=me;PWD=***;Server=db"
    )


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ("q1: {operations: 9, restart: true}", "cannot restart"),
        ("q1: {operations: 9, slow: {how: cpu}}", "no nodes"),
        ("q1: {operations: 9, crash: {after: 1}}", "no nodes"),
    ],
)
def test_what_needs_nodes_is_refused(tmp_path, change, words):
    from storewise.study.load import load_study

    path = tmp_path / "s.yaml"
    path.write_text(
        "workload: measures\nengines: {sql: {url: 'sqlite:///x.db'}}\n"
        f"phases: [load: {{rows: 1000}}, {change}]\n"
    )
    with pytest.raises(ConfigError, match=words):
        load_study(path)
    path.write_text(
        "workload: measures\nengines: {sql: {url: 'sqlite:///x.db'}}\n"
        "factors: {nodes: [1, 2]}\nphases: [load: {rows: 1000}]\n"
    )
    with pytest.raises(ConfigError, match="external"):
        load_study(path)
