"""Workload `measures`: its readings, its thresholds, and what stores make of them."""

import sqlite3

import numpy as np
import pandas as pd
import pytest
from support.driving import rows, total
from support.workspace import Workspace

from storewise.driver.worker_job import notes_of
from storewise.workloads.sensors.generator import Readings

STUDY = """\
workload: measures
engines: {engines}
factors: {{index: [after]}}
phases:
  - load: {{rows: 10000, batch_size: 4000}}
  - add: {{rows: 500, batch_size: 200}}
  - q1: {{operations: 60, steps: [{{threads: 1}}, {{threads: 3}}]}}
  - q2: {{operations: 2, selectivity_pct: [0.2, 5]}}
  - q3: {{operations: 2, steps: [{{selectivity_pct: 0.2}}, {{selectivity_pct: 5}}]}}
verify: 50
"""


@pytest.mark.slow
def test_a_whole_study(tmp_path):
    """By Snakemake: q2's readings are as many as q3 counts and as numpy finds."""
    space = Workspace(tmp_path)
    url = f"sqlite:///{tmp_path / 'mine.db'}"
    engines = f"{{sqlite: , sql: {{url: '{url}'}}}}"
    space.write_study(STUDY.format(engines=engines))
    run = space.snakemake()
    assert run.returncode == 0, run.stderr[-4000:]
    values = Readings().values(np.arange(10_500))
    trials = sorted((space.results / "trials").iterdir())
    assert len(trials) == 2
    for trial in trials:
        notes = [n for q in ("q2", "q3") for n in notes_of([trial / f"{q}.0.parquet"])]
        asked = [(n["query"], n["selectivity_pct"]) for n in notes]
        assert asked == [("q2", 0.2), ("q2", 5), ("q3", 0.2), ("q3", 5)]
        for note in notes:
            assert note["rows"] == 10_500 and note["answered_by"] == "store"
            assert note["found"] == note["matched"] == (values > note["threshold"]).sum()
            assert note["uses_index"] is not None and "measures" in note["plan"]
            assert len(note["seconds"]) == 2
        assert total(trial / "q2.0.parquet", "documents", second=None) == sum(
            2 * n["found"] for n in notes[:2]
        )
        verified = rows(trial / "verify.parquet", metric="counted_documents")
        assert [row["value"] for row in verified] == [10_500]
        assert total(trial / "verify.parquet", "wrong_documents") == 0
    with sqlite3.connect(tmp_path / "mine.db") as left:
        names = left.execute("SELECT name FROM sqlite_master WHERE name LIKE 'sw%'").fetchall()
    assert names == []
    assert not list((space.results / "external").iterdir())
    assert "uses index" in (space.results / "report.html").read_text()
    warned = pd.read_csv(space.results / "analysis" / "warnings.csv", keep_default_na=False)
    assert "wrong_number" not in set(warned["code"])
