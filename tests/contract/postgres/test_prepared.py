"""Statements that go through libpq's own call: the same answers as psycopg's."""

import pytest
from support.servers.samples import secrets_of
from support.servers.stores import Target

from storewise.engines.postgres.client import connect
from storewise.engines.postgres.prepared import Prepared

pytestmark = pytest.mark.xdist_group("postgres")


@pytest.fixture(scope="module")
def connection(clusters):
    cluster = clusters.fresh(Target("postgres", 1))
    secrets = secrets_of(cluster)
    with connect(cluster.endpoints[0].address, cluster.endpoints[0].port, secrets) as opened:
        opened.execute("CREATE TABLE t (i bigint PRIMARY KEY, x float8, s text, b bytea)")
        yield opened


ROWS = [
    (1, 0.5, "grün", b"\x00\xff"),
    (2**40, -1e300, "", b""),
    (-3, None, None, None),
    (70_000, float("inf"), "a'b%s", b"'"),
]


def test_values_come_back_as_they_are(connection):
    prepared = Prepared(connection)
    for row in ROWS:
        assert prepared.change("INSERT INTO t VALUES (%s, %s, %s, %s)", row) == 1
    for row in ROWS:
        assert prepared.rows("SELECT * FROM t WHERE i = %s", (row[0],)) == [row]
    assert prepared.rows("SELECT * FROM t WHERE i = %s", (4,)) == []
    # Of one statement the types of the answer follow those of the values.
    for value in (True, 2, "x", 0.5, b"\xff", True):
        assert prepared.rows("SELECT %s AS it", (value,)) == [(value,)]
    ids = [row[0] for row in ROWS]
    result = prepared.rows("SELECT i FROM t WHERE i = ANY(%s) ORDER BY i", (ids,))
    assert result == [(i,) for i in sorted(ids)]
    assert prepared.change("UPDATE t SET s = %s WHERE i = %s", ("new", 1)) == 1
    assert prepared.change("DELETE FROM t WHERE i > %s", (-10,)) == len(ROWS)
    assert prepared.change("DELETE FROM t WHERE i > %s", (-10,)) == 0
