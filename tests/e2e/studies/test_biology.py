"""A study of one's own outputs as `storewise init` writes it, with less of it: several processes
and threads, steps, kept stores, mixed phases, questions and break-even, from inputs to report."""

from __future__ import annotations

import json
import re
import subprocess

import duckdb
import pytest
from support.paths import SMALL
from support.workspace import Workspace

from storewise.ssearch.parse.stream import open_input

#: As `init` writes it, it would take minutes. Few jobs: each is a Python process of its own.
LESS = """\
extends: mine.yaml
engines: [files, sqlite, duckdb]
indexes: [align.q, align.gene]
factors: {workers: 1, processes: 2, threads: 2, index: [none, before]}
exclude:
  - {engine: files, index: before}
  - {engine: sqlite, index: none}
  - {engine: duckdb, index: none}
repeats: 1
verify: 20
keep_data: true
phases:
  - write: {leave: 0.4, batch_size: 200}
  - read: {operations: 100, steps: [{threads: 1}, {threads: 2, batch: 10}]}
  - query: {operations: 10}
  - mixed: {operations: 12, writes: 0.5, batch_size: 100}
"""
Run = tuple[Workspace, subprocess.CompletedProcess[str]]


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """The study from `init` to its report, and what `storewise run` said."""
    place = Workspace(tmp_path_factory.mktemp("mine"), study="small")
    inputs = place.copy_inputs([])
    for path in SMALL:
        # Plain text, as ssearch36 writes it.
        with open_input(path) as stream, (inputs / path.stem).open("wb") as plain:
            while data := stream.read(1 << 20):
                plain.write(data)
    made = place.storewise("init", str(inputs), "-o", "mine.yaml")
    assert made.returncode == 0, made.stdout + made.stderr
    place.write_study(LESS)
    done = place.storewise("run", "small.yaml")
    assert done.returncode == 0, done.stdout + done.stderr
    return place, done


def test_init_writes_a_study_that_runs(run: Run) -> None:
    place, done = run
    assert "# config/README.md explains every key." in (place.directory / "mine.yaml").read_text()
    assert "\x1b" not in done.stdout
    *trials, answer, beside, page, log, following = done.stdout.splitlines()
    assert "   sure: " in answer
    assert "than" in beside
    assert len(trials) == 3
    assert all(re.fullmatch(r"ok   \S.* {3}\S.* [\d,.]+/s", line) for line in trials), trials
    assert (page, log) == ("Page: results/small/report.html", "Log: results/small/logs/run.log")
    assert following == "Next: open the page in a browser"


def test_several_processes_steps_and_kept_stores(run: Run) -> None:
    place, _ = run
    counts = place.counts()
    assert len(counts) == 3
    assert all(expected == counted for expected, counted in counts.values())
    kept = sorted(place.results.glob("trials/sqlite-*/store.0/p*"))
    assert [path.name for path in kept] == ["p0", "p1"]
    part = next(place.results.glob("trials/sqlite-*/read.0.parquet"))
    steps = duckdb.sql(f"select distinct step from '{part}' order by 1").fetchall()
    assert steps == [(0,), (1,)]
    assert not (place.results / "live").exists()


def test_questions_and_break_even_through_the_workflow(run: Run) -> None:
    place, _ = run
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


def test_the_page_sets_the_stores_beside_the_files(run: Run) -> None:
    place, _ = run
    page = (place.results / "report.html").read_text()
    chart = page[page.index('<table id="chart">') :]
    chart = chart[: chart.index("</table>")]
    assert chart.index("SSEARCH files") < chart.index("nothing to load") < chart.index("SQLite")
    for piece in ('id="questions"', 'id="breakeven"', "client (reads the files)", "store (find)"):
        assert piece in page
