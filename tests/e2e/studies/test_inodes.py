"""Files and directories of real stores, as `find` counts them, from the load to the page."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pandas as pd
import pytest
from support.browsing import chromium, opened
from support.paths import SMALL
from support.workspace import Workspace

pytestmark = pytest.mark.needs("postgres")

STUDY = """\
title: Files
inputs: {paths: data/*.m10*}
engines: [files, sqlite, parquet, postgres]
factors: {workers: [2]}
keep_data: true
phases:
  - write: {batch_size: 500}
  - read: {operations: 20}
weights: {inodes: 1, disk: 1}
corpus: {files: 1119820, bytes: 13000000000000}
"""


@pytest.fixture(scope="module")
def measured(tmp_path_factory: pytest.TempPathFactory) -> Workspace:
    place = Workspace(tmp_path_factory.mktemp("files"))
    place.copy_inputs()
    place.write_study(STUDY)
    done = place.snakemake()
    assert done.returncode == 0, done.stderr
    return place


@pytest.fixture(scope="module")
def sizes(measured: Workspace) -> pd.DataFrame:
    """Measures by engine."""
    table = pd.read_csv(measured.results / "analysis" / "storage_summary.csv")
    return table.pivot_table(index="engine", columns="measure", values="mean")


def found(*places: Path) -> int:
    # Snakemake puts a file of its own into directories when their job has ended.
    command = ["find", *map(str, places), "-not", "-name", ".snakemake_timestamp"]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    return len(done.stdout.splitlines())


def test_find_counts_the_same(measured: Workspace, sizes: pd.DataFrame) -> None:
    for engine in ("files", "sqlite", "parquet"):
        (trial,) = measured.results.glob(f"trials/{engine}-*")
        places = list(trial.glob("store.*"))
        assert len(places) == 2
        inputs = [measured.directory / "data"] if engine == "files" else []
        assert sizes["inodes"][engine] == found(*places, *inputs), engine
    assert sizes["files"]["files"] == len(SMALL) + 2
    # A server that has ended leaves a few files less, and its reads may have made some.
    (data,) = measured.results.glob("trials/postgres-*/data.data0")
    assert sizes["inodes"]["postgres"] == pytest.approx(found(data), abs=20)


def test_what_the_load_did_is_counted(sizes: pd.DataFrame) -> None:
    operations = sizes["metadata_operations"]
    assert operations["parquet"] > sizes["inodes"]["parquet"], "parts are written and merged"
    assert 0 < operations["sqlite"] < operations["parquet"]
    assert operations["postgres"] > 0


def test_the_verdict_tells_them(measured: Workspace, sizes: pd.DataFrame) -> None:
    verdict = json.loads((measured.results / "analysis" / "verdict.json").read_text())
    (criterion,) = [one for one in verdict["criteria"] if one["name"] == "inodes"]
    stand = {one["choice"]: one["mean"] for one in criterion["standings"]}
    assert stand["SQLite"] == pytest.approx(sizes["inodes"]["sqlite"])
    assert verdict["weights"]["shares"]["inodes"] == 0.5
    (sentence,) = [text for text in verdict["text"] if text.startswith("Files and directories")]
    assert "the full corpus has 1,119,820 files" in sentence


@pytest.fixture(scope="module")
def page(measured: Workspace) -> Iterator[object]:
    with chromium() as browser, opened(browser, measured.results / "report.html") as shown:
        yield shown


def test_the_page_shows_them(page: object, sizes: pd.DataFrame) -> None:
    heads = page.locator("#storage thead th").all_inner_texts()  # type: ignore[attr-defined]
    heads = [re.sub(r"[^a-z, ]", "", head).strip() for head in heads]
    place = heads.index("files and directories")
    rows = page.locator("#storage tbody tr").all()  # type: ignore[attr-defined]
    cells = [[cell.inner_text() for cell in row.locator("th, td").all()] for row in rows]
    shown = {row[0]: row[place] for row in cells}
    assert shown["SQLite"] == f"{sizes['inodes']['sqlite']:.0f}"
    assert shown["PostgreSQL"] == f"{sizes['inodes']['postgres']:,.0f}"
    assert page.locator("#weight-inodes").input_value() == "10"  # type: ignore[attr-defined]
