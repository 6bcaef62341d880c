"""PostgreSQL and MariaDB at their strongest and at their weakest level."""

from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import replace

import pytest
from support.servers.local import running
from support.servers.samples import secrets_of

from storewise.engines.contract.engine import Schema
from storewise.engines.contract.queries import Count, Where
from storewise.engines.registry import engine
from storewise.workloads.sensors.generator import MEASURES, Part, Readings, batches

#: Each test has a server of its own.
pytestmark = [pytest.mark.needs("postgres", "mariadb"), pytest.mark.slow]


def _serve(name, level, directory):
    schema = Schema((MEASURES,), ((MEASURES, "mv"),), "before")
    return running(name, directory, consistency=level, schema=schema)


def _writer(result):
    cluster = replace(result.cluster, kinds=(MEASURES,))
    return engine(cluster.engine).connect(cluster, "write")


@pytest.mark.parametrize("name", ["postgres", "mariadb"])
def test_serializable_clients_that_meet_try_again(name, tmp_path):
    """Four threads load rows that overlap and change the same ones: nothing fails or is lost."""
    rows = list(batches(Part(Readings(), 0, 400).chunks(400), 100))
    same = [document["_id"] for document in rows[0][:5]]
    with _serve(name, "serializable", tmp_path / "servers") as result:
        client = _writer(result)

        def work(thread):
            mine = client.for_thread()
            for batch in rows[thread:] + rows[:thread]:
                mine.insert(MEASURES, batch)
            for n in range(40):
                assert mine.update(MEASURES, same[n % 5], {"mv": float(100 * thread + n)})
                assert mine.get(MEASURES, same[n % 5]) is not None
            return mine.count(Count(MEASURES, (Where("mv", ">", 0),)))

        with ThreadPoolExecutor(4) as pool:
            counts = list(pool.map(work, range(4)))
        assert max(counts) <= 400
        assert client.count(Count(MEASURES)) == 400
        # The last change of one of the threads is there, whole.
        last = {float(100 * thread + n) for thread in range(4) for n in range(35, 40)}
        for document_id in same:
            document = client.get(MEASURES, document_id)
            assert document is not None and document["mv"] in last
        client.finish()
        client.close()


@pytest.mark.parametrize("level", ["serializable", "unlogged"])
def test_postgres_runs_at_its_level(level, tmp_path):
    from storewise.engines.postgres.client import connect

    with _serve("postgres", level, tmp_path / "servers") as result:
        secrets = secrets_of(result.cluster)
        place = result.cluster.endpoints[0]
        with connect(place.address, place.port, secrets) as link:
            isolation = link.execute("SHOW transaction_isolation").fetchone()
            commit = link.execute("SHOW synchronous_commit").fetchone()
            tables = dict(
                link.execute(
                    "SELECT relname, relpersistence FROM pg_class WHERE relkind IN ('r', 'i') "
                    "AND relname LIKE 'measures%'"
                ).fetchall()
            )
    assert set(tables) == {"measures", "measures_pkey", "measures_mv"}
    if level == "serializable":
        assert (isolation, commit, set(tables.values())) == (("serializable",), ("on",), {"p"})
    else:
        assert (isolation, commit, set(tables.values())) == (("read committed",), ("off",), {"u"})


def test_mariadb_runs_at_its_weakest_level(tmp_path):
    from storewise.engines.mysql.connection import sign_in

    with _serve("mariadb", "uncommitted", tmp_path / "servers") as result:
        secrets = secrets_of(result.cluster)
        place = result.cluster.endpoints[0]
        with closing(sign_in(place.address, place.port, secrets)) as link:
            found_values = dict(
                link.rows(
                    "SHOW VARIABLES WHERE Variable_name IN ('tx_isolation', "
                    "'transaction_isolation', 'innodb_flush_log_at_trx_commit', "
                    "'innodb_doublewrite')"
                )
            )
    isolation = {v for k, v in found_values.items() if "isolation" in k}
    assert isolation == {"READ-UNCOMMITTED"}
    assert found_values["innodb_flush_log_at_trx_commit"] == "0"
    assert found_values["innodb_doublewrite"] == "ON"
