"""What a study can say of a store stays in its place: no program, no door, no other file."""

import subprocess

import pytest
from support.servers.local import running
from support.servers.stores import available

from storewise.engines.contract.server import Credentials, Topology
from storewise.engines.registry import engine

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


@pytest.mark.slow
def test_mariadb_takes_an_option_by_its_beginning():
    """The reason why beginnings are refused: the server itself would take them."""
    described = engine("mariadb")
    program = described.find(available("mariadb")).programs["mariadbd"]
    command = [str(program), "--no-defaults", "--bind-addr=10.1.2.3", "--verbose", "--help"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert "10.1.2.3" in done.stdout + done.stderr
