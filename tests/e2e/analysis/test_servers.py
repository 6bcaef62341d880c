"""Studies with servers: their nodes' samples by phase, sessions, factors that some trials lack."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from support.results import synthetic, synthetic_servers
from support.results.made import GROUP, Made

from storewise.analysis.common.text import level, setting
from storewise.analysis.files.parts import trial_files
from storewise.analysis.files.samples import read_samples
from storewise.analysis.measure.host_load import HOST_METRICS
from storewise.analysis.measure.node_load import node_samples
from storewise.analysis.model.tables import Tables
from storewise.analysis.pipeline.build import measured_tables
from storewise.analysis.pipeline.load import load_results
from storewise.analysis.pipeline.output import write_tables
from storewise.analysis.verdict.decision import verdict
from storewise.figures import hosts, scaling
from storewise.figures.paper import draw
from storewise.figures.selection import lowest
from storewise.report.tables.servers import _open_ports
from storewise.study.study import Study

ENGINES = ["sqlite", "null", "postgres", "mongodb"]

pytestmark = GROUP


def tables_of(study: Path) -> Tables:
    return measured_tables(load_results(study))


@pytest.fixture(scope="module")
def study(made: Made) -> Path:
    """One host has clients and servers."""
    return made.study(engines=ENGINES, nodes=[1, 2])


@pytest.fixture(scope="module")
def tables(made: Made) -> Tables:
    return made.tables(engines=ENGINES, nodes=[1, 2])


@pytest.fixture(scope="module")
def apart(made: Made) -> Tables:
    """Servers have hosts of their own, whose clocks are 40 s off."""
    return made.tables(
        engines=["postgres", "sqlite"],
        workers=[1],
        nodes=[2],
        store_hosts=["store-1", "store-2"],
        offset=40.0,
    )


def load_of(tables: Tables, metric: str, phase: str, engine: str = "postgres") -> pd.DataFrame:
    trials = set(tables.trials[tables.trials["engine"] == engine]["trial"])
    result = tables.host[tables.host["trial"].isin(trials)]
    return result[(result["metric"] == metric) & (result["phase"] == phase)]


@pytest.mark.parametrize("which", ["tables", "apart"])
def test_samples_of_nodes_come_to_the_phase_they_fell_in(
    which: str, request: pytest.FixtureRequest
) -> None:
    tables: Tables = request.getfixturevalue(which)
    # Seconds lie in two phases or in none: within 15 % of what the node did in each.
    for phase, cores in (("write", 0.8), ("read", 0.4)):
        result = load_of(tables, "store_cpu", phase)
        assert set(result["node"]) == {"data0", "data1"}
        assert result["mean"].to_numpy() == pytest.approx(cores, rel=0.15)
        assert result["max"].max() == pytest.approx(cores, rel=0.01)
    idle = load_of(tables, "store_cpu", "session")
    assert idle["mean"].to_numpy() == pytest.approx(0.05, rel=0.01)


def test_every_second_of_a_node_is_used_at_most_once(study: Path) -> None:
    rows = read_samples([trial_files(path) for path in sorted((study / "trials").iterdir())]).rows
    taken = node_samples(rows)
    subset = rows[rows["phase"] == "session"]
    lengths = taken[taken["metric"] == "sample_length"].groupby(["trial", "node"])["length"].sum()
    seconds = (
        subset[subset["metric"] == "sample_length"].groupby("trial", observed=True)["value"].sum()
    )
    for (trial, _), length in lengths.items():
        assert seconds[trial] - 5 < length <= seconds[trial] + 1e-6
    assert not taken.duplicated(["trial", "phase", "step", "node", "second", "metric"]).any()


def test_hosts_with_clients_are_told_by_these_and_others_by_their_node(
    tables: Tables, apart: Tables
) -> None:
    (host,) = set(load_of(tables, "cpu_iowait", "write")["host"])
    assert host == "node-7"
    keys = ["trial", "phase", "step", "host", "node", "metric"]
    assert not tables.host.duplicated(keys).any()
    wait = load_of(apart, "cpu_iowait", "write")
    assert set(wait["host"]) == {"node-7", "store-1", "store-2"}
    assert set(wait["node"]) == {""}
    of_stores = wait[wait["host"] != "node-7"]
    assert of_stores["mean"].to_numpy() == pytest.approx(30, rel=0.15)
    assert set(apart.host["metric"]) <= {
        *HOST_METRICS,
        *("client_cpu", "client_rss", "store_cpu", "store_rss", "store_bytes"),
    }
    assert {"store-1", "node-7"} <= set(apart.cpu["host"])


def test_factors_that_embedded_trials_lack_lose_and_split_nothing(tables: Tables) -> None:
    assert tables.results.factors[:2] == ("engine", "nodes")
    for table in (tables.summary, tables.latency_summary, tables.storage_summary):
        assert set(table["engine"]) - {"null"} == set(ENGINES) - {"null"}
        assert set(table["n"]) == {2}
    # SQLite's repeats share the spread of the servers', the null engine's only its own; a setting
    # that is noisier than the others has its own, too.
    rates = tables.summary[tables.summary["measure"] == "documents_per_s"]
    pooled = rates[rates["resampled"] == "pooled"]
    assert set(pooled["engine"]) == set(ENGINES)
    subset = set(rates[rates["engine"] == "sqlite"]["resampled"])
    assert "pooled" in subset and subset <= {"pooled", "repeats"}
    null = pooled["engine"] == "null"
    assert set(pooled[null]["freedom"]) == {2}
    assert (pooled[~null]["freedom"] > 4).all()
    assert rates[rates["engine"] == "sqlite"]["nodes"].isna().all()
    assert not {"one_repeat", "other_config", "missing_trials", "older_config"} & {
        w.code for w in tables.warnings
    }


def test_scaling_over_nodes(tables: Tables) -> None:
    result = tables.scaling
    nodes = result[(result["factor"] == "nodes") & (result["level"] == 2)]
    assert set(nodes["engine"]) == {"postgres"}
    assert set(nodes["workers"]) == {1, 2}
    speedup = nodes[nodes["quantity"] == "speedup"]["mean"]
    assert speedup.to_numpy() == pytest.approx(2**0.7, rel=0.1)
    efficiency = nodes[nodes["quantity"] == "efficiency"]["mean"]
    assert efficiency.to_numpy() == pytest.approx(2**-0.3, rel=0.1)
    workers = result[(result["factor"] == "workers") & (result["level"] == 2)]
    assert set(workers["engine"]) == set(ENGINES)


def test_verdict_names_the_topology_of_each_best(tables: Tables) -> None:
    result = verdict(tables)
    by_name = {c.name: c for c in result.criteria}
    shown = {s.shown for s in by_name["load"].standings}
    assert shown == {"SQLite", "PostgreSQL on 2 nodes", "MongoDB on 1 node"}
    assert {s.label for s in by_name["load"].standings} == {"SQLite", "PostgreSQL", "MongoDB"}
    text = " ".join([result.finding, *result.text])
    assert "nan" not in text.lower()
    assert "2.0" not in text


def test_store_sizes_of_servers(tables: Tables) -> None:
    sizes = tables.storage.merge(tables.trials[["trial", "engine", "nodes"]], on="trial")
    whole = sizes[sizes["measure"] == "node_bytes"]
    assert set(whole["engine"]) == {"postgres", "mongodb"}
    assert (whole["value"] == 4e8 * whole["nodes"]).all()
    subset = sizes[(sizes["measure"] == "bytes_per_document") & (sizes["engine"] == "postgres")]
    assert subset["value"].to_numpy() == pytest.approx(240, rel=0.01)


def test_balance_over_nodes(tables: Tables) -> None:
    result = tables.balance.merge(tables.trials[["trial", "nodes"]], on="trial")
    two = result[result["nodes"] == 2]
    assert set(two["node"]) == {"data0", "data1"}
    assert two.groupby("trial")["share"].sum().to_numpy() == pytest.approx(1)
    assert two["share"].to_numpy() == pytest.approx(0.5, rel=0.01)


def test_sessions_and_nodes(tables: Tables, apart: Tables) -> None:
    assert len(tables.sessions) == 2 * 2 * 2 + 2 * 2
    assert set(tables.sessions["form_time"]) == {0.4}
    assert set(tables.sessions["formed_time"]) == {4.5}
    assert set(apart.sessions["queue_time"]) == {3.0}
    assert set(apart.sessions["hosts"]) == {"store-1, store-2"}
    assert set(apart.nodes["clock_offset"]) == {40.0}
    assert apart.nodes["kept"].str.startswith("/scratch/").all()
    assert tables.nodes["kept"].isna().all()


def test_shared_hosts_are_one_finding(tables: Tables, apart: Tables) -> None:
    (result,) = [w for w in tables.warnings if "share" in w.message]
    assert result.code == "shared_host"
    assert result.trial == ""
    assert "in 12 of 12 trials" in result.message
    assert "data0, data1, clients" in result.message
    assert not [w for w in apart.warnings if w.code == "shared_host"]


def test_mixed_versions_are_those_of_one_engine_only(tables: Tables) -> None:
    assert "mixed_versions" not in {w.code for w in tables.warnings}


def test_missing_parts_of_servers_are_named(tmp_path: Path) -> None:
    one, two = synthetic.make_study(
        tmp_path / "s", engines=["postgres"], workers=[1], nodes=[2], repeats=2
    )
    (tmp_path / "s" / "trials" / one / "node.data1.parquet").unlink()
    (tmp_path / "s" / "trials" / two / "session.parquet").unlink()
    tables = tables_of(tmp_path / "s")
    message = {(w.code, w.trial): w.message for w in tables.warnings}
    assert "data1" in message["missing_node", one]
    assert ("missing_session", two) in message
    assert set(load_of(tables, "store_cpu", "write")["node"]) == {"data0", "data1"}
    # What closing wrote still names the node whose part is gone.
    lost = tables.nodes[(tables.nodes["trial"] == one) & (tables.nodes["node"] == "data1")]
    assert lost["version"].item() == "PostgreSQL 15.18"
    assert math.isnan(lost["queue_time"].item())


def test_a_trial_with_nodes_only_is_not_measured(tmp_path: Path) -> None:
    one, two = synthetic.make_study(
        tmp_path / "s", engines=["postgres"], workers=[1], nodes=[1], repeats=2
    )
    for path in (tmp_path / "s" / "trials" / one).iterdir():
        if not path.name.startswith(("node.", "session.")):
            path.unlink()
    tables = tables_of(tmp_path / "s")
    assert list(tables.trials["trial"]) == [two]
    (warning,) = [w for w in tables.warnings if w.code == "missing_trials"]
    assert one in warning.message


def test_a_node_that_sampled_nothing_is_no_error(tmp_path: Path) -> None:
    (one,) = synthetic.make_study(
        tmp_path / "s", engines=["postgres"], workers=[1], nodes=[1], repeats=1
    )
    (trial,) = Study.model_validate(synthetic.resolved(["postgres"], [1], 1, [1])).trials()
    synthetic_servers.make_session(
        tmp_path / "s" / "trials" / one,
        trial.model_dump(mode="json"),
        {"write": (synthetic.START + 1e6, synthetic.START + 1e6)},
        host=synthetic.HOST,
    )
    tables = tables_of(tmp_path / "s")
    assert set(load_of(tables, "store_cpu", "write")["node"]) == set()
    assert set(load_of(tables, "store_cpu", "session")["node"]) == {"data0"}


def test_tables_are_written_without_fractions(tables: Tables, tmp_path: Path) -> None:
    write_tables(tables, tmp_path / "out")
    text = (tmp_path / "out" / "summary.csv").read_text()
    assert "postgres,2,1,0,1,1024,1," in text
    assert "sqlite,,,,,,1," in text
    assert (tmp_path / "out" / "sessions.csv").is_file()


def test_figures_of_servers(tables: Tables, apart: Tables) -> None:
    charts = (
        scaling.over_nodes(tables),
        hosts.busy_nodes(tables),
        hosts.host_cpu(apart),
        scaling.speedup(tables),
    )
    over, busy, cpu, speedup = (draw(c) if c else None for c in charts)
    assert over is not None
    lines = {text.get_text() for text in over.axes[0].texts}
    assert {"SQLite", "client's ceiling"} <= lines
    assert len(over.axes[0].containers) == 2
    assert busy is not None
    names = [t.get_text() for t in busy.axes[0].get_yticklabels()]
    assert names == [
        "MongoDB, data0",
        "MongoDB, busiest client",
        "PostgreSQL, data0",
        "PostgreSQL, data1",
        "PostgreSQL, busiest client",
    ]
    assert busy.axes[0].patches[0].get_width() == pytest.approx(0.8, rel=0.15)
    assert cpu is not None
    assert "PostgreSQL nodes, write" in {axis.get_title() for axis in cpu.axes}
    assert speedup is not None
    assert {axis.get_xlabel() for axis in speedup.axes} == {"data nodes", "workers"}


def test_lowest_keeps_engines_without_the_factor() -> None:
    table = pd.DataFrame(
        {"engine": ["a", "a", "b"], "nodes": [1.0, 2.0, np.nan], "workers": [2, 1, 4]}
    )
    result = lowest(table, ["nodes", "workers"])
    assert list(zip(result["engine"], result["workers"], strict=True)) == [("a", 2), ("b", 4)]


def test_levels_in_words() -> None:
    row = {"nodes": 2.0, "replicas": np.nan, "workers": 1, "routers": 0.0, "node_memory_mb": 512}
    words = setting(row, list(row))
    assert words == "2 nodes, 1 worker, routers beside the clients, 512 MiB per node"
    assert [level(v) for v in (2.0, 0.5, "none", True)] == ["2", "0.5", "none", "True"]


def test_ports_that_nothing_guards_are_told_by_role_and_reach() -> None:
    columns = ["role", "address", "open_ports"]
    rows = [
        ("master", "127.0.0.1", "client port: stop it; info: look"),
        ("regionserver", "127.0.0.1", "client port: stop it; info: look"),
        ("zookeeper", "192.0.2.7", "client port: move it"),
        ("thrift", "192.0.2.8", ""),
    ]
    outside, inside = _open_ports("hbase", pd.DataFrame(rows, columns=columns))
    assert outside.startswith("OPEN PORTS: HBase listened on 192.0.2.7, and nothing")
    assert outside.endswith("(zookeeper: client port: move it)")
    assert "loopback only" in inside
    assert inside.endswith(
        "(master and regionserver: client port: stop it; master and regionserver: info: look)"
    )
    # A result of an earlier version does not tell: the engine's flags do.
    old = pd.DataFrame([("data", "192.0.2.7", None)], columns=columns)
    assert "read and write" in _open_ports("hbase", old)[0]
    assert _open_ports("postgres", old) == []
