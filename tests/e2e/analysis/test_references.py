"""Published studies: their files, and the comparison with measured values by hand."""

from __future__ import annotations

import json
from pathlib import Path

import pandas as pd
import pytest
from support.results import synthetic
from support.results.references import CSV, YAML

from storewise.analysis.load import REFERENCES, load_results
from storewise.analysis.tables import build_tables
from storewise.figures.captions import make_figures
from storewise.report.page import make_report


@pytest.fixture(scope="module")
def study(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A study of several numbers of workers that names a published one."""
    directory = tmp_path_factory.mktemp("s")
    synthetic.make_study(directory, engines=["sqlite", "duckdb"], workers=[1, 2], repeats=2)
    data = json.loads((directory / "study.json").read_text())
    (directory / "study.json").write_text(json.dumps({**data, "references": ["nobody2001"]}))
    yaml = YAML.replace(
        "{column: n, level: nodes}, same: {key: key}", "{column: n, level: workers}"
    )
    yaml = (
        yaml.replace(
            "theirs: [{engine: postgres}, {engine: mariadb, nodes: {from: 2}}]", ""
        ).replace("title: On stores", "title: On <b>stores</b>")
        + "pairs: []\n"
    )
    csv = CSV.replace("theirs", "duckdb")
    (directory / REFERENCES).write_text(json.dumps({"nobody2001": {"yaml": yaml, "csv": csv}}))
    return directory


def test_a_study_and_its_report_show_the_published_figures(study: Path) -> None:
    tables = build_tables(load_results(study))
    assert set(tables.reference_shapes["engine"]) == {"sqlite", "duckdb"}
    assert tables.reference_shapes["x_name"].unique().tolist() == ["workers"]
    assert set(tables.reference_ratios["at"]) == {"1", "2", "best of each"}
    make_report(study)
    page = (study / "report.html").read_text(encoding="utf-8")
    assert 'id="published"' in page and "shapes and ratios are compared, not absolute" in page
    assert "published value (other hardware)" in page and "Hardware: two hosts" in page
    assert "On &lt;b&gt;stores" in page
    assert (study / "figures" / "published.svg").read_text().count("published: sqlite") == 1
    assert pd.read_csv(study / "analysis" / "reference_values.csv")["value"].max() == 200


def test_a_study_without_references_has_no_word_of_them(tmp_path: Path) -> None:
    synthetic.make_study(tmp_path / "s", engines=["sqlite"], workers=[1], repeats=1)
    make_report(tmp_path / "s")
    assert "ublished studies" not in (tmp_path / "s" / "report.html").read_text(encoding="utf-8")


def test_references_that_are_lost_are_a_warning(study: Path, tmp_path: Path) -> None:
    synthetic.make_study(tmp_path / "s", engines=["sqlite"], workers=[1], repeats=1)
    data = json.loads((tmp_path / "s" / "study.json").read_text())
    (tmp_path / "s" / "study.json").write_text(json.dumps({**data, "references": ["niec2014"]}))
    results = load_results(tmp_path / "s")
    (warning,) = [w for w in results.warnings if w.code == "no_reference"]
    assert "references.json" in warning.message and results.references == []
    made = make_figures(build_tables(results))
    assert next(m.why for m in made if m.spec.name == "published").startswith("no published curve")
