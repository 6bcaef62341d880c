"""The page, in a real browser and as text."""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import synthetic

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
    engines = [*synthetic.EMBEDDED, "postgres"]
    synthetic.make_study(directory, engines=engines, nodes=[1, 2])
    synthetic.make_failed(directory, FACTORS, 1, f"disk full {EVIL}")
    synthetic.make_inputs(directory, [(f"in/{EVIL}.m10", "12", "345", f"truncated {EVIL}")])
    report = make_report(directory)
    assert report.path == directory / "report.html"
    assert report.finding.startswith("For these inputs, on this machine: ")
    assert report.failed == 1
    return directory


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    chromium = shutil.which("chromium") or shutil.which("chromium-browser")
    missing = [] if chromium else ["chromium"]
    missing += [] if importlib.util.find_spec("playwright") else ["playwright"]
    if missing:
        text = f"{' and '.join(missing)} not installed; the report's tests need it"
        if os.environ.get("STOREWISE_REQUIRE_ALL") == "1":
            pytest.fail(text)
        pytest.skip(text)
    sync_api = importlib.import_module("playwright.sync_api")
    with sync_api.sync_playwright() as playwright:
        found = playwright.chromium.launch(
            executable_path=chromium, args=["--no-sandbox", "--disable-gpu"]
        )
        yield found
        found.close()


@pytest.fixture
def page(browser: Any, study: Path) -> Iterator[Any]:
    found = browser.new_page(viewport={"width": 1200, "height": 900})
    problems: list[str] = []
    requests: list[str] = []
    found.on("console", lambda m: problems.append(m.text) if m.type != "info" else None)
    found.on("pageerror", lambda e: problems.append(str(e)))
    found.on("request", lambda r: requests.append(r.url))
    url = (study / "report.html").as_uri()
    found.goto(url)
    yield found
    assert problems == []
    assert [r for r in requests if r != url and not r.startswith("data:")] == []
    found.close()


@pytest.mark.browser
def test_page_shows_verdict_first_and_all_figures(page: Any) -> None:
    assert page.locator("main section").first.get_attribute("id") == "verdict"
    finding = page.locator(".finding").inner_text()
    assert finding.startswith("For these inputs, on this machine: ")
    widths = page.eval_on_selector_all("figure img", "all => all.map(i => i.naturalWidth)")
    assert len(widths) == 8
    assert min(widths) > 300
    assert all(page.eval_on_selector_all("figure img", "all => all.map(i => i.alt.length > 30)"))


@pytest.mark.browser
def test_nothing_of_the_inputs_becomes_markup(page: Any) -> None:
    assert page.evaluate("window.hit") is None
    assert page.locator("main script, main img[src='x']").count() == 0
    assert EVIL in page.locator("#failed").inner_text()
    assert EVIL in page.locator("#quarantined").inner_text()


def column(page: Any, table: str, number: int) -> list[str]:
    found: list[str] = page.eval_on_selector_all(
        f"#{table} tbody tr",
        f"rows => rows.map(r => r.cells[{number}].dataset.order)",
    )
    return found


@pytest.mark.browser
def test_table_sorts_by_click(page: Any) -> None:
    head = page.locator("#rates th", has_text="mean")
    place = head.evaluate("h => h.cellIndex")
    before = [float(v) for v in column(page, "rates", place)]
    head.locator("button").click()
    assert head.get_attribute("aria-sort") == "ascending"
    assert [float(v) for v in column(page, "rates", place)] == sorted(before)
    head.locator("button").click()
    assert head.get_attribute("aria-sort") == "descending"
    assert [float(v) for v in column(page, "rates", place)] == sorted(before, reverse=True)


@pytest.mark.browser
def test_table_sorts_by_keyboard_and_tells_it(page: Any) -> None:
    head = page.locator("#rates th", has_text="engine")
    head.locator("button").focus()
    page.keyboard.press("Enter")
    assert head.get_attribute("aria-sort") == "ascending"
    names = column(page, "rates", head.evaluate("h => h.cellIndex"))
    assert names == sorted(names, key=str.lower)
    assert page.locator("#rates th[aria-sort]").count() == 1
    assert "sorted by engine, ascending" in page.locator("#sorted").inner_text()


@pytest.mark.browser
@pytest.mark.parametrize(("width", "scheme"), [(390, "light"), (390, "dark"), (1200, "dark")])
def test_page_fits_phones_and_dark_screens(
    browser: Any, study: Path, width: int, scheme: str
) -> None:
    found = browser.new_page(viewport={"width": width, "height": 844}, color_scheme=scheme)
    found.goto((study / "report.html").as_uri())
    assert found.evaluate("document.documentElement.scrollWidth") <= width
    background = found.evaluate("getComputedStyle(document.body).backgroundColor")
    brightness = sum(map(int, re.findall(r"\d+", background)[:3]))
    assert (brightness < 200) == (scheme == "dark")
    found.close()


@pytest.mark.browser
def test_page_is_accessible_in_the_large(page: Any) -> None:
    assert page.evaluate("document.documentElement.lang") == "en"
    assert page.locator("h1").count() == 1
    levels = page.eval_on_selector_all(
        "h1, h2, h3, h4", "all => all.map(h => Number(h.tagName[1]))"
    )
    assert all(b - a <= 1 for a, b in pairwise(levels))
    assert page.locator("table:not(:has(caption))").count() == 0
    assert page.locator("img:not([alt])").count() == 0
    ids = page.eval_on_selector_all("[id]", "all => all.map(e => e.id)")
    assert len(ids) == len(set(ids))
    targets = page.eval_on_selector_all("nav a", "all => all.map(a => a.hash.slice(1))")
    assert set(targets) <= set(ids)


@pytest.mark.browser
def test_printing_unfolds_what_is_folded(page: Any) -> None:
    page.evaluate("dispatchEvent(new Event('beforeprint'))")
    assert page.locator("details:not([open])").count() == 0


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
    assert len(list((study / "figures").glob("*.png"))) == 8
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
    assert "Nothing was measured about" in text


def test_report_of_failures_only(tmp_path: Path) -> None:
    synthetic.make_failed(tmp_path / "s", FACTORS, 1, "no room left")
    text = make_report(tmp_path / "s").path.read_text()
    assert "no store can be judged" in text
    assert "no room left" in text


def test_no_results_and_unwritable_places_are_clear_errors(tmp_path: Path) -> None:
    with pytest.raises(ResultError, match="run the study first"):
        make_report(tmp_path / "missing")
    synthetic.make_study(tmp_path / "s", engines=["sqlite"], workers=[1], repeats=1)
    (tmp_path / "s" / "analysis").write_text("a file where the directory should be")
    with pytest.raises(ResultError, match="cannot be written"):
        make_report(tmp_path / "s")
