"""One study of an embedded store and one on servers: YCSB's workloads, sweeps, a search, nodes
slowed and killed. It is measured once, and analysed elsewhere, on a host without servers."""

import json
import os
import re
import shutil
import subprocess
from dataclasses import dataclass

import pandas as pd
import pytest
from support.driving import rows
from support.embedded_study import NOWHERE, POSTGRES
from support.workflow import MEASURING, plan
from support.workspace import Workspace

from storewise.analysis.measure.steps import ALL
from storewise.analysis.model.tables import Tables
from storewise.analysis.pipeline.build import build_tables
from storewise.analysis.pipeline.load import load_results
from storewise.metrics.schema import read_conditions, read_part
from storewise.report.tables.per_node import node_tables

pytestmark = [
    pytest.mark.needs("postgres"),
    pytest.mark.long("the first of them measures the whole study for all others", limit=900),
]

STUDY = """\
title: Two stores
workload: ycsb
engines: [sqlite, postgres]
if_missing: leave_out
factors: {workers: [2], processes: [2], threads: [2], nodes: [2]}
exclude:
  - {engine: sqlite, phase: run}
  - {engine: sqlite, phase: a}
  - {engine: sqlite, phase: c}
  - {engine: sqlite, phase: g}
keep_data: true
phases:
  - load: {properties: workload, batchsize: 10}
  - d: {operationcount: 400}
  - run:
      properties: workload
      steps:
        - {operationcount: 400}
        - {operationcount: 80, readproportion: 0, updateproportion: 0,
           scanproportion: 0.95, insertproportion: 0.05, maxscanlength: 50}
        - {operationcount: 120, readproportion: 0.1, updateproportion: 0, insertproportion: 0.9}
        - {operationcount: 60, readproportion: 0.1, updateproportion: 0, insertproportion: 0.9,
           threads: 1}
  - a: {sweep: {operations: [60, 120], clients: [1, 2, 6]}}
  - c:
      clients: 3
      arrivals: poisson
      restart: true
      search: {limit_ms: 50, low: 50, high: 800, steps: 4, seconds: 0.3}
  - g:
      seconds: 1
      clients: 2
      steps:
        - {slow: null}
        - {slow: {how: disk, nodes: 2, file_mb: 16}}
        - {crash: {node: random, after: [0.4, 0.8]}, seconds: 4}
"""
PROPERTIES = """\
# what YCSB's files look like
recordcount=600
operationcount=1000
workload=site.ycsb.workloads.CoreWorkload
fieldlength=20
dataintegrity=true
readproportion=0.5
updateproportion=0.5
requestdistribution=zipfian
"""


@dataclass
class Measured:
    """Where it was measured and where it was analysed, with the tables and the page."""

    place: Workspace
    elsewhere: Workspace
    tables: Tables
    page: str

    def trial(self, engine):
        return next(self.place.results.glob(f"trials/{engine}-*"))


@pytest.fixture(scope="module")
def measured(tmp_path_factory):
    place = Workspace(tmp_path_factory.mktemp("two"))
    place.write_study(STUDY)
    (place.directory / "workload").write_text(PROPERTIES)
    done = place.snakemake("--omit-from", "analyse")
    assert done.returncode == 0, done.stdout + done.stderr
    # By its results alone, for a study that has changed since then.
    elsewhere = Workspace(tmp_path_factory.mktemp("elsewhere"))
    elsewhere.write_study(STUDY.replace("d: {operationcount: 400}", "d: {operationcount: 401}"))
    (elsewhere.directory / "workload").write_text(PROPERTIES)
    for name in ("trials", "inputs"):
        if (place.results / name).exists():
            shutil.copytree(place.results / name, elsewhere.results / name)
    assert elsewhere.results.exists()
    done = elsewhere.snakemake("analysis", env={**os.environ, POSTGRES: NOWHERE})
    assert done.returncode == 0, done.stdout + done.stderr
    tables = build_tables(load_results(elsewhere.results))
    return Measured(place, elsewhere, tables, (elsewhere.results / "report.html").read_text())


