"""A published study that is named and lost; a page with one is in tests/e2e/report."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from support.results import synthetic

from storewise.analysis.pipeline.build import build_tables
from storewise.analysis.pipeline.load import load_results
from storewise.figures import captions


def test_references_that_are_lost_are_a_warning(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    synthetic.make_study(tmp_path / "s", engines=["sqlite"], workers=[1], repeats=1)
    data = json.loads((tmp_path / "s" / "study.json").read_text())
    (tmp_path / "s" / "study.json").write_text(json.dumps({**data, "references": ["niec2014"]}))
    results = load_results(tmp_path / "s")
    (warning,) = [w for w in results.warnings if w.code == "no_reference"]
    assert "references.json" in warning.message and results.references == []
    published = tuple(spec for spec in captions.FIGURES if spec.name == "published")
    monkeypatch.setattr(captions, "FIGURES", published)
    (made,) = captions.make_figures(build_tables(results))
    assert made.svg is None and not made.error
