"""The page as text, and the files beside it; `test_page.py` has it in a browser."""

from __future__ import annotations

import re
from pathlib import Path

import pandas as pd
import pytest
from support.results import synthetic
from support.results.made import GROUP
from support.results.pages import FACTORS, TAKEN

from storewise.errors import ResultError
from storewise.figures import captions
from storewise.report.page.page import Report, make_report, render

pytestmark = GROUP


@pytest.fixture
def page(report: Report) -> str:
    return report.path.read_text(encoding="utf-8")


@pytest.fixture
def no_figures(monkeypatch: pytest.MonkeyPatch) -> None:
    """Figures are most of a page's time, and tests/e2e/figures has those of parts of a study."""
    monkeypatch.setattr(captions, "FIGURES", ())


def test_a_report_says_what_it_found(report: Report) -> None:
    assert report.path.name == "report.html"
    assert report.finding.startswith("For these inputs, on this machine: ")
    assert report.failed == 1


def test_conditions_layout_warnings_and_files_are_told(page: str) -> None:
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
        assert expected in page
    assert not re.search(r"""(src|href)=["'](https?:)?//""", page)


def test_sessions_and_loads_of_servers_are_told(page: str) -> None:
    for expected in (
        'id="sessions"',
        "PostgreSQL 15.18",
        "port of data: password",
        "loopback",
        "Load of servers and their hosts",
        "What servers and clients used",
        "How work spread over the nodes",
        "PostgreSQL on 2 nodes",
    ):
        assert expected in page
    cells = re.findall(r"<(?:td|dd|li|p)[^>]*>([^<]*)<", page)
    assert len(cells) > 200
    assert [
        cell for cell in cells if re.search(r"\bnan\b|None|\b[12]\.0 (node|worker)", cell)
    ] == []


def test_published_figures_are_shown_beside(study: Path, page: str) -> None:
    assert 'id="published"' in page and "shapes and ratios are compared, not absolute" in page
    assert "published value (other hardware)" in page and "Hardware: two hosts" in page
    assert "On &lt;b&gt;stores" in page
    assert (study / "figures" / "published.svg").read_text().count("published: sqlite") == 1
    assert pd.read_csv(study / "analysis" / "reference_values.csv")["value"].max() == 200
    shapes = pd.read_csv(study / "analysis" / "reference_shapes.csv")
    assert set(shapes["engine"]) == {"sqlite", "duckdb"}
    assert shapes["x_name"].unique().tolist() == ["workers"]
    ratios = pd.read_csv(study / "analysis" / "reference_ratios.csv")
    assert set(ratios["at"]) == {"1", "2", "best of each"}


def test_attempts_that_failed_of_trials_that_were_measured_in_the_end(
    study: Path, page: str
) -> None:
    section = page[page.index('<section id="attempts"') :]
    section = section[: section.index("</section>")]
    (trial,) = (path.stem for path in (study / "failures").iterdir())
    for words in (trial, TAKEN, "2026-03-01 08:22:00 UTC", "tail 0", "measured in the end"):
        assert words in section
    assert "failed_attempt" in (study / "analysis" / "warnings.csv").read_text()


def test_files_of_a_report(study: Path) -> None:
    assert (study / "summary.csv").read_text().startswith("engine,nodes,")
    assert (study / "analysis" / "verdict.json").is_file()
    assert (study / "figures" / "verdict.png").is_file()
    made = {path.stem for path in (study / "figures").glob("*.png")}
    assert {"throughput", "scaling", "storage", "costs", "capacity", "host_cpu"} <= made
    for form in ("svg", "txt"):
        assert {path.stem for path in (study / "figures").glob(f"*.{form}")} == made
    caption = (study / "figures" / "storage.txt").read_text(encoding="utf-8")
    assert caption.startswith("Storage. Bytes on disk per document")
    assert not list(study.glob(".*.tmp"))


@pytest.mark.slow
def test_render_makes_only_the_page_and_its_summary(tmp_path: Path) -> None:
    synthetic.make_study(tmp_path / "s", engines=["sqlite"], workers=[1], repeats=1)
    report = render(tmp_path / "s", tmp_path / "s" / "page.html")
    assert report.path.is_file()
    assert "only SQLite can be judged" in report.finding
    text = report.path.read_text()
    assert "could not be made" not in text and 'id="figure-scaling"' not in text
    # It has no servers and names no published study.
    for word in ('id="sessions"', "What servers and clients used", "ublished studies"):
        assert word not in text
    assert not (tmp_path / "s" / "figures").exists()
    assert (tmp_path / "s" / "summary.csv").is_file()


@pytest.mark.usefixtures("no_figures")
@pytest.mark.parametrize("phases", [["write"], pytest.param(["read"], marks=pytest.mark.slow)])
def test_report_of_a_part(tmp_path: Path, phases: list[str]) -> None:
    synthetic.make_study(
        tmp_path / "s", engines=["sqlite"], workers=[1], repeats=1, phases=phases, verify=False
    )
    text = make_report(tmp_path / "s").path.read_text()
    other = {"write": "reading", "read": "loading"}[phases[0]]
    assert re.search(rf"{other}, scanning, .* were not measured\.", text)


@pytest.mark.usefixtures("no_figures")
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


@pytest.mark.slow
@pytest.mark.usefixtures("no_figures")
def test_kept_directories_are_listed_with_their_size(tmp_path: Path) -> None:
    (name,) = synthetic.make_study(
        tmp_path / "s",
        engines=["postgres"],
        workers=[1],
        nodes=[1],
        repeats=1,
        store_hosts=["store-1"],
    )
    text = make_report(tmp_path / "s").path.read_text(encoding="utf-8")
    assert f"/scratch/{name}-data0" in text
    assert "381 MiB" in text
    assert "the network" in text
