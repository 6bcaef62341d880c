"""MariaDB and MySQL: what is started and sent, without a server."""

import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from storewise.engines.mysql.engine import MysqlEngine
from storewise.engines.mysql.launch import pool_mb, server_version
from storewise.errors import EngineError

ENGINE = MysqlEngine()


def test_the_driver_in_c_comes_first_and_without_it_pymysql_speaks(monkeypatch):
    release = pytest.importorskip("MySQLdb.release", reason="mysqlclient is not installed")
    assert ENGINE.versions()["mysqlclient"] == release.__version__
    assert set(ENGINE.versions({"driver": "pymysql"})) == {"pymysql"}
    monkeypatch.setitem(sys.modules, "MySQLdb", None)
    assert set(ENGINE.versions()) == {"pymysql"}
    with pytest.raises(EngineError, match=r"mysqlclient cannot be imported.*leave"):
        ENGINE.versions({"driver": "mysqlclient"})


@pytest.mark.parametrize(
    ("text", "name", "version"),
    [
        ("mariadbd  Ver 10.11.19-MariaDB-0+deb12u1 for debian-linux-gnu", "MariaDB", (10, 11, 19)),
        ("/opt/mysql 5.7/bin/mysqld  Ver 8.4.6 for Linux on x86_64 (MySQL)", "MySQL", (8, 4, 6)),
        ("MariaDB 10.11.6", "MariaDB", (10, 11, 6)),
        ("MySQL 9.7.4", "MySQL", (9, 7, 4)),
    ],
)
def test_a_server_says_which_it_is(text, name, version):
    assert server_version(text) == (name, version)
    with pytest.raises(EngineError, match="hello"):
        server_version("hello 1.2")


@given(st.integers(256, 1 << 20))
def test_the_pool_is_about_half_of_the_memory(memory):
    assert 0.44 * memory <= pool_mb(memory) <= 0.6 * memory
