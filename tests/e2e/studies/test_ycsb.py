"""Studies of the workload ``ycsb`` through the whole workflow."""

import json
from pathlib import Path

from support.workspace import Workspace

from storewise.metrics.schema import read_part

STUDY = """\
title: YCSB
workload: ycsb
engines: [sqlite, postgres]
factors: {workers: [2], processes: [2], threads: [2]}
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


def totals(path: Path, metric: str) -> dict[str, float]:
    """Sums by operation over a step's totals of all processes of one worker."""
    found: dict[str, float] = {}
    for row in read_part(path)[0].to_pylist():
        if row["metric"] == metric and row["operation"] and row["second"] is None:
            found[row["operation"]] = found.get(row["operation"], 0.0) + row["value"]
    return found


def test_two_stores_do_the_core_workloads(tmp_path: Path) -> None:
    place = Workspace(tmp_path)
    place.write_study(STUDY)
    (tmp_path / "workload").write_text(PROPERTIES)
    done = place.snakemake()
    assert done.returncode == 0, done.stdout[-3000:]
    trials = sorted((place.results / "trials").iterdir())
    assert len(trials) == 2
    for trial in trials:
        sums: dict[str, dict[str, float]] = {}
        for phase in "load", "d", "run":
            for worker in range(2):
                part = trial / f"{phase}.{worker}.parquet"
                assert sum(totals(part, "errors").values()) == 0
                for name, value in totals(part, "operations").items():
                    of_phase = sums.setdefault(phase, {})
                    of_phase[name] = of_phase.get(name, 0.0) + value
        assert {p: sum(s.values()) for p, s in sums.items() if p != "load"} == {
            "d": 400,
            "run": 660,
        }
        assert sums["run"]["scan"] > 60
        inserted = sums["d"]["insert"] + sums["run"]["insert"]
        assert inserted > 100
        verified = totals(trial / "verify.parquet", "checked_documents")
        assert verified == {"usertable": 600 + inserted}
        assert totals(trial / "verify.parquet", "counted_documents") == verified
        assert totals(trial / "verify.parquet", "lost_documents") == {"usertable": 0}
        assert totals(trial / "verify.parquet", "wrong_documents") == {"usertable": 0}
    page = (place.results / "report.html").read_text()
    assert "For this workload, on this machine" in page
    study = json.loads((place.results / "study.json").read_text())
    assert study["phases"][0]["params"]["recordcount"] == 600
