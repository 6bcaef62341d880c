"""Studies with servers: their nodes' samples by phase, sessions, factors that some trials lack."""

import numpy as np
import pytest
from support.results import synthetic
from support.results.made import GROUP

from storewise.analysis.common.text import level, setting
from storewise.analysis.files.parts import trial_files
from storewise.analysis.files.samples import read_samples
from storewise.analysis.measure.reduction import Reduction
from storewise.analysis.pipeline.build import measured_tables
from storewise.analysis.pipeline.load import load_results
from storewise.analysis.pipeline.output import write_tables

ENGINES = ["sqlite", "null", "postgres", "mongodb"]

pytestmark = GROUP


def tables_of(study):
    return measured_tables(load_results(study))


@pytest.fixture(scope="module")
def study(made):
    """One host has clients and servers."""
    return made.study(engines=ENGINES, nodes=[1, 2])


@pytest.fixture(scope="module")
def tables(made):
    return made.tables(engines=ENGINES, nodes=[1, 2])


@pytest.fixture(scope="module")
def apart(made):
    """Servers have hosts of their own, whose clocks are 40 s off."""
    return made.tables(
        engines=["postgres", "sqlite"],
        workers=[1],
        nodes=[2],
        store_hosts=["store-1", "store-2"],
        offset=40.0,
    )


def load_of(tables, metric, phase, engine="postgres"):
    trials = set(tables.trials[tables.trials["engine"] == engine]["trial"])
    result = tables.host[tables.host["trial"].isin(trials)]
    return result[(result["metric"] == metric) & (result["phase"] == phase)]


@pytest.mark.parametrize("which", ["tables", "apart"])
def test_samples_of_nodes_come_to_the_phase_they_fell_in(which, request):
    tables = request.getfixturevalue(which)
    # Seconds lie in two phases or in none: within 15 % of what the node did in each.
    for phase, cores in (("write", 0.8), ("read", 0.4)):
        result = load_of(tables, "store_cpu", phase)
        assert set(result["node"]) == {"data0", "data1"}
        assert result["mean"].to_numpy() == pytest.approx(cores, rel=0.15)
        assert result["max"].max() == pytest.approx(cores, rel=0.01)
    idle = load_of(tables, "store_cpu", "session")
    assert idle["mean"].to_numpy() == pytest.approx(0.05, rel=0.01)


def test_every_second_of_a_node_is_used_at_most_once(study):
    files = [trial_files(path) for path in sorted((study / "trials").iterdir())]
    samples = Reduction(read_samples(files).rows)
    taken = samples.table("FROM node_samples")
    lengths = taken[taken["metric"] == "sample_length"].groupby(["trial", "node"])["length"].sum()
    subset = samples.table("FROM every_sample WHERE phase = 'session' AND metric = 'sample_length'")
    seconds = subset.groupby("trial")["value"].sum()
    for (trial, _), length in lengths.items():
        assert seconds[trial] - 5 < length <= seconds[trial] + 1e-6
    assert not taken.duplicated(["trial", "phase", "step", "node", "second", "metric"]).any()


def test_hosts_with_clients_are_told_by_these_and_others_by_their_node(tables, apart):
    (host,) = set(load_of(tables, "cpu_iowait", "write")["host"])
    assert host == "node-7"
    keys = ["trial", "phase", "step", "host", "node", "metric"]
    assert not tables.host.duplicated(keys).any()
    wait = load_of(apart, "cpu_iowait", "write")
    assert set(wait["host"]) == {"node-7", "store-1", "store-2"}
    assert set(wait["node"]) == {""}
    of_stores = wait[wait["host"] != "node-7"]
    assert of_stores["mean"].to_numpy() == pytest.approx(30, rel=0.15)


def test_factors_that_embedded_trials_lack_lose_and_split_nothing(tables):
    assert tables.results.factors[:2] == ("engine", "nodes")
    for table in (tables.rates, tables.latency_summary, tables.storage_summary):
        assert set(table["engine"]) - {"null"} == set(ENGINES) - {"null"}
        assert set(table["n"]) == {2}
    # SQLite's repeats share the spread of the servers', the null engine's only its own; a setting
    # that is noisier than the others has its own, too.
    rates = tables.rates[tables.rates["measure"] == "documents_per_s"]
    stores = rates[rates["engine"] != "null"]
    shared = len(stores[stores["phase"] == "read"])
    assert set(stores["freedom"]) <= {1, shared} and shared in set(stores["freedom"])
    assert set(rates[rates["engine"] == "null"]["freedom"]) <= {1, 2}
    assert rates[rates["engine"] == "sqlite"]["nodes"].isna().all()
    codes = {w.code for w in tables.warnings}
    assert not {"other_config", "missing_trials", "mixed_versions"} & codes


def test_missing_parts_of_servers_are_named(tmp_path):
    place = tmp_path / "s"
    one, two, three = synthetic.make_study(
        place, engines=["postgres"], workers=[1], nodes=[2], repeats=3
    )
    (place / "trials" / one / "node.data1.parquet").unlink()
    (place / "trials" / two / "session.parquet").unlink()
    # One with nodes only is not measured.
    for path in (place / "trials" / three).iterdir():
        if not path.name.startswith(("node.", "session.")):
            path.unlink()
    tables = tables_of(place)
    message = {(w.code, w.trial): w.message for w in tables.warnings}
    assert "data1" in message["missing_node", one]
    assert "its session" in message["missing_node", two]
    assert set(tables.trials["trial"]) == {one, two}
    assert three in message["missing_trials", ""]


def test_tables_are_written_without_fractions(tables, tmp_path):
    write_tables(tables, tmp_path / "out")
    text = (tmp_path / "out" / "summary.csv").read_text()
    assert "postgres,2,1,0,1,1024,1," in text
    assert "sqlite,,,,,,1," in text


def test_levels_in_words():
    row = {"nodes": 2.0, "replicas": np.nan, "workers": 1, "routers": 0.0, "node_memory_mb": 512}
    words = setting(row, list(row))
    assert words == "2 nodes, 1 worker, routers beside the clients, 512 MiB per node"
    assert [level(v) for v in (2.0, 0.5, "none", True)] == ["2", "0.5", "none", "True"]
