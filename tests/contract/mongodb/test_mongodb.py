"""MongoDB: a server alone, what it lets in, and its levels. Clusters are in tests/faults."""

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import psutil
import pymongo
import pytest
from pymongo.errors import OperationFailure
from support.servers.samples import fill, sample, secrets_of
from support.servers.stores import Target

from storewise.documents import Kind
from storewise.engines.contract.queries import Count
from storewise.engines.mongodb.cluster import as_user
from storewise.engines.mongodb.engine import MongoEngine

ENGINE = MongoEngine()
pytestmark = pytest.mark.xdist_group("mongodb")


@pytest.fixture(scope="module")
def alone(clusters):
    """The server of the contract, with nothing but the tables of the study."""
    target = Target("mongodb", 1)
    fill(clusters.fresh(target), {})
    return clusters.servers(target)


def test_the_session_s_user_rules_only_the_session_s_data(alone):
    endpoint, secrets = alone.cluster.endpoints[0], secrets_of(alone.cluster)
    with pymongo.MongoClient(endpoint.address, endpoint.port, directConnection=True) as nobody:
        for command in ("listDatabases", "serverStatus", "fsync"):
            with pytest.raises(OperationFailure, match="requires authentication"):
                nobody.admin.command(command)
    with as_user(endpoint, secrets, 5.0) as connection:
        for refused in ({"shutdown": 1}, {"createUser": "x", "pwd": "y", "roles": ["root"]}):
            with pytest.raises(OperationFailure, match="not authorized"):
                connection.admin.command(refused)
        with pytest.raises(OperationFailure, match="not authorized"):
            connection.other.things.insert_one({})


def test_one_port_on_one_address_and_private_files(alone):
    endpoint = alone.cluster.endpoints[0]
    process = psutil.Process(alone.servers["data0"].pid)
    listening = [c.laddr for c in process.net_connections("all") if c.status == psutil.CONN_LISTEN]
    assert [(a.ip, a.port) for a in listening] == [(endpoint.address, endpoint.port)]
    assert not any(c.laddr for c in process.net_connections("unix"))
    key = alone.servers["data0"].node.directory / "key"
    assert key.stat().st_mode & 0o777 == 0o600
    assert key.parent.stat().st_mode & 0o777 == 0o700


@pytest.mark.parametrize(
    "level",
    [pytest.param(level, marks=[pytest.mark.slow] if level != "durable" else [])
     for level in ENGINE.consistencies],
)  # fmt: skip
def test_levels_of_acknowledgement(alone, level):
    """What was sent is there after `flush`, whatever the level; writes are as it says."""
    client = ENGINE.connect(replace(alone.cluster, consistency=level), "write")
    number = list(ENGINE.consistencies).index(level)

    def load(part):
        mine = client.open_thread()
        documents = sample(100 * number + part + 1000, 300)[Kind.GS]
        for start in range(0, 300, 30):
            mine.insert(Kind.GS, documents[start : start + 30])
        mine.flush()

    count = client.count(Count(Kind.GS))
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(load, range(4)))
    assert client.count(Count(Kind.GS)) == count + 1200
    assert client.update(Kind.GS, sample(100 * number + 1000, 1)[Kind.GS][0]["_id"], {"b": 1})
    assert client.delete(Kind.GS, sample(100 * number + 1000, 1)[Kind.GS][0]["_id"])
    client.close()
