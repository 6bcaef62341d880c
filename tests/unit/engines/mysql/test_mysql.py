"""MariaDB and MySQL: what is started and sent, without a server."""

import sys

import pytest

from storewise.engines.mysql.engine import MysqlEngine
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
