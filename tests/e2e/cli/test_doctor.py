"""`storewise doctor`: what this host can run, and what to install for the rest."""

import json

from support.commands import storewise

from storewise.engines.registry import ENGINES


def test_the_doctor_says_what_to_install(monkeypatch, tmp_path):
    monkeypatch.setenv("STOREWISE_POSTGRES_BIN", str(tmp_path))
    done = storewise("doctor", "--json")
    assert done.returncode == 0
    found = {one["name"]: one for one in map(json.loads, done.stdout.splitlines())}
    assert set(ENGINES) < set(found)
    assert found["sqlite"]["runs"] and not found["postgres"]["runs"]
    reason, _, todo = found["postgres"]["advice"].partition(";")
    assert str(tmp_path) in reason and todo
    assert storewise("doctor", "postgres").returncode == 1
    assert (
        "level durable: about 100 documents/s on a slow disk" in storewise("doctor", "riak").stdout
    )
