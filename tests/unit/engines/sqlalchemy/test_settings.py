"""Engine `sql`: settings that a study may not have, and secrets that no message repeats."""

import pytest

from storewise.engines.contract.engine import Schema
from storewise.engines.registry import engine
from storewise.engines.sqlalchemy.engine import SqlSettings, _url
from storewise.errors import ConfigError, EngineError
from storewise.study.load import load_study


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
        ({"url": "sqlite://", "prefix": "Robert'); DROP"}, "prefix"),
    ],
)
def test_settings_that_a_study_may_not_have(settings, words):
    with pytest.raises(EngineError) as caught:
        engine("sql").check_schema(settings, Schema(()))
    text = str(caught.value)
    assert words in text
    assert "hunter2" not in text or settings["url"].startswith("nosuch")


def test_a_secret_within_an_option_is_taken_out():
    text = "sqlite:///?odbc_connect=UID%3Dme%3BPWD%3D%7Bhunter2%3Bx%7D%3BServer%3Ddb"
    _, scrub = _url(SqlSettings(url=text))
    assert scrub("login failed: UID=me;PWD={hunter2;x}") == "login failed: UID=me;PWD=***"
    assert scrub("login failed: hunter2;x") == "login failed: ***"


@pytest.mark.parametrize(
    ("url", "more", "words"),
    [
        ("postgresql+psycopg://me:hunter2@db/x", "phases: [load: {}]", "url_env"),
        ("sqlite:///x.db", "phases: [load: {}, q1: {operations: 9, restart: true}]", "cannot rest"),
        ("sqlite:///x.db", "phases: [load: {}, q1: {operations: 9, slow: {how: cpu}}]", "no nodes"),
        ("sqlite:///x.db", "factors: {nodes: [1, 2]}\nphases: [load: {}]", "external"),
    ],
)
def test_studies_that_are_refused(tmp_path, url, more, words):
    path = tmp_path / "s.yaml"
    path.write_text(f"workload: measures\nengines: {{sql: {{url: '{url}'}}}}\n{more}\n")
    with pytest.raises(ConfigError, match=words) as caught:
        load_study(path)
    assert "hunter2" not in str(caught.value)
