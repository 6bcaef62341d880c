"""HBase without its gateways; no server runs here."""

import re
from dataclasses import replace

import pytest

from storewise.engines.contract.engine import Cluster, Endpoint
from storewise.engines.contract.server import Credentials
from storewise.engines.hbase.engine import HbaseEngine
from storewise.errors import EngineError

STANDALONE = Endpoint(
    "master", 0, "h", "10.0.0.1", 3000, {"zookeeper": 3001, "master": 3002, "info": 3003}
)


def test_clients_without_a_gateway_are_refused(tmp_path):
    Credentials.make().write(tmp_path / "secret")
    cluster = Cluster("hbase", endpoints=(STANDALONE,), credentials=tmp_path / "secret")
    with pytest.raises(EngineError, match="no endpoints of role thrift"):
        HbaseEngine().connect(cluster, "read")
    gateway = Endpoint("thrift", 0, "h", "127.0.0.1", 1)
    with pytest.raises(EngineError, match=re.escape("thrift0 (127.0.0.1:1)")):
        HbaseEngine().connect(replace(cluster, endpoints=(STANDALONE, gateway)), "read")
