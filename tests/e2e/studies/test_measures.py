"""Workload `measures`: its readings, its thresholds, and what stores make of them."""

import sqlite3
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from support.driving import rows, total
from support.servers.local import running
from support.workspace import Workspace

from storewise.driver.worker_job import notes_of
from storewise.engines.contract.engine import Schema
from storewise.engines.contract.queries import Count, Find, Where
from storewise.engines.registry import engine
from storewise.workloads.sensors.generator import MEASURES, Part, Readings, batches, threshold
from storewise.workloads.sensors.plan import uses_index


@pytest.mark.slow
@pytest.mark.needs("postgres")
def test_postgres_leaves_its_index_for_large_shares(tmp_path):
    number_of = 100_000
    readings = Readings()
    values = np.concatenate(list(readings.values_of(0, number_of)))
    schema = Schema((MEASURES,), ((MEASURES, "mv"),), "after")
    used = {}
    with running("postgres", tmp_path / "servers", schema=schema) as result:
        client = engine("postgres").connect(replace(result.cluster, kinds=(MEASURES,)), "write")
        for batch in batches(Part(readings, 0, number_of).chunks(65_536), 50_000):
            client.insert(MEASURES, batch)
        client.finish()
        for percent in (0.02, 1, 5, 60):
            at = threshold(readings, number_of, percent)
            where = [Where("mv", ">", at.value)]
            number = int((values > at.value).sum())
            assert len(client.find(Find(MEASURES, where))) == number == at.matched
            assert client.count(Count(MEASURES, where)) == number
            used[percent] = uses_index(client.explain(Find(MEASURES, where)))
        client.close()
    assert used == {0.02: True, 1: True, 5: True, 60: False}


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
    values = np.concatenate(list(Readings().values_of(0, 10_500)))
    trials = sorted((space.results / "trials").iterdir())
    assert len(trials) == 2
    for trial in trials:
        notes = [n for q in ("q2", "q3") for n in notes_of([trial / f"{q}.0.parquet"])]
        assert [(n["query"], n["selectivity_pct"]) for n in notes] == [
            ("q2", 0.2),
            ("q2", 5),
            ("q3", 0.2),
            ("q3", 5),
        ]
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
    page = (space.results / "report.html").read_text()
    assert "figure-plans" in page and "plan uses the index" in page
    table = pd.read_csv(space.results / "analysis" / "plans.csv", keep_default_na=False)
    assert set(table["query"]) == {"q2", "q3"} and (table["seconds"].astype(float) > 0).all()
    warned = pd.read_csv(space.results / "analysis" / "warnings.csv", keep_default_na=False)
    mixed = warned.loc[warned["code"] == "mixed_selectivities", "message"]
    assert len(mixed) == 1 and "phase q2" in mixed.iloc[0]
    assert "wrong_number" not in set(warned["code"])
