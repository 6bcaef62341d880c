"""Engines that the host does not have, in a study that leaves those out."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.workspace import Workspace

STUDY = """\
inputs: {paths: data}
engines: [sqlite, postgres]
if_missing: leave_out
phases:
  - write: {batch_size: 500}
  - read: {operations: 100}
"""


def test_what_is_left_out_is_named_and_measured_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = Workspace(tmp_path)
    place.copy_inputs()
    place.write_study(STUDY)
    missing = str(tmp_path / "nowhere")
    monkeypatch.setenv("STOREWISE_POSTGRES_BIN", missing)
    done = place.snakemake()
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"postgres is left out: PostgreSQL: no postgres (looked in {missing})" in done.stderr
    measured = sorted(p.name for p in (place.results / "trials").iterdir())
    assert len(measured) == 1 and measured[0].startswith("sqlite-")
    page = (place.results / "report.html").read_text()
    assert "PostgreSQL was not measured" in page and missing in page
    assert "have no results yet" not in page

    # Where the engine is, the same study measures what is missing, and nothing again.
    before = (place.results / "trials" / measured[0] / "verify.parquet").stat().st_mtime_ns
    monkeypatch.delenv("STOREWISE_POSTGRES_BIN")
    done = place.snakemake()
    assert done.returncode == 0, done.stdout + done.stderr
    assert len(list((place.results / "trials").iterdir())) == 2
    assert (place.results / "trials" / measured[0] / "verify.parquet").stat().st_mtime_ns == before
    assert "was not measured" not in (place.results / "report.html").read_text()

    # What was measured stays in the report of a host without the engine.
    monkeypatch.setenv("STOREWISE_POSTGRES_BIN", missing)
    done = place.snakemake("analysis")
    assert done.returncode == 0, done.stdout + done.stderr
    page = (place.results / "report.html").read_text()
    assert "PostgreSQL" in page and "was not measured" not in page
    assert place.left_behind() == []


def test_a_study_without_any_engine_on_the_host(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = Workspace(tmp_path)
    place.copy_inputs()
    place.write_study(STUDY.replace("sqlite, ", ""))
    monkeypatch.setenv("STOREWISE_POSTGRES_BIN", str(tmp_path / "nowhere"))
    done = place.snakemake("-n")
    assert done.returncode != 0
    assert "no engine of it can run on this host" in done.stdout + done.stderr
