"""HBase without its gateways; no server runs here."""

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