def test_nothing_is_left_but_what_is_kept(measured):
    left = measured.place.left_behind()
    assert all(re.fullmatch(r"trials/[^/]+/(store\.\d|data\.data\d)", name) for name in left), left
    assert measured.place.processes() == []


def test_results_alone_are_analysed_where_their_engine_is_not(measured):
    """What changed since is a warning; what was measured is not called left out."""
    assert "PostgreSQL" in measured.page and "was not measured" not in measured.page
    warned = (measured.elsewhere.results / "analysis" / "warnings.csv").read_text()
    assert warned.count("measured with another config; it differs in phases") == 2
    there, here = (
        {path.name for path in one.results.glob("trials/*")}
        for one in (measured.place, measured.elsewhere)
    )
    assert there == here
    jobs = plan(measured.elsewhere, "analysis")
    assert not MEASURING & set(jobs), jobs


def test_find_counts_the_files_of_a_server(measured):
    """One that has ended leaves a few less."""
    table = pd.read_csv(measured.elsewhere.results / "analysis" / "storage_summary.csv")
    sizes = table[table["engine"] == "postgres"].set_index("measure")["mean"]
    data = list(measured.trial("postgres").glob("data.*"))
    assert len(data) == 2
    command = ["find", *map(str, data), "-not", "-name", ".snakemake_timestamp"]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    assert sizes["inodes"] == pytest.approx(len(done.stdout.splitlines()), abs=40)
    assert sizes["metadata_operations"] > 0


def totals(path, metric):
    """Sums by operation over a step's totals of all processes of one worker."""
    result = {}
    for row in read_part(path)[0].to_pylist():
        if row["metric"] == metric and row["operation"] and row["second"] is None:
            result[row["operation"]] = result.get(row["operation"], 0.0) + row["value"]
    return result


@pytest.mark.parametrize("engine", ["sqlite", "postgres"])
def test_two_stores_do_the_core_workloads(measured, engine):
    trial = measured.trial(engine)
    sums = {}
    for part in trial.glob("*.[01].parquet"):
        if part.name.split(".")[0] in ("node", "written"):
            continue
        for name, value in totals(part, "operations").items():
            of_phase = sums.setdefault(part.name.split(".")[0], {})
            of_phase[name] = of_phase.get(name, 0.0) + value
        failed = sum(totals(part, "errors").values())
        assert failed == 0 or part.name.startswith("g."), part
    assert sum(sums["d"].values()) == 400
    assert 0 < sums["d"]["insert"] < 60
    if engine == "postgres":
        assert sum(sums["run"].values()) == 660
        assert sums["run"]["scan"] > 60
        assert sums["run"]["insert"] > 100
    inserted = sum(of_phase.get("insert", 0.0) for name, of_phase in sums.items() if name != "load")
    assert totals(trial / "verify.parquet", "checked_documents") == {"usertable": 600 + inserted}
    # A killed server may have stored what it could not answer any more.
    failed = sum(totals(part, "errors").get("insert", 0.0) for part in trial.glob("g.*.parquet"))
    (counted,) = totals(trial / "verify.parquet", "counted_documents").values()
    assert 600 + inserted <= counted <= 600 + inserted + failed
    assert totals(trial / "verify.parquet", "lost_documents") == {"usertable": 0}
    assert totals(trial / "verify.parquet", "wrong_documents") == {"usertable": 0}


def test_clients_of_a_step_are_spread_over_workers_and_processes(measured):
    """Those without clients keep step and are silent."""
    parts = [measured.trial("postgres") / f"a.{worker}.parquet" for worker in (0, 1)]
    every = {(0, 0), (0, 1), (1, 0), (1, 1)}
    wanted = [{(0, 0)}, {(0, 0), (1, 0)}, every] * 2
    for step, busy in enumerate(wanted):
        found = [
            (worker, row["process"])
            for worker, part in enumerate(parts)
            for row in rows(part, metric="duration", step=step)
            if row["process"] is not None
        ]
        assert set(found) == busy, step
        done = [
            row["value"]
            for part in parts
            for row in rows(part, metric="operations", step=step, second=None)
            if row["operation"] and row["process"] is not None
        ]
        assert sum(done) == (60 if step < 3 else 120), step


