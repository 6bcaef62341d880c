"""The designs of published studies: their trials and constants."""

import itertools
from collections import Counter

import pytest
from support.designs import PAPER
from support.paths import ROOT

from storewise.study.load import load_study

#: Which of them run a server in their tiny form.
SERVERS = {"niec2014-nodes", "niec2014-vertical", "balasubramanian2014"}


def paper(name):
    return load_study(name, scale="paper", root=ROOT)


@pytest.mark.parametrize("scale", ["paper", "small", "tiny"])
@pytest.mark.parametrize("name", PAPER)
def test_every_study_reads_in_every_size(name, scale):
    study = load_study(name, scale=scale, root=ROOT)
    trials = study.trials()
    assert len({t.id for t in trials}) == len(trials) > 0
    assert study.references and study.title
    if scale == "paper":
        assert len(trials) == PAPER[name]
    if scale == "tiny":
        assert set(study.engines) <= {"null", "sqlite", "postgres"} and len(trials) <= 2
        assert ("postgres" in study.engines) == (name in SERVERS)
    if scale == "small":
        assert load_study(name, root=ROOT) == study, "small is what a plain run measures"


def test_constants_of_niec2014():
    assert paper("niec2014-null").inputs.sample.files == 100
    workers = paper("niec2014-workers")
    assert {t.processes for t in workers.trials()} == {1, 10, 20, 40, 80}
    assert workers.inputs.sample.files == 80
    assert workers.phases[1].params["operations"] == 80_000
    routers = paper("niec2014-routers").trials()
    assert sorted((t.workers, t.processes, t.routers) for t in routers) == [
        (n, 20, 0) for n in (1, 2, 4, 8)
    ]
    assert all(t.settings["sharded"] == "always" for t in routers)
    nodes = paper("niec2014-nodes").trials()
    assert {(t.workers, t.processes, t.replicas) for t in nodes} == {(4, 30, 1)}
    keys = Counter((t.engine, t.settings.get("shard_key_field")) for t in nodes)
    assert keys == {("mongodb", "ti"): 14, ("mongodb", "_id"): 14, ("riak", None): 14}
    assert {t.nodes for t in nodes} == set(range(1, 15))
    assert {t.settings["backend"] for t in nodes if t.engine == "riak"} == {"leveldb"}


def test_constants_of_altoros2013():
    study = paper("altoros2013")
    trials = study.trials()
    assert {(t.engine, t.nodes, t.routers) for t in trials} == {
        ("cassandra", 4, 0),
        ("mongodb", 4, 2),
        ("hbase", 4, 0),
    }
    (load, *runs) = study.phases
    assert load.params["recordcount"] == 10**8
    assert load.params["fieldcount"] * load.params["fieldlength"] == 1000
    assert [p.name for p in runs] == list("abcdefg")
    assert {(p.params["operations"], p.params["clients"]) for p in runs} == {(10_000, 100)}
    for phase in runs:
        rates = [step["rate"] for step in phase.steps]
        assert rates == sorted(rates) and len(rates) > 4
    # Cassandra has no scans in the order of keys.
    without = {t.engine for t in trials if "e" not in [p.name for p in t.phases]}
    assert without == {"cassandra"}


def test_constants_of_balasubramanian2014():
    trials = {t.engine: t for t in paper("balasubramanian2014").trials()}
    assert {(n, t.nodes, t.routers, t.consistency) for n, t in trials.items()} == {
        ("hbase", 5, 0, "async"),
        ("mongodb", 5, 1, "relaxed"),
        ("mariadb", 5, 0, "relaxed"),
    }
    hbase = trials["hbase"]
    assert hbase.settings["regions_per_server"] * hbase.nodes == 100
    assert hbase.settings["buffer"] == 0
    load, run = hbase.phases
    assert load.params["recordcount"] * 1000 == 72 * 10**9
    assert (run.params["seconds"], run.params["clients"]) == (1200, 10)
    assert (run.params["requestdistribution"], run.params["maxscanlength"]) == ("uniform", 1000)
    kinds = ("readproportion", "updateproportion", "scanproportion")
    done = [next(k for k in kinds if step[k] == 1) for step in run.steps]
    assert done == [*kinds, *kinds]
    assert [step.get("slow") for step in run.steps[:3]] == [None] * 3
    assert {tuple(step["slow"].items()) for step in run.steps[3:]} == {
        (("how", "disk"), ("nodes", 1), ("file_mb", 2048))
    }


def test_constants_of_andor2019():
    study = paper("andor2019")
    shares = Counter(
        (t.engine, t.phases[1].params["readproportion"], t.phases[1].params["updateproportion"])
        for t in study.trials()
    )
    assert shares == {
        (e, *mix): 3 for e in ("mongodb", "cassandra") for mix in ((0.5, 0.5), (0.95, 0.05))
    }
    load, run = study.phases
    assert load.params["recordcount"] == 4_000_000 and run.params["restart"] is True
    assert [(s["operations"], s["clients"]) for s in run.steps] == list(
        itertools.product((10**3, 10**4, 10**5, 10**6), (2**n for n in range(10)))
    )


def test_constants_of_mahmood2015():
    study = paper("mahmood2015")
    levels = Counter(
        (t.engine, t.nodes, t.phases[0].params["rows"] // 10**6, t.index_time)
        for t in study.trials()
    )
    stores = [("mongodb", 1), ("mongodb", 4), ("postgres", 1), ("mariadb", 1)]
    assert levels == {
        (*store, rows, index): 2
        for store in stores
        for rows in (167, 333, 667, 1000)
        for index in ("before", "after")
    }
    assert [p.name for p in study.phases] == ["load", "q1", "q2", "q3"]
    assert {p.params["operations"] for p in study.phases[1:]} == {3}
    assert [s["selectivity_pct"] for s in study.phases[2].steps] == [
        *(0.002, 0.02, 0.2, 0.25),
        *(1, 2, 5),
    ]
