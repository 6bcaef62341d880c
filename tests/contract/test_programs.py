"""Which programs of a store are taken, and how others are refused; these only tell a version."""

import os

import pytest

from storewise.engines.registry import engine
from storewise.engines.support import installation
from storewise.errors import EngineError

VALKEY = {"valkey-server": "Valkey server v=9.1.2 sha=0 bits=64"}
MONGOD = {"mongod": "mongod version v7.0.11"}
MYSQL = {"mysqld": "mysqld  Ver 8.4.6 for Linux on x86_64"}
MARIADB = {**MYSQL, "mariadbd": "mariadbd  Ver 10.6.2-MariaDB for Linux on x86_64"}
POSTGRES = {"postgres": "postgres (PostgreSQL) 9.6.24", "initdb": ""}
#: An engine's programs and what they say, or its jar and the version of Java.
TAKEN = [
    ("valkey", VALKEY, "Valkey 9.1.2"),
    ("valkey", {"redis-server": "Redis server v=7.0.15 sha=0 bits=64"}, "Redis 7.0.15"),
    ("mongodb", MONGOD, "MongoDB 7.0.11"),
    ("mongodb", {**MONGOD, "mongos": "mongos version v7.0.11"}, "MongoDB 7.0.11"),
    ("mariadb", MYSQL, "MySQL 8.4.6"),
    (
        "postgres",
        {**POSTGRES, "postgres": "postgres (PostgreSQL) 17.5 (Debian)"},
        "PostgreSQL 17.5",
    ),
    # MariaDB's server comes first, and needs its script.
    ("mariadb", {**MARIADB, "mysql_install_db": ""}, "MariaDB 10.6.2"),
    ("cassandra", ("apache-cassandra-4.1.7", "11.0.2"), "Cassandra 4.1.7, Java 11"),
    ("cassandra", ("cassandra-all-5.0.9", "17.0.9"), "Cassandra 5.0.9, Java 17"),
    ("hbase", ("hbase-server-2.5.11", "1.8.0_402"), "HBase 2.5.11, Java 8"),
    ("hbase", ("hbase-server-2.6.2-hadoop3", "17"), "HBase 2.6.2-hadoop3, Java 17"),
]
OTHERS = r"versions 2\.5 and 2\.6 are taken.*storewise"
REFUSED = [
    ("valkey", {}, {}, r"no valkey-server or redis-server.*install valkey"),
    ("valkey", {"redis-server": "Redis server v=6.2.7 sha=0"}, {}, r"6\.2\.7; 7 or newer"),
    ("valkey", {"redis-server": "something else"}, {}, "prints no version"),
    ("mongodb", {}, {}, r"no mongod.*STOREWISE_MONGODB_BIN"),
    ("mariadb", {}, {}, r"no mariadbd or mysqld.*STOREWISE_MARIADB_BIN"),
    ("mariadb", MARIADB, {}, "no mariadb-install-db or mysql_install_db"),
    ("mariadb", {"mysqld": "mysqld  Ver 5.7.44 for Linux"}, {}, "or newer is needed"),
    ("mariadb", {"mysqld": "mysqld  Ver 10.3.39-MariaDB for Linux"}, {}, "or newer is needed"),
    ("postgres", {"postgres": ""}, {}, r"no initdb.*install PostgreSQL"),
    ("postgres", POSTGRES, {}, r"9\.6\.24.*14 or newer"),
    ("cassandra", ("apache-cassandra-4.1.7", "17.0.9"), {}, r"4.1.7: Java 11 is needed.* is 17"),
    ("cassandra", ("cassandra-all-5.0.9", "25"), {}, r"5.0.9: Java 11 or 17 is needed.* is 25"),
    ("cassandra", ("apache-cassandra-3.11.17", "17"), {}, r"5.0 and 4.1 are taken; `storewise"),
    ("cassandra", ("cassandra-all-5.1-alpha1", "17"), {}, r"5.0 and 4.1 are taken; `storewise"),
    ("hbase", ("hbase-server-2.6.1", "25.0.1"), {}, r"Java 8 or 11 or 17 .*found: .* is 25"),
    ("hbase", ("hbase-server-2.4.18", "17"), {}, rf"2.4.18; {OTHERS}"),
    ("hbase", ("hbase-server-3.0.0-beta-1", "17"), {}, rf"beta-1; {OTHERS}"),
]  # fmt: skip


