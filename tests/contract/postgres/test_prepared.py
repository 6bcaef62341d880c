"""Statements that go through libpq's own call: the same answers and errors as psycopg's."""

import psycopg
import pytest
from support.servers.samples import secrets_of
from support.servers.stores import Target

from storewise.engines.postgres.client import connect
from storewise.engines.postgres.prepared import MOST, Prepared, numbered

pytestmark = pytest.mark.xdist_group("postgres")


@pytest.fixture(scope="module")
def connection(clusters):
    cluster = clusters.fresh(Target("postgres", 1))
    secrets = secrets_of(cluster)
    with connect(cluster.endpoints[0].address, cluster.endpoints[0].port, secrets) as opened:
        opened.execute("CREATE TABLE t (i bigint PRIMARY KEY, x float8, s text, b bytea)")
        yield opened


@pytest.mark.parametrize(
    ("sql", "text"),
    [
        ("SELECT %s, %s", "SELECT $1, $2"),
        ("SELECT 5 %% %s", "SELECT 5 % $1"),
        ("SELECT 1", "SELECT 1"),
        ("SELECT %(name)s", None),
        ("SELECT %b", None),
        ("SELECT 1 %", None),
    ],
)
def test_marks_become_numbers(sql, text):
    assert numbered(sql) == text


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


def test_errors_are_those_of_psycopg_and_leave_the_connection_usable(connection):
    prepared = Prepared(connection)
    with pytest.raises(psycopg.errors.UndefinedTable):
        prepared.rows("SELECT * FROM nowhere WHERE i = %s", (1,))
    assert prepared.change("INSERT INTO t (i) VALUES (%s)", (1,)) == 1
    with pytest.raises(psycopg.errors.UniqueViolation):
        prepared.change("INSERT INTO t (i) VALUES (%s)", (1,))
    assert prepared.change("DELETE FROM t WHERE i = %s", (1,)) == 1


def test_what_goes_the_ordinary_way(connection):
    prepared = Prepared(connection)
    query = "SELECT %s::int"
    with connection.transaction():
        connection.execute("SELECT 1")
        assert prepared.rows(query, (1,)) is None
    assert prepared.rows(query, (1,)) == [(1,)]
    # psycopg deallocates all statements after some commands: the next use says so, then it is new.
    connection.execute("DEALLOCATE ALL")
    assert prepared.rows(query, (1,)) is None
    assert prepared.rows(query, (1,)) == [(1,)]
    for number in range(MOST - 1):
        assert prepared.rows(f"SELECT %s::int + {number}", (1,)) == [(number + 1,)]
    assert prepared.rows("SELECT %s::int + 1000", (1,)) is None
    assert prepared.rows(query, (1,)) == [(1,)]


def test_a_lost_server_is_an_error_of_the_driver(connection):
    prepared = Prepared(connection)
    pid = prepared.rows("SELECT pg_backend_pid() + %s", (0,))
    assert pid is not None
    info = connection.info
    with psycopg.connect(
        host=info.host, port=info.port, user=info.user, password=info.password, dbname="postgres"
    ) as other:
        other.execute("SELECT pg_terminate_backend(%s)", pid[0])
    with pytest.raises(psycopg.Error):
        prepared.rows("SELECT pg_backend_pid() + %s", (0,))
    assert connection.closed
