"""MariaDB and MySQL: what is started and sent, without a server."""

import sys
from functools import cache

import pytest
from hypothesis import given
from hypothesis import strategies as st

from storewise.documents import Field
from storewise.engines.mysql import connection
from storewise.engines.mysql.engine import MysqlEngine
from storewise.engines.mysql.launch import pool_mb, server_version
from storewise.engines.mysql.load_data import load_text, value_lists
from storewise.errors import ConfigError, EngineError
from storewise.study.load import load_study

ENGINE = MysqlEngine()


def test_the_driver_in_c_comes_first_and_without_it_pymysql_speaks(tmp_path, monkeypatch):
    release = pytest.importorskip("MySQLdb.release", reason="mysqlclient is not installed")
    assert ENGINE.versions()["mysqlclient"] == release.__version__
    assert set(ENGINE.versions({"driver": "pymysql"})) == {"pymysql"}
    monkeypatch.setitem(sys.modules, "MySQLdb", None)
    monkeypatch.delitem(sys.modules, "storewise.engines.mysql.c_link", raising=False)
    monkeypatch.setattr(connection, "_why_not", cache(connection._why_not.__wrapped__))
    assert set(ENGINE.versions()) == {"pymysql"}
    with pytest.raises(EngineError, match=r"driver: .*mysqlclient cannot be imported.*leave"):
        ENGINE.settings_of({"driver": "mysqlclient"})
    path = tmp_path / "s.yaml"
    head = "workload: measures\nphases: [load: {}]\nengines:\n"
    path.write_text(f"{head}  mariadb: {{driver: mysqlclient}}\n")
    with pytest.raises(ConfigError, match=r"s\.yaml, line 4: .*driver.*cannot be imported"):
        load_study(path)


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


COLUMNS = (
    Field("_id", "id", ""), Field("n", "int", ""), Field("x", "float", ""), Field("s", "str", "")
)  # fmt: skip
GOOD = (b"\0" * 12, 1, 0.5, "a")


def test_the_values_of_a_statement():
    rows = [GOOD, (b"\xff" * 12, None, None, "it's \\ \n\"é")]
    assert value_lists("rna", COLUMNS, rows).decode() == (
        "(x'" + "0" * 24 + "',1,0.5,'a'),"
        "(x'" + "f" * 24 + "',NULL,NULL,'it\\'s \\\\ \\n\"é')"
    )  # fmt: skip


@pytest.mark.parametrize("write", [load_text, value_lists])
@pytest.mark.parametrize(
    ("column", "value"),
    [
        (0, None), (0, b"short"), (0, b"x" * 13), (0, "x" * 12),
        (1, 1.5), (1, "1"), (1, True),
        (2, float("nan")), (2, float("-inf")), (2, 10**400), (2, "1"),
        (3, 1), (3, b"a"), (3, "\ud800"), (3, "\udc80"),
    ],
)  # fmt: skip
def test_values_that_a_column_cannot_hold(write, column, value):
    bad = (*GOOD[:column], value, *GOOD[column + 1 :])
    with pytest.raises(EngineError, match="rna"):
        write("rna", COLUMNS, [GOOD, bad])
