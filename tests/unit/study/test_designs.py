"""The designs of published studies: their trials and constants."""

import itertools
from collections import Counter

import pytest
from support.designs import PAPER
from support.paths import ROOT

from storewise.study.checks import MIN_REPEATS
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


@pytest.mark.parametrize(
    "path", sorted((ROOT / "config/studies").glob("*.yaml")), ids=lambda p: p.stem
)
def test_each_shipped_study_can_be_judged(path):
    """In the size of a plain run, and in that of its paper."""
    assert load_study(path, root=ROOT).repeats >= MIN_REPEATS
    assert path.stem not in PAPER or paper(path.stem).repeats >= MIN_REPEATS


def phase(name, number):
    return paper(name).phases[number].params


#: What the papers say: (engine, nodes, routers, or what else varies).
MEASURED = {
    "niec2014-workers": ("processes", {(n,) for n in (1, 10, 20, 40, 80)}),
    "niec2014-routers": ("workers processes routers", {(n, 20, 0) for n in (1, 2, 4, 8)}),
    "niec2014-nodes": ("workers processes replicas", {(4, 30, 1)}),
    "altoros2013": ("engine nodes routers",
                    {("cassandra", 4, 0), ("mongodb", 4, 2), ("hbase", 4, 0)}),
    "balasubramanian2014": ("engine nodes routers consistency",
                            {("hbase", 5, 0, "async"), ("mongodb", 5, 1, "relaxed"),
                             ("mariadb", 5, 0, "relaxed")}),
    "andor2019": ("engine repeat", {(e, n) for e in ("mongodb", "cassandra") for n in (1, 2, 3)}),
    "mahmood2015": ("engine nodes index_time",
                    {(*store, index) for index in ("before", "after") for store in
                     (("mongodb", 1), ("mongodb", 4), ("postgres", 1), ("mariadb", 1))}),
}  # fmt: skip


@pytest.mark.parametrize("name", MEASURED)
def test_trials_are_those_of_the_paper(name):
    keys, expected = MEASURED[name]
    assert {tuple(getattr(t, k) for k in keys.split()) for t in paper(name).trials()} == expected


def test_settings_and_sizes_are_those_of_the_papers():
    assert paper("niec2014-null").inputs.sample.files == 100
    assert paper("niec2014-workers").inputs.sample.files == 80
    assert phase("niec2014-workers", 1)["operations"] == 80_000
    assert all(t.settings["sharded"] == "always" for t in paper("niec2014-routers").trials())
    nodes = paper("niec2014-nodes").trials()
    keys = Counter((t.engine, t.settings.get("shard_key_field")) for t in nodes)
    assert keys == {("mongodb", "ti"): 42, ("mongodb", "_id"): 42, ("riak", None): 42}
    assert {t.nodes for t in nodes} == set(range(1, 15))
    load = phase("altoros2013", 0)
    assert load["recordcount"] == 10**8 and load["fieldcount"] * load["fieldlength"] == 1000
    for run in paper("altoros2013").phases[1:]:
        rates = [step["rate"] for step in run.steps]
        assert rates == sorted(rates) and len(rates) > 4
        assert (run.params["operations"], run.params["clients"]) == (10_000, 100)
    hbase = next(t for t in paper("balasubramanian2014").trials() if t.engine == "hbase")
    assert hbase.settings["regions_per_server"] * hbase.nodes == 100
    assert hbase.phases[0].params["recordcount"] * 1000 == 72 * 10**9
    run = hbase.phases[1]
    assert (run.params["seconds"], run.params["clients"]) == (1200, 10)
    slow = {"how": "disk", "nodes": 1, "file_mb": 2048}
    assert [step.get("slow") for step in run.steps] == [None] * 3 + [slow] * 3
    shares = ("readproportion", "updateproportion")
    mixes = Counter(
        tuple(t.phases[1].params[s] for s in shares) for t in paper("andor2019").trials()
    )
    assert mixes == {(0.5, 0.5): 6, (0.95, 0.05): 6}
    assert phase("andor2019", 0)["recordcount"] == 4_000_000
    steps = paper("andor2019").phases[1].steps
    assert [(s["operations"], s["clients"]) for s in steps] == list(
        itertools.product((10**3, 10**4, 10**5, 10**6), (2**n for n in range(10)))
    )
    rows = Counter(t.phases[0].params["rows"] // 10**6 for t in paper("mahmood2015").trials())
    assert rows == dict.fromkeys((167, 333, 667, 1000), 16 * 3)
    steps = paper("mahmood2015").phases[2].steps
    assert [s["selectivity_pct"] for s in steps] == [0.002, 0.02, 0.2, 0.25, 1, 2, 5]
