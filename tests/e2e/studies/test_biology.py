"""Mixed phases, questions and break-even: from the driver to the report."""

from __future__ import annotations

import json
import logging
from dataclasses import replace
from pathlib import Path
from typing import Any

from support import driving
from support.paths import SMALL
from support.workspace import Workspace

from storewise.driver.worker import run_worker
from storewise.metrics.schema import read_part


def run(measured: Any, place: Path, phase: str, before: list[Path]) -> dict[str, Any]:
    """Run a phase after others; what its part says of itself."""
    job = replace(driving.job(measured, place, phase), before=tuple(before))
    run_worker(job, driving.check_of(place), logging.getLogger("worker"))
    before.append(job.result)
    return read_part(job.result)[1]


#: Few jobs: each is a Python process of its own.
E2E = """\
inputs: {paths: data}
engines: [files, sqlite, duckdb]
indexes: [align.q, align.gene]
factors: {index: [none, before]}
exclude:
  - {engine: files, index: before}
  - {engine: sqlite, index: none}
  - {engine: duckdb, index: none}
repeats: 1
verify: 20
phases:
  - write: {leave: 0.4}
  - query: {operations: 10}
  - mixed: {operations: 12, writes: 0.5, batch_size: 100}
"""


def test_questions_and_break_even_through_the_workflow(tmp_path: Path) -> None:
    place = Workspace(tmp_path)
    place.copy_inputs(SMALL)
    place.write_study(E2E)
    done = place.storewise("run", "s.yaml")
    assert done.returncode == 0, done.stdout + done.stderr
    counts = place.counts()
    assert len(counts) == 3
    verdict = json.loads((place.results / "analysis" / "verdict.json").read_text())
    by_name = {c["name"]: c["standings"] for c in verdict["criteria"]}
    assert by_name["query"][0]["choice"] == "SSEARCH files"
    assert by_name["query"][0]["baseline"]
    assert all(s["choice"] != "SSEARCH files" for s in by_name["load"])
    assert "SSEARCH files" not in verdict["pays_from"]
    assert set(verdict["pays_from"]) == {"SQLite", "DuckDB"}
    assert any("pays for its load" in text for text in verdict["text"])
    lines = (place.results / "analysis" / "questions.csv").read_text().splitlines()
    assert len(lines) == 1 + 3 * 5
    assert any("align.gene" in line for line in lines)
    page = (place.results / "report.html").read_text()
    assert page.index('id="verdict-table"') < page.index("nothing to load")
    for piece in ('id="questions"', 'id="breakeven"', "client (reads the files)", "store (find)"):
        assert piece in page
