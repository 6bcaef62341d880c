"""The page as text, and the files beside it; `test_page.py` has it in a browser."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from support.results import synthetic

from storewise.errors import ResultError
from storewise.report.page import make_report, render

FACTORS = {
    "engine": "duckdb",
    "workers": 4,
    "processes": 1,
    "threads": 1,
    "consistency": "durable",
    "index": "none",
}
EVIL = "<script>window.hit = 1</script><img src=x onerror='window.hit = 2'>"


@pytest.fixture(scope="module")
def study(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("results") / "demo"
    synthetic.make_study(directory, engines=["null", "sqlite", "postgres"], nodes=[1, 2])
    synthetic.make_failed(directory, FACTORS, 1, f"disk full {EVIL}")
    synthetic.make_inputs(directory, [(f"in/{EVIL}.m10", "12", "345", f"truncated {EVIL}")])
    report = make_report(directory)
    assert report.path == directory / "report.html"
    assert report.finding.startswith("For these inputs, on this machine: ")
    assert report.failed == 1
    return directory


def test_conditions_layout_warnings_and_files_are_told(study: Path) -> None:
    text = (study / "report.html").read_text(encoding="utf-8")
    for expected in (
        "Example CPU &lt;8&gt; &amp; more",
        "ext4",
        "24 GiB",
        "Canary before each trial",
        "Each writing process had a store of its own",
        "summary.csv",
        "few_repeats",
        "set `repeats: 5`",
        "End of its log",
        "&lt;b&gt;line 2&lt;/b&gt;",
    ):
        assert expected in text
    assert not re.search(r"""(src|href)=["'](https?:)?//""", text)


def test_files_of_a_report(study: Path) -> None:
    assert (study / "summary.csv").read_text().startswith("engine,nodes,")
    assert (study / "analysis" / "verdict.json").is_file()
    made = {path.stem for path in (study / "figures").glob("*.png")}
    assert {"throughput", "scaling", "storage", "costs", "capacity", "host_cpu"} <= made
    for form in ("svg", "txt"):
        assert {path.stem for path in (study / "figures").glob(f"*.{form}")} == made
    caption = (study / "figures" / "storage.txt").read_text(encoding="utf-8")
    assert caption.startswith("Storage. Bytes on disk per document")
    assert not list(study.glob(".*.tmp"))


def test_render_makes_only_the_page_and_its_summary(tmp_path: Path) -> None:
    synthetic.make_study(tmp_path / "s", engines=["sqlite"], workers=[1], repeats=1)
    report = render(tmp_path / "s", tmp_path / "s" / "page.html")
    assert report.path.is_file()
    assert "only SQLite can be judged" in report.finding
    text = report.path.read_text()
    assert "This figure could not be made: no numeric factor has more than one level." in text
    assert not (tmp_path / "s" / "figures").exists()
    assert (tmp_path / "s" / "summary.csv").is_file()


@pytest.mark.parametrize("phases", [["write"], ["read"]])
def test_report_of_a_part(tmp_path: Path, phases: list[str]) -> None:
    synthetic.make_study(
        tmp_path / "s", engines=["sqlite"], workers=[1], repeats=1, phases=phases, verify=False
    )
    text = make_report(tmp_path / "s").path.read_text()
    other = {"write": "reading", "read": "loading"}[phases[0]]
    assert re.search(rf"{other}, scanning, .* were not measured\.", text)


def test_report_of_failures_only(tmp_path: Path) -> None:
    synthetic.make_failed(tmp_path / "s", FACTORS, 1, "no room left")
    text = make_report(tmp_path / "s").path.read_text()
    assert "no store can be judged" in text
    assert "no room left" in text
    assert 'href="#attempts"' not in text, "no trial was measured in the end"


def test_no_results_and_unwritable_places_are_clear_errors(tmp_path: Path) -> None:
    with pytest.raises(ResultError, match="run the study first"):
        make_report(tmp_path / "missing")
    synthetic.make_study(tmp_path / "s", engines=["sqlite"], workers=[1], repeats=1)
    (tmp_path / "s" / "analysis").write_text("a file where the directory should be")
    with pytest.raises(ResultError, match="cannot be written"):
        make_report(tmp_path / "s")
