"""One study of an embedded store and one on servers, which is not there at first: an engine left
out, YCSB's workloads, sweeps, a search, nodes slowed and killed. It is measured once."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from pathlib import Path

import pytest
from support.driving import rows
from support.workspace import Workspace

from storewise.analysis.measure.steps import ALL
from storewise.analysis.model.tables import Tables
from storewise.analysis.pipeline.build import build_tables
from storewise.analysis.pipeline.load import load_results
from storewise.metrics.schema import read_conditions, read_part
from storewise.report.tables.per_node import node_tables

pytestmark = pytest.mark.needs("postgres")

STUDY = """\
title: Two stores
workload: ycsb
engines: [sqlite, postgres]
if_missing: leave_out
factors: {workers: [2], processes: [2], threads: [2], nodes: [2]}
exclude:
  - {engine: sqlite, phase: a}
  - {engine: sqlite, phase: c}
  - {engine: sqlite, phase: g}
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
    """The study's place, what was there without servers, and the tables and page of the whole."""

    place: Workspace
    missing: str
    said: str
    first_trials: list[str]
    first_page: str
    first_verified: int
    tables: Tables
    page: str

    def trial(self, engine: str) -> Path:
        return next(self.place.results.glob(f"trials/{engine}-*"))


def verified_at(place: Workspace) -> int:
    return next(place.results.glob("trials/sqlite-*/verify.parquet")).stat().st_mtime_ns


@pytest.fixture(scope="module")
def measured(tmp_path_factory: pytest.TempPathFactory) -> Measured:
    """Measured without servers, then with them, and analysed where they are missing again."""
    place = Workspace(tmp_path_factory.mktemp("two"))
    place.write_study(STUDY)
    (place.directory / "workload").write_text(PROPERTIES)
    missing = str(place.directory / "nowhere")
    without = {**os.environ, "STOREWISE_POSTGRES_BIN": missing}
    first = place.snakemake(env=without)
    assert first.returncode == 0, first.stdout + first.stderr
    trials = sorted(p.name for p in (place.results / "trials").iterdir())
    page, verified = (place.results / "report.html").read_text(), verified_at(place)
    second = place.snakemake("--omit-from", "analyse")
    assert second.returncode == 0, second.stdout + second.stderr
    third = place.snakemake("analysis", env=without)
    assert third.returncode == 0, third.stdout + third.stderr
    tables = build_tables(load_results(place.results))
    last = (place.results / "report.html").read_text()
    return Measured(place, missing, first.stderr, trials, page, verified, tables, last)


def test_what_is_left_out_is_named_and_measured_later(measured: Measured) -> None:
    why = f"postgres is left out: PostgreSQL: no postgres (looked in {measured.missing})"
    assert why in measured.said
    (name,) = measured.first_trials
    assert name.startswith("sqlite-")
    assert "PostgreSQL was not measured" in measured.first_page
    assert measured.missing in measured.first_page
    assert "have no results yet" not in measured.first_page
    # Where the engine is, the same study measures what is missing, and nothing again.
    assert len(list((measured.place.results / "trials").iterdir())) == 2
    assert verified_at(measured.place) == measured.first_verified
    # What was measured stays in the report of a host without the engine.
    assert "PostgreSQL" in measured.page and "was not measured" not in measured.page
    assert measured.place.left_behind() == []


def test_a_study_without_any_engine_on_the_host(tmp_path: Path) -> None:
    place = Workspace(tmp_path)
    place.write_study(
        "workload: ycsb\nengines: [postgres]\nif_missing: leave_out\n"
        "phases: [load: {recordcount: 9}, c: {operations: 9}]\n"
    )
    done = place.snakemake("-n", env={**os.environ, "STOREWISE_POSTGRES_BIN": str(tmp_path / "no")})
    assert done.returncode != 0
    assert "no engine of it can run on this host" in done.stdout + done.stderr


def totals(path: Path, metric: str) -> dict[str, float]:
    """Sums by operation over a step's totals of all processes of one worker."""
    result: dict[str, float] = {}
    for row in read_part(path)[0].to_pylist():
        if row["metric"] == metric and row["operation"] and row["second"] is None:
            result[row["operation"]] = result.get(row["operation"], 0.0) + row["value"]
    return result


@pytest.mark.parametrize("engine", ["sqlite", "postgres"])
def test_two_stores_do_the_core_workloads(measured: Measured, engine: str) -> None:
    trial = measured.trial(engine)
    sums: dict[str, dict[str, float]] = {}
    for phase in "load", "d", "run":
        for worker in range(2):
            part = trial / f"{phase}.{worker}.parquet"
            assert sum(totals(part, "errors").values()) == 0
            for name, value in totals(part, "operations").items():
                of_phase = sums.setdefault(phase, {})
                of_phase[name] = of_phase.get(name, 0.0) + value
    assert {p: sum(s.values()) for p, s in sums.items() if p != "load"} == {"d": 400, "run": 660}
    assert sums["run"]["scan"] > 60
    inserted = sums["d"]["insert"] + sums["run"]["insert"]
    assert inserted > 100
    verified = totals(trial / "verify.parquet", "checked_documents")
    if engine == "sqlite":
        assert verified == {"usertable": 600 + inserted}
    else:  # and those of phase g
        assert verified["usertable"] > 600 + inserted
    # A killed server may have stored what it could not answer any more.
    failed = sum(totals(part, "errors").get("insert", 0.0) for part in trial.glob("g.*.parquet"))
    (counted,) = totals(trial / "verify.parquet", "counted_documents").values()
    assert verified["usertable"] <= counted <= verified["usertable"] + failed
    assert totals(trial / "verify.parquet", "lost_documents") == {"usertable": 0}
    assert totals(trial / "verify.parquet", "wrong_documents") == {"usertable": 0}


def test_the_page_and_the_study_tell_the_workload(measured: Measured) -> None:
    assert "For this workload, on this machine" in measured.page
    study = json.loads((measured.place.results / "study.json").read_text())
    assert study["phases"][0]["params"]["recordcount"] == 600


def test_each_step_of_a_search_begins_with_a_restart_of_the_servers(measured: Measured) -> None:
    logs = (measured.place.results / "logs").rglob("c.0.log")
    text = "\n".join(path.read_text() for path in logs)
    begun = rows(measured.trial("postgres") / "c.0.parquet", metric="started_at")
    assert text.count("restarting all servers") == len(begun)


def test_a_sweep_has_its_steps_in_the_tables(measured: Measured) -> None:
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


def test_a_search_tells_the_steps_that_all_workers_took(measured: Measured) -> None:
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


def test_steps_and_searches_are_drawn_and_on_the_page(measured: Measured) -> None:
    index = json.loads((measured.place.results / "figures" / "figures.json").read_text())
    assert {"clients", "latency_over_throughput", "runtime"} <= set(index["made"])
    assert not index["errors"]
    assert "Throughput over clients" in measured.page
    assert "Highest rates within a limit" in measured.page


def test_nodes_slowed_and_killed(measured: Measured) -> None:
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
