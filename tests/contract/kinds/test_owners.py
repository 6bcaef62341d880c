"""The node of each document: what a client works out is what the servers say."""

import pytest
from support.servers.other_kinds import DOCUMENTS, TARGETS
from support.servers.samples import secrets_of
from support.servers.stores import cells, valkey_servers


def _hashed_by_mongodb(store):
    from storewise.engines.mongodb.cluster import as_user
    from storewise.engines.mongodb.sharding import hashed_key

    secrets = secrets_of(store.cluster)
    hashed = [{"$project": {"h": {"$toHashedIndexKey": "$_id"}}}]
    with as_user(store.cluster.endpoints[0], secrets, 5.0) as connection:
        for table in ("usertable", "measures"):
            for row in connection.storewise[table].aggregate(hashed):
                assert row["h"] == hashed_key(row["_id"])
    _all_on_one(store)


def _keys_of_valkey(store):
    """Each server has the keys of its documents, and nothing else but the schema on the first."""
    from storewise.engines.valkey.cluster import tags_of

    endpoints = store.cluster.endpoints
    valkeys = valkey_servers(store.cluster)
    for server, endpoint in enumerate(endpoints):
        with valkeys[server]:
            keys = list(valkeys[server].scan_iter(count=1000))
        tag = tags_of(len(endpoints))[server]
        expected = {tag + b":schema"} if server == 0 else set()
        for kind, documents in DOCUMENTS.items():
            table = tag + kind.table.encode()
            ids = [d["_id"] for d in documents]
            mine = [i for i in ids if store.reader.owner(kind, i) == endpoint.name]
            expected |= {table, *(table + b":" + i for i in mine)}
            assert len(mine) > len(ids) / len(endpoints) / 2
        assert set(keys) == expected


def _partitions_of_riak(store):
    """The client refuses an answer with another partition than its hash gives."""
    owners = {store.reader.owner(k, one["_id"]) for k in DOCUMENTS for one in DOCUMENTS[k]}
    assert owners == {endpoint.name for endpoint in store.cluster.endpoints}


def _all_on_one(store):
    for kind, documents in DOCUMENTS.items():
        for document in documents[:50]:
            assert store.reader.owner(kind, document["_id"]) == store.cluster.endpoints[-1].name


OWNERS = {
    "mongodb": _hashed_by_mongodb,
    "cassandra": _all_on_one,
    "hbase": _all_on_one,
    "riak": _partitions_of_riak,
    "valkey": _keys_of_valkey,
}


@pytest.mark.parametrize("store", cells(t for t in TARGETS if t.name in OWNERS), indirect=True)
def test_owners_are_the_servers_own(store):
    """The place of each key by the client's hash or table against the server's answer."""
    OWNERS[store.target.name](store)
