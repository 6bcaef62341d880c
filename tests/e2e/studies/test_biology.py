"""A study of one's own outputs as `storewise init` writes it, with less of it: what is in its
results and on its page, from the inputs on."""

import json
import re
import subprocess

import pandas as pd
import pyarrow.parquet as pq
import pytest
from support.embedded_study import NOWHERE
from support.paths import SMALL

pytestmark = [
    pytest.mark.xdist_group("embedded"),
    pytest.mark.long("the first of them measures the whole study for all others", limit=900),
]


@pytest.fixture
def place(measured):
    return measured.place


@pytest.fixture
def verdict(place):
    return json.loads((place.results / "analysis" / "verdict.json").read_text())


@pytest.fixture
def page(place):
    return (place.results / "report.html").read_text()


def test_init_writes_a_study_that_runs(measured):
    place, done = measured.place, measured.run
    assert "# config/README.md explains every key." in (place.directory / "mine.yaml").read_text()
    assert "\x1b" not in done.stdout
    *trials, answer, beside, page, log, following = done.stdout.splitlines()
    assert "   sure: " in answer
    assert "than" in beside
    assert len(trials) == 4
    assert all(re.fullmatch(r"ok   \S.* {3}\S.* [\d,.]+/s", line) for line in trials), trials
    assert (page, log) == ("Page: results/s/report.html", "Log: results/s/logs/run.log")
    assert following == "Next: open the page in a browser"


def test_every_document_is_counted_and_nothing_is_left(place):
    expected = place.documents()
    counts = place.counts()
    assert sorted(name.split("-")[0] for name in counts) == ["files", "null", "parquet", "sqlite"]
    for trial, result in counts.items():
        assert result == ((0, 0) if trial.startswith("null") else (expected, expected))
    kept = {str(path.relative_to(place.results)) for path in place.results.glob("trials/*/store.*")}
    assert kept
    assert set(place.left_behind()) == kept, "keep_data keeps the stores, and nothing else"
    assert place.processes() == []


def test_the_results_that_the_readme_names_are_there(place):
    for name in ("report.html", "summary.csv", "figures", "logs", "inputs/quarantine.tsv"):
        assert (place.results / name).exists(), name
    part = next(place.results.glob("trials/sqlite-w2-*/read.1.parquet"))
    conditions = json.loads(pq.read_schema(part).metadata[b"storewise"])
    assert conditions["versions"]["sqlite.sqlite"]
    assert conditions["trial"]["factors"]["engine"] == "sqlite"
    assert set(pq.read_table(part)["step"].to_pylist()) == {0, 1}


def test_questions_and_break_even_through_the_workflow(place, verdict):
    by_name = {c["name"]: c["standings"] for c in verdict["criteria"]}
    assert by_name["query"][0]["choice"] == "Plain files"
    assert all(s["choice"] != "Plain files" for s in by_name["load"])
    assert "Parquet files" in verdict["pays_from"]
    assert "Plain files" not in verdict["pays_from"]
    plans = pd.read_csv(place.results / "analysis" / "plans.csv")
    assert len(plans) == 3 * 5
    # Plain files have no plan; SQLite and Parquet files tell that of what they find.
    assert plans["plan"].notna().sum() == 2 * 3


def test_the_page_sets_the_stores_beside_the_files(page):
    chart = page[page.index('<table id="chart">') :]
    chart = chart[: chart.index("</table>")]
    assert chart.index("Plain files") < chart.index("nothing to load") < chart.index("SQLite")
    found = ("<td>client</td><td>find</td>", "<td>store</td><td>find</td>")
    for piece in ('id="questions"', ">pays_from<", *found):
        assert piece in page


def test_an_engine_that_is_left_out_is_named(measured, page):
    log = (measured.place.results / "logs" / "run.log").read_text()
    assert f"postgres is left out: PostgreSQL: no postgres (looked in {NOWHERE})" in log
    assert 'href="#warnings">PostgreSQL was not measured<' in page and NOWHERE in page
    assert "have no results yet" not in page


@pytest.fixture
def sizes(place):
    """Measures by engine."""
    table = pd.read_csv(place.results / "analysis" / "summary.csv")
    return table.pivot_table(index="engine", columns="measure", values="mean")


def found(*places):
    # Snakemake puts a file of its own into directories when their job has ended.
    command = ["find", *map(str, places), "-not", "-name", ".snakemake_timestamp"]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    return len(done.stdout.splitlines())


def test_find_counts_the_same(place, sizes):
    for engine, workers in {"files": 1, "sqlite": 2, "parquet": 1}.items():
        (trial,) = place.results.glob(f"trials/{engine}-*")
        places = list(trial.glob("store.*"))
        assert len(places) == workers
        inputs = [place.directory / "data"] if engine == "files" else []
        assert sizes["inodes"][engine] == found(*places, *inputs), engine
    assert sizes["files"]["files"] == len(SMALL) + 1


def test_the_verdict_tells_them(verdict, sizes):
    (criterion,) = [one for one in verdict["criteria"] if one["name"] == "inodes"]
    stand = {one["choice"]: one["mean"] for one in criterion["standings"]}
    assert stand["SQLite"] == pytest.approx(sizes["inodes"]["sqlite"])
    assert "the full corpus has 1,119,820 files" in criterion["about"]
