"""The page as text, and the files beside it; `test_page.py` has it in a browser."""

import re

import pandas as pd
import pytest
from support.results import synthetic
from support.results.made import GROUP
from support.results.pages import FACTORS, TAKEN

from storewise.errors import ResultError
from storewise.figures import make
from storewise.report.page.page import make_report

pytestmark = GROUP


@pytest.fixture
def page(report):
    return report.path.read_text(encoding="utf-8")


@pytest.fixture
def no_figures(monkeypatch):
    """Figures are most of a page's time, and tests/e2e/figures has those of parts of a study."""
    monkeypatch.setattr(make, "FIGURES", {})


def test_conditions_warnings_files_and_servers_are_told(page):
    for expected in (
        "Example CPU &lt;8&gt; &amp; more",
        "ext4",
        "24 GiB",
        "Speed of the hosts before each trial",
        "summary.csv",
        "End of its log",
        "&lt;b&gt;line 2&lt;/b&gt;",
        # Of servers.
        "PostgreSQL 15.18",
        "guard password",
        "127.0.0.1",
        "Load of clients, servers and their hosts",
    ):
        assert expected in page
    assert not re.search(r"""(src|href)=["'](https?:)?//""", page)
    cells = re.findall(r"<(?:td|dd|li|p)[^>]*>([^<]*)<", page)
    assert len(cells) > 200
    assert "<code>" in page and "&lt;code&gt;" not in page
    assert not [c for c in cells if re.search(r"\bnan\b|None|\b[12]\.0 (node|worker)", c)]


def test_published_figures_are_shown_beside(study, page):
    assert 'id="published"' in page and "shapes and ratios are compared, not absolute" in page
    assert "Hardware: two hosts" in page
    assert "On &lt;b&gt;stores" in page
    table = pd.read_csv(study / "analysis" / "reference_agreement.csv", dtype={"at": str})
    assert set(table.loc[table["quantity"] == "ratio", "at"]) == {"1", "2", "best of each"}


def test_attempts_that_failed_of_trials_that_were_measured_in_the_end(study, page):
    section = page[page.index('<section id="attempts"') :]
    section = section[: section.index("</section>")]
    (trial,) = (path.stem for path in (study / "failures").iterdir())
    for words in (trial, TAKEN, "2026-03-01 08:22:00 UTC", "tail 0", "measured in the end"):
        assert words in section


def test_files_of_a_report(study):
    assert (study / "summary.csv").read_text().startswith("engine,nodes,")
    assert (study / "figures" / "verdict.png").is_file()
    made = {path.stem for path in (study / "figures").glob("*.png")}
    assert {"throughput", "scaling", "storage", "costs", "host_cpu"} <= made
    for form in ("svg", "txt"):
        assert {path.stem for path in (study / "figures").glob(f"*.{form}")} == made
    assert not list(study.glob(".*.tmp"))


@pytest.mark.usefixtures("no_figures")
def test_what_a_study_has_not_is_not_on_its_page(tmp_path):
    synthetic.make_study(tmp_path / "s", engines=["sqlite"], workers=[1], repeats=1)
    report = make_report(tmp_path / "s")
    assert "Only SQLite can be judged" in report.finding
    text = report.path.read_text()
    # It has no servers and names no published study.
    for word in ("could not be made", 'id="sessions"', "ublished studies"):
        assert word not in text


@pytest.mark.usefixtures("no_figures")
def test_report_of_failures_only(tmp_path):
    synthetic.make_failed(tmp_path / "s", FACTORS, 1, "no room left")
    text = make_report(tmp_path / "s").path.read_text()
    assert "No store can be judged" in text
    assert "no room left" in text
    assert 'href="#attempts"' not in text, "no trial was measured in the end"


def test_no_results_and_unwritable_places_are_clear_errors(tmp_path):
    with pytest.raises(ResultError, match="run the study first"):
        make_report(tmp_path / "missing")
    synthetic.make_study(tmp_path / "s", engines=["sqlite"], workers=[1], repeats=1)
    (tmp_path / "s" / "analysis").write_text("a file where the directory should be")
    with pytest.raises(ResultError, match="cannot be written"):
        make_report(tmp_path / "s")