def test_the_page_and_the_study_tell_the_workload(measured):
    assert "For this workload, on this machine" in measured.page
    study = json.loads((measured.elsewhere.results / "study.json").read_text())
    assert study["phases"][0]["params"]["recordcount"] == 600


def test_each_step_of_a_search_begins_with_a_restart_of_the_servers(measured):
    logs = (measured.place.results / "logs").rglob("c.0.log")
    text = "\n".join(path.read_text() for path in logs)
    begun = rows(measured.trial("postgres") / "c.0.parquet", metric="started_at")
    assert text.count("restarting all servers") == len(begun)


def test_a_sweep_has_its_steps_in_the_tables(measured):
    steps = measured.tables.steps
    whole = steps[(steps["operation"] == ALL) & (steps["phase"] == "a")]
    runtimes = whole[whole["measure"] == "runtime"]
    assert list(zip(runtimes["planned"], runtimes["clients"], strict=True)) == [
        (planned, clients) for planned in (60, 120) for clients in (1, 2, 6)
    ]
    each = steps[(steps["phase"] == "a") & (steps["measure"] == "response_p99")]
    assert set(each["operation"]) == {ALL, "read", "update"}
    assert (each["mean"] > 0).all()
    rates = steps[(steps["phase"] == "c") & (steps["operation"] == ALL)]
    served = rates[rates["measure"] == "served"]
    assert served["rate"].between(50, 800).all()
    assert ((served["mean"] > 0) & (served["mean"] <= 1)).all()


def test_a_search_tells_the_steps_that_all_workers_took(measured):
    (result,) = measured.tables.searches.to_dict("records")
    assert (result["clients"], result["limit_ms"]) == (3, 50)
    parts = [measured.place.results / "trials" / result["trial"] / f"c.{k}.parquet" for k in (0, 1)]
    first, second = map(read_conditions, parts)
    # Both workers have taken the same steps, and every one is told.
    assert first["searches"] == second["searches"]
    tried = [one["rate"] for one in first["searches"][0]["tried"]]
    assert [step["rate"] for step in first["steps"]] == tried
    assert 2 <= len(tried) <= 4
    answered = rows(parts[0], metric="highest_rate")
    best = first["searches"][0]["rate"]  # none at all on a machine that is busy enough
    assert [row["value"] for row in answered] == ([] if best is None else [best])
    assert rows(parts[1], metric="highest_rate") == []


def test_steps_and_searches_are_drawn_and_on_the_page(measured):
    index = json.loads((measured.elsewhere.results / "figures" / "figures.json").read_text())
    assert {"clients", "latency_over_throughput", "runtime"} <= set(index["made"])
    assert not index["errors"]
    assert "Throughput over clients" in measured.page
    assert "Highest rates within a limit" in measured.page


def test_nodes_slowed_and_killed(measured):
    tables = measured.tables
    assert list(tables.slowdown.sort_values("step")["slowed_nodes"]) == [0, 2]
    per_node = tables.per_node[tables.per_node["phase"] == "g"]
    assert set(per_node[per_node["step"] == 1]["slowed"]) == {"disk, a file of 16 MiB"}
    (crash,) = tables.crashes.to_dict("records")
    assert 0.4 <= crash["after"] <= 0.8
    assert crash["node"] in ("data0", "data1")
    assert crash["errors"] > 0
    assert crash["recovery_time"] > 0
    # The other node went on; the killed one's documents were out of reach.
    assert crash["unavailable_time_node"] > crash["unavailable_time"]
    assert crash["lost_documents"] == 0
    assert [t.id for t in node_tables(tables)] == ["per-node", "slowdown", "crashes"]
    assert not list(measured.place.directory.rglob("*.slow"))
    assert "Servers killed under load" in measured.page
    assert "Throughput with slowed nodes" in measured.page
