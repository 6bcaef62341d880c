"""What a study can say of a store stays in its place: no program, no door, no other file."""

import pytest
from support.servers.local import running
from support.servers.stores import available

from storewise.engines.contract.server import Credentials, Topology

HARD = 'it\'s \\ "2" $(touch x) `touch y` ; # {z} ${HOME} %s \N{GREEK SMALL LETTER MU}'


@pytest.mark.slow
def test_a_value_reaches_postgres_as_it_is(tmp_path):
    import psycopg

    config = {"storewise.hard": HARD, "search_path": '"$user", public'}
    settings = {**available("postgres"), "config": config}
    with running("postgres", tmp_path, Topology(memory_mb=256), settings) as result:
        (at,) = result.cluster.endpoints
        secret = Credentials.read(result.cluster.credentials)
        with psycopg.connect(
            host=at.address,
            port=at.port,
            user=secret.user,
            password=secret.password,
            dbname="postgres",
        ) as link:
            row = link.execute("SHOW storewise.hard").fetchone()
            assert row == (HARD,)
