"""HBase: what is found of it, with programs that only tell a version; no server runs here."""

import re
from dataclasses import replace

import pytest

from storewise.engines.contract.engine import Cluster, Endpoint
from storewise.engines.contract.server import Credentials
from storewise.engines.hbase.engine import HbaseEngine
from storewise.errors import EngineError

ENGINE = HbaseEngine()
ALONE = Endpoint(
    "master", 0, "h", "10.0.0.1", 3000, {"zookeeper": 3001, "master": 3002, "info": 3003}
)


def home(place, version, where="lib"):
    """A directory with the jars' names of a version."""
    jars = place / where
    jars.mkdir(parents=True)
    for name in (f"hbase-server-{version}.jar", f"hbase-server-{version}-tests.jar", "b.jar"):
        (jars / name).touch()
    return place


def java_of(place, version):
    program = place / "bin" / "java"
    program.parent.mkdir(parents=True)
    program.write_text(f"#!/bin/sh\necho 'openjdk version \"{version}\" 2025-04-15' >&2\n")
    program.chmod(0o755)
    return place


def test_versions_that_are_taken(tmp_path, monkeypatch):
    java = {"java": str(java_of(tmp_path / "java", "17.0.1"))}
    for number, text in enumerate(("2.6.1", "2.5.11", "2.6.2-hadoop3")):
        place = home(tmp_path / f"good{number}", text)
        result = ENGINE.find({"home": str(place), **java})
        assert result.version == f"HBase {text}, Java 17"
        assert "tests" not in result.environment["CLASSPATH"]
    for number, text in enumerate(("1.4.14", "2.4.18", "3.0.0-beta-1")):
        place = home(tmp_path / f"bad{number}", text)
        with pytest.raises(
            EngineError, match=rf"{text}; versions 2\.5 and 2\.6 are taken.*storewise"
        ):
            ENGINE.find({"home": str(place), **java})
    with pytest.raises(EngineError, match=r"looked in .*nowhere.*storewise install hbase"):
        ENGINE.find({"home": str(tmp_path / "nowhere"), **java})
    monkeypatch.setenv("STOREWISE_HBASE_HOME", str(tmp_path / "good1"))
    assert ENGINE.find(java).version == "HBase 2.5.11, Java 17"


def test_the_site_tells_how_to_reach_its_hdfs(tmp_path, monkeypatch):
    monkeypatch.setenv("HADOOP_CONF_DIR", "/etc/hadoop")
    settings = {
        "home": str(home(tmp_path / "hbase", "2.6.1")),
        "java": str(java_of(tmp_path / "java", "17.0.1")),
    }
    hdfs = ENGINE.find({**settings, "rootdir": "hdfs://name/hbase"}).environment["CLASSPATH"]
    assert hdfs.startswith("/etc/hadoop:")
    assert "/etc/hadoop" not in ENGINE.find(settings).environment["CLASSPATH"]


def test_javas_that_are_taken(tmp_path, monkeypatch):
    place = str(home(tmp_path / "hbase", "2.6.1"))
    for text, number in (("1.8.0_402", 8), ("11.0.2", 11), ("17", 17)):
        java = str(java_of(tmp_path / text, text))
        assert ENGINE.find({"home": place, "java": java}).version.endswith(f"Java {number}")
    java = str(java_of(tmp_path / "25", "25.0.1"))
    with pytest.raises(EngineError, match=r"Java 8 or 11 or 17 is needed, but .* is 25"):
        ENGINE.find({"home": place, "java": java})
    with pytest.raises(EngineError, match="does not run"):
        ENGINE.find({"home": place, "java": str(tmp_path / "none")})
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr("storewise.engines.support.java._USUAL_JAVA", ())
    with pytest.raises(EngineError, match=r"no Java found; version 8 or 11 or 17.*JAVA_HOME"):
        ENGINE.find({"home": place})


def test_clients_without_a_gateway_are_refused(tmp_path):
    Credentials.make().write(tmp_path / "secret")
    cluster = Cluster("hbase", endpoints=(ALONE,), credentials=tmp_path / "secret")
    with pytest.raises(EngineError, match="no endpoints of role thrift"):
        ENGINE.connect(cluster, "read")
    thrift = Endpoint("thrift", 0, "h", "127.0.0.1", 1)
    happy = replace(cluster, endpoints=(ALONE, thrift), settings={"gateway": "happybase"})
    with pytest.raises(EngineError, match="no endpoints of role happybase"):
        ENGINE.connect(happy, "read")
    with pytest.raises(EngineError, match=r"'async' needs `gateway: thrift2`"):
        ENGINE.connect(replace(happy, consistency="async"), "write")
    with pytest.raises(EngineError, match=re.escape("thrift0 (127.0.0.1:1)")):
        ENGINE.connect(replace(cluster, endpoints=(ALONE, thrift)), "read")
