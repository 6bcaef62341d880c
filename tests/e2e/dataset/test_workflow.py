"""``snakemake convert``: a study's inputs as a data set, in several jobs."""

import json
import shutil
from pathlib import Path

import pytest
from support.inputs.datasets import expected, inputs_of, stored
from support.paths import DATA, SMALL
from support.workspace import Workspace

STUDY = """\
inputs: {paths: data, jobs: 2}
engines: [sqlite]
study_fields: true
indexes: [align.e]
on_bad_input: quarantine
phases: [write, read: {operations: 10}]
"""


@pytest.fixture
def place(tmp_path):
    place = Workspace(tmp_path)
    data = place.copy_inputs()
    shutil.copy(SMALL[0], data / "twin.m10")
    (data / "bad.m10").write_bytes((DATA / "ssearch36.m10").read_bytes()[:40_000])
    place.write_study(STUDY)
    return place


def done(result):
    assert result.returncode == 0, result.stdout + result.stderr
    return result.stdout + result.stderr


@pytest.mark.slow
@pytest.mark.long("three runs of Snakemake, each with jobs of its own for every step", limit=600)
def test_a_study_becomes_a_data_set(place):
    done(place.snakemake("convert"))
    root = place.results / "dataset"
    good = sorted(path for path in (place.directory / "data").iterdir() if path.stem != "bad")
    assert stored(root) == expected(good, study_fields=True)
    rows = {Path(row["path"]).name: row for row in inputs_of(root)}
    assert len(rows) == len(good) + 1
    assert "bad.m10, line" in rows["bad.m10"]["bad"]
    assert [row["equal_to"] for row in rows.values()].count(None) == len(good)
    summary = json.loads((root / "summary.json").read_text())
    assert summary["documents"] == sum(map(len, stored(root).values()))
    assert not (root / ".work").exists() and not (place.results / "trials").exists()
    # What comes later is added, and nothing else is read again.
    shutil.copy(DATA / "ssearch36.m10", place.directory / "data")
    done(place.snakemake("-R", "manifest", "--", "convert"))
    added = [place.directory / "data" / "ssearch36.m10"]
    assert stored(root) == expected([*good, *added], study_fields=True)
    parts = [json.loads(path.read_text()) for path in place.results.glob("inputs/converted/[0-9]*")]
    assert sum(part["inputs"] for part in parts) == 1
    assert "Nothing to be done" in done(place.snakemake("-n", "convert"))
    # What is no input any more is named.
    added[0].unlink()
    refused = place.snakemake("-R", "manifest", "--", "convert")
    assert refused.returncode != 0
    assert "has 1 inputs that are not asked for any more" in refused.stdout + refused.stderr
