"""Open loops, sweeps and searches: worker jobs by themselves, and through the whole workflow."""

import json
from pathlib import Path

from support import driving
from support.driving import make_inputs, rows, start, total, trial
from support.workspace import Workspace

from storewise.analysis.load import load_results
from storewise.analysis.steps import ALL
from storewise.analysis.tables import build_tables
from storewise.metrics.hdr import merge_logs, percentiles
from storewise.metrics.schema import read_conditions

STUDY = """\
title: Steps
workload: ycsb
engines: [postgres]
factors: {workers: [2], processes: [2]}
phases:
  - load: {recordcount: 500}
  - a: {sweep: {operations: [60, 120], clients: [1, 2, 6]}}
  - c:
      clients: 3
      arrivals: poisson
      restart: true
      search: {limit_ms: 50, low: 50, high: 800, steps: 4, seconds: 0.3}
"""


def of_step(part, metric, step, **wanted):
    return rows(part, metric=metric, step=step, **wanted)


def test_clients_are_spread_over_workers_and_processes(tmp_path):
    """Five clients on four processes, then one: those without clients keep step and are silent."""
    make_inputs(tmp_path, 4)
    steps = [{"clients": 5}, {"clients": 1, "restart": True}, {"threads": 2}]
    read = {"name": "read", "params": {"operations": 40}, "steps": steps}
    measured = trial("sqlite", ["write", read], workers=2, processes=2)
    for phase in ("write", "read"):
        jobs = [start(measured, tmp_path, phase, worker) for worker in range(2)]
        assert [job.wait(300) for job in jobs] == [0, 0], (tmp_path / f"{phase}.0.log").read_text()
    parts = [tmp_path / f"read.{worker}.parquet" for worker in range(2)]
    for step in range(3):
        wanted = {"second": None, "operation": "get", "step": step}
        assert sum(total(part, "operations", **wanted) for part in parts) == 40
    busy = [
        {
            (worker, row["process"])
            for worker, part in enumerate(parts)
            for row in of_step(part, "duration", step)
            if row["process"] is not None
        }
        for step in range(3)
    ]
    assert busy == [{(0, 0), (0, 1), (1, 0), (1, 1)}, {(0, 0)}, busy[0]]
    conditions = read_conditions(parts[1])
    assert [(s["threads"], s["clients"]) for s in conditions["steps"]] == [(2, 5), (1, 1), (2, 8)]


def test_an_open_loop_that_is_asked_too_much_says_so(tmp_path):
    """No engine does 5 million operations/s: the backlog is counted, waited for in the response
    times, and a warning."""
    make_inputs(tmp_path, 1)
    steps = [{"rate": 50}, {"rate": 5e6}]
    read = {"name": "read", "params": {"seconds": 0.5}, "steps": steps}
    measured = trial("sqlite", ["write", read])
    for phase in ("write", "read"):
        driving.run_here(measured, tmp_path, phase)
    part = tmp_path / "read.0.parquet"
    (calm,) = of_step(part, "intended_operations", 0)
    assert calm["value"] == 25
    assert of_step(part, "unserved_operations", 0)[0]["value"] <= 2
    intended = of_step(part, "intended_operations", 1)[0]["value"]
    unserved = of_step(part, "unserved_operations", 1)[0]["value"]
    assert intended == 2_500_000
    done = total(part, "operations", second=None, step=1)
    assert done + unserved == intended
    assert of_step(part, "target_rate", 1)[0]["value"] == 5e6
    log = [part.with_suffix(".hlog")]
    response, service = (
        percentiles(merge_logs(log, f"get.{time}_time;step=1"), [50])[50]
        for time in ("response", "service")
    )
    assert response > 20 * service
    warnings = [w for w in read_conditions(part)["warnings"] if "target rate" in w]
    assert len(warnings) == 1
    assert "step 1" in warnings[0]


def test_a_study_with_sweeps_and_a_search(tmp_path: Path) -> None:
    place = Workspace(tmp_path)
    place.write_study(STUDY)
    done = place.snakemake()
    assert done.returncode == 0, done.stdout[-3000:]
    tables = build_tables(load_results(place.results))
    steps = tables.steps

    # Each step of the search has begun with a restart of the server.
    (trial,) = (place.results / "trials").iterdir()
    text = "\n".join(path.read_text() for path in (place.results / "logs").rglob("c.0.log"))
    assert text.count("restarting all servers") == len(
        rows(trial / "c.0.parquet", metric="started_at")
    )

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

    assert len(tables.searches) == 1
    for found in tables.searches.to_dict("records"):
        assert (found["clients"], found["limit_ms"]) == (3, 50)
        trial_parts = [place.results / "trials" / found["trial"] / f"c.{k}.parquet" for k in (0, 1)]
        first, second = (read_conditions(part) for part in trial_parts)
        # Both workers have taken the same steps, and every one is told.
        assert first["searches"] == second["searches"]
        tried = [one["rate"] for one in first["searches"][0]["tried"]]
        assert [step["rate"] for step in first["steps"]] == tried
        assert 2 <= len(tried) <= 4
        answered = rows(trial_parts[0], metric="highest_rate")
        best = first["searches"][0]["rate"]  # none at all on a machine that is busy enough
        assert [row["value"] for row in answered] == ([] if best is None else [best])
        assert rows(trial_parts[1], metric="highest_rate") == []
    index = json.loads((place.results / "figures" / "figures.json").read_text())
    for name in ("clients", "latency_over_throughput", "runtime"):
        assert index["why"][name] == ""
    page = (place.results / "report.html").read_text()
    assert "Throughput over clients" in page
    assert "Highest rates within a limit" in page
