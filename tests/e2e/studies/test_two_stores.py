"""One study of an embedded store and one on servers: YCSB's workloads, sweeps, a search, nodes
slowed and killed. It is measured once, and analysed elsewhere, on a host without servers."""

import os
import re
import shutil
from collections import Counter, defaultdict
from dataclasses import dataclass

import pytest
from support.embedded_study import NOWHERE, POSTGRES
from support.workflow import MEASURING, plan
from support.workspace import Workspace

from storewise.analysis.model.columns import ALL
from storewise.analysis.model.tables import Tables
from storewise.analysis.pipeline.build import build_tables
from storewise.analysis.pipeline.load import load_results
from storewise.metrics.schema import read_part

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
    shutil.copytree(place.results / "trials", elsewhere.results / "trials")
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
    jobs = plan(measured.elsewhere, "analysis")
    assert not MEASURING & set(jobs), jobs


def totals(path, metric):
    """Sums by operation over a step's totals of all processes of one worker."""
    result = Counter()
    for row in read_part(path)[0].to_pylist():
        if row["metric"] == metric and row["operation"] and row["second"] is None:
            result[row["operation"]] += row["value"]
    return result


@pytest.mark.parametrize("engine", ["sqlite", "postgres"])
def test_two_stores_do_the_core_workloads(measured, engine):
    trial = measured.trial(engine)
    sums = defaultdict(Counter)
    for part in trial.glob("*.[01].parquet"):
        if part.name.split(".")[0] in ("node", "written"):
            continue
        sums[part.name.split(".")[0]] += totals(part, "operations")
        failed = sum(totals(part, "errors").values())
        assert failed == 0 or part.name.startswith("g."), part
    assert sum(sums["d"].values()) == 400
    assert 0 < sums["d"]["insert"] < 60
    if engine == "postgres":
        assert sum(sums["run"].values()) == 660
        assert sums["run"]["scan"] > 60
        assert sums["run"]["insert"] > 100
    inserted = sum(done["insert"] for name, done in sums.items() if name != "load")
    assert totals(trial / "verify.parquet", "checked_documents") == {"usertable": 600 + inserted}
    # A killed server may have stored what it could not answer any more.
    failed = sum(totals(part, "errors")["insert"] for part in trial.glob("g.*.parquet"))
    (counted,) = totals(trial / "verify.parquet", "counted_documents").values()
    assert 600 + inserted <= counted <= 600 + inserted + failed
    assert totals(trial / "verify.parquet", "lost_documents") == {"usertable": 0}
    assert totals(trial / "verify.parquet", "wrong_documents") == {"usertable": 0}


def test_a_sweep_has_its_steps_in_the_tables(measured):
    steps = measured.tables.steps
    whole = steps[(steps["operation"] == ALL) & (steps["phase"] == "a")]
    runtimes = whole[whole["measure"] == "duration"]
    assert list(zip(runtimes["planned"], runtimes["clients"], strict=True)) == [
        (planned, clients) for planned in (60, 120) for clients in (1, 2, 6)
    ]
    assert measured.tables.searched == {"c"}


def test_nodes_slowed_and_killed(measured):
    tables = measured.tables
    left = tables.summary[tables.summary["measure"] == "slowed_rate"]
    assert list(left["other"].str[:8]) == ["0 slowed", "2 slowed"]
    per_node = tables.per_node[tables.per_node["phase"] == "g"]
    assert set(per_node[per_node["step"] == 1]["slowed"]) == {"disk, file_mb 16"}
    (crash,) = tables.crashes.to_dict("records")
    assert 0.4 <= crash["after"] <= 0.8
    assert crash["node"] in ("data0", "data1")
    assert min(crash["errors"], crash["recovery_time"]) > 0
    # The other node went on; the killed one's documents were out of reach.
    assert crash["unavailable_time_node"] > crash["unavailable_time"]
    assert crash["lost_documents"] == 0
    assert not list(measured.place.directory.rglob("*.slow"))
    assert "Servers killed under load" in measured.page