def program(path, words, stream=1):
    path.write_text(f"#!/bin/sh\necho '{words}' >&{stream}\n")
    path.chmod(0o755)


@pytest.fixture
def installed(tmp_path, monkeypatch):
    """Makes programs that the variables of an engine name; settings with the Java of jars."""

    def make(name, what):
        for end in ("BIN", "HOME"):
            monkeypatch.setenv(f"STOREWISE_{name.upper()}_{end}", str(tmp_path))
        if isinstance(what, dict):
            for file, words in what.items():
                program(tmp_path / file, words)
            return {}
        jar, java = what
        (tmp_path / "lib").mkdir()
        for file in (f"{jar}.jar", "hbase-server-2.6.1-tests.jar", "jamm-0.4.0.jar"):
            (tmp_path / "lib" / file).touch()
        program(tmp_path / "java", f'openjdk version "{java}" 2025-04-15', stream=2)
        return {"java": str(tmp_path / "java")}

    return make


@pytest.mark.parametrize(("name", "what", "version"), TAKEN)
def test_what_is_taken(name, what, version, installed, tmp_path, monkeypatch):
    settings = installed(name, what)
    monkeypatch.setenv(f"{name.upper()}_HOME", "/nowhere")
    result = engine(name).find(settings)
    assert result.version == version
    assert all(path.is_relative_to(tmp_path) for path in result.programs.values())
    assert engine(name).find({**settings, "home": str(tmp_path)}) == result
    assert "-tests" not in result.environment.get("CLASSPATH", "")


@pytest.mark.parametrize(("name", "what", "settings", "words"), REFUSED)
def test_what_is_refused(name, what, settings, words, installed):
    with pytest.raises(EngineError, match=words):
        engine(name).find({**installed(name, what), **settings})


def test_what_is_not_there_is_named(installed, tmp_path, monkeypatch):
    settings = {"home": str(tmp_path), **installed("cassandra", ("cassandra-all-5.0.9", "17.0.9"))}
    (tmp_path / "lib" / "jamm-0.4.0.jar").unlink()
    with pytest.raises(EngineError, match=r"no jamm-\*.jar"):
        engine("cassandra").find(settings)
    with pytest.raises(EngineError, match=r"no such jars \(looked in .*nowhere\); `storewise"):
        engine("cassandra").find({**settings, "home": str(tmp_path / "nowhere")})
    (tmp_path / "lib" / "hbase-server-2.6.1.jar").touch()
    with pytest.raises(EngineError, match=r"looked in .*nowhere.*storewise install hbase"):
        engine("hbase").find({**settings, "home": str(tmp_path / "nowhere")})
    with pytest.raises(EngineError, match="does not run"):
        engine("hbase").find({**settings, "java": str(tmp_path / "none")})
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path / "nowhere"))
    monkeypatch.setattr("storewise.engines.support.java._USUAL_JAVA", ())
    with pytest.raises(EngineError, match=r"Java 8 or 11 or 17 is needed; found: none.*JAVA_HOME"):
        engine("hbase").find({"home": str(tmp_path)})


def test_the_site_tells_how_to_reach_its_hdfs(installed, monkeypatch):
    monkeypatch.setenv("HADOOP_CONF_DIR", "/etc/hadoop")
    settings = installed("hbase", ("hbase-server-2.6.1", "17.0.1"))
    hdfs = engine("hbase").find({**settings, "rootdir": "hdfs://name/hbase"})
    assert hdfs.environment["HADOOP_CONF_DIR"] == "/etc/hadoop"
    assert "HADOOP_CONF_DIR" not in engine("hbase").find(settings).environment


def test_an_environment_module_that_stands_still_is_an_error(tmp_path, monkeypatch):
    monkeypatch.setattr(installation, "_SECONDS", 0.1)
    (tmp_path / "bash").write_text("#!/bin/sh\nexec sleep 60\n")
    (tmp_path / "bash").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    with pytest.raises(EngineError, match=r"module 'still/1' cannot be loaded.*timed out"):
        engine("postgres").find({"module": "still/1"})
