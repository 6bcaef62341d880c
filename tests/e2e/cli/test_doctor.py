"""`storewise doctor`: what this host can run, and what to install for the rest."""

import json

from support.commands import storewise

from storewise.engines.registry import ENGINES


def test_the_doctor_says_what_to_install(monkeypatch, tmp_path):
    servers = ("postgres", "mariadb", "mongodb")
    for name in servers:
        monkeypatch.setenv(f"STOREWISE_{name.upper()}_BIN", str(tmp_path))
    done = storewise("doctor", "--json")
    assert done.returncode == 0
    found = {one["name"]: one for one in map(json.loads, done.stdout.splitlines())}
    assert set(ENGINES) < set(found)
    for name in servers:
        assert not found[name]["runs"]
        assert str(tmp_path) in found[name]["advice"], found[name]
        assert ";" in found[name]["advice"], "what to do stands behind the reason"
    assert found["sqlite"]["runs"] and found["sqlite"]["version"]
    assert found["snakemake-executor-plugin-slurm"]["runs"]
    done = storewise("doctor", "postgres")
    assert done.returncode == 1 and "no " in done.stdout
