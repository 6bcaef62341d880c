"""The page in a real browser: every control, keyboard, phone, paper, and what must not happen."""

from __future__ import annotations

import csv
import io
import re
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from support.browsing import opened
from support.results.made import GROUP
from support.results.pages import EVIL
from support.waiting import wait_until

pytestmark = [pytest.mark.needs("chromium"), GROUP]


def see(page: Any, figure: str) -> Any:
    """A figure, drawn."""
    result = page.locator(f"#figure-{figure}")
    result.scroll_into_view_if_needed()
    result.locator(".panel:not([hidden]) .main-svg").first.wait_for()
    return result


def until(page: Any, condition: str) -> None:
    """Waits for a condition in JavaScript; the page itself may evaluate no text, so it is asked
    from outside."""
    wait_until(lambda: page.evaluate(condition), 12, condition)


def names(page: Any, figure: str) -> set[str]:
    """The lines of a figure that are drawn now."""
    result: list[str] = page.eval_on_selector_all(
        f"#figure-{figure} .panel:not([hidden]) .plot",
        "all => all.flatMap(plot => (plot.data ?? []).map(trace => trace.name))",
    )
    return set(result)


def column(page: Any, table: str, head: str) -> list[str]:
    """The texts of a column."""
    result: list[str] = page.evaluate(
        """([table, head]) => {
            const rows = document.getElementById(table).rows;
            const place = Array.from(rows[0].cells).findIndex(
                (cell) => cell.innerText.trim().startsWith(head));
            return Array.from(rows).slice(1).map(row => row.cells[place].innerText.trim());
        }""",
        [table, head],
    )
    return result


def open_table(page: Any, table: str) -> Any:
    result = page.locator(f"[data-table='{table}']")
    result.evaluate("box => { if (box.tagName === 'DETAILS') box.open = true; }")
    return result


@pytest.mark.slow
def test_verdict_first_then_figures_that_are_drawn_when_they_come_near(page: Any) -> None:
    assert page.locator("main section").first.get_attribute("id") == "verdict"
    assert page.locator(".finding").inner_text().startswith("For these inputs, on this machine: ")
    assert page.locator("#figure-capacity .main-svg").count() == 0
    figures = page.eval_on_selector_all("figure:has(script.graph)", "all => all.map(f => f.id)")
    assert {"figure-throughput", "figure-over_time", "figure-latency", "figure-scaling"} <= set(
        figures
    )
    for figure in figures:
        see(page, figure.removeprefix("figure-"))
    still = page.eval_on_selector_all("figure .still img", "all => all.map(i => i.naturalWidth)")
    assert still and min(still) > 300


def test_choices_reach_all_figures_and_tables(page: Any) -> None:
    see(page, "throughput")
    before = names(page, "throughput")
    assert any(name.startswith("SQLite") for name in before)
    page.get_by_label("SQLite", exact=True).uncheck()
    assert "3 of 4 engines" in page.locator("#chosen").inner_text()
    until(
        page,
        "!document.querySelector('#figure-throughput .plot').data"
        ".some(trace => trace.name.includes('SQLite'))",
    )
    assert names(page, "throughput") == {n for n in before if not n.startswith("SQLite")}
    see(page, "storage")
    assert not any(name.startswith("SQLite") for name in names(page, "storage"))
    open_table(page, "rates")
    assert "SQLite" not in column(page, "rates", "engine")
    page.get_by_label("SQLite", exact=True).check()
    assert "SQLite" in column(page, "rates", "engine")

    phases = page.locator("[data-choice='phase']")
    phases.get_by_label("write").uncheck()
    assert set(column(page, "rates", "phase")) == {"read"}
    see(page, "throughput")
    until(page, "document.querySelectorAll('#figure-throughput .panel[hidden]').length")
    assert page.locator("#figure-throughput .panel:not([hidden])").count() == 1
    phases.get_by_label("write").check()

    page.locator("[data-choice='nodes']").get_by_label("1", exact=True).uncheck()
    see(page, "nodes")
    until(
        page,
        "document.querySelector('#figure-nodes .plot').data.every(t => t.name !== 'PostgreSQL' || "
        "t.x.every(x => Math.abs(x - 2) < 0.1))",
    )
    engines = page.locator("[data-choice='engine']")
    engines.get_by_role("button", name=re.compile("none")).click()
    until(page, "!document.querySelector('#figure-nodes .live .note').hidden")
    assert "No row fits" in page.locator("#rates tbody").inner_text()
    engines.get_by_role("button", name=re.compile("all")).click()
    assert page.locator("#rates tbody tr").count() > 5


@pytest.mark.slow
def test_published_curves_are_laid_over_and_taken_away(page: Any) -> None:
    for figure in ("published", "scaling"):
        see(page, figure)
        assert any(name.startswith("published: ") for name in names(page, figure))
    page.get_by_label("laid over those of this study").uncheck()
    for figure in ("published", "scaling"):
        see(page, figure)
        until(
            page,
            f"!Array.from(document.querySelectorAll('#figure-{figure} .plot')).some("
            "plot => plot.data?.some(trace => trace.name.startsWith('published: ')))",
        )
    assert any(name.startswith("here: ") for name in names(page, "published"))


@pytest.mark.slow
def test_every_setting_can_be_shown(page: Any) -> None:
    see(page, "latency")
    before = names(page, "latency")
    page.locator("#figure-latency").get_by_label("every setting").check()
    until(page, f"document.querySelector('#figure-latency .plot').data.length > {len(before) // 2}")
    after = names(page, "latency")
    assert before < after
    assert any("2 workers" in name for name in after - before)


@pytest.mark.slow
def test_hovering_tells_value_interval_repeats_and_trials_and_a_click_the_source(kept: Any) -> None:
    page = kept
    see(page, "throughput")
    plot = page.locator("#figure-throughput .plot").first
    point = plot.locator(".scatterlayer .point").first
    point.scroll_into_view_if_needed()
    box = point.bounding_box()
    page.mouse.move(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
    message = plot.locator(".hovertext")
    message.wait_for()
    text = message.text_content()
    for word in ("documents/s", "95 % interval", "n = 2", "trials "):
        assert word in text
    page.mouse.click(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
    dialog = page.locator("dialog#source")
    dialog.wait_for()
    assert dialog.locator("h2").inner_text().startswith("Source: summary ")
    page.keyboard.press("Escape")
    assert not dialog.is_visible()


def test_a_number_leads_to_its_row_trials_files_and_values(kept: Any, study: Path) -> None:
    page = kept
    open_table(page, "rates")
    row = page.locator("#rates tbody tr").nth(1)
    mean = row.locator("td[data-label^='mean']").inner_text().split("\n")[0].replace(",", "")
    link = row.locator("a.source")
    link.focus()
    page.keyboard.press("Enter")
    dialog = page.locator("dialog#source")
    dialog.locator("li").first.wait_for()
    place = int(re.findall(r"row (\d+)", dialog.inner_text())[0])
    with (study / "analysis" / "summary.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert float(rows[place - 1]["mean"]) == pytest.approx(float(mean), rel=0.01)
    head = dialog.locator("code").inner_text()
    with (study / "summary.csv").open() as file:
        rows_of_head = [one for one in csv.DictReader(file) if one["id"] == head]
    assert [one["mean"] for one in rows_of_head] == [rows[place - 1]["mean"]]
    files = dialog.locator("li a").evaluate_all("all => all.map(a => a.getAttribute('href'))")
    assert len(files) > 4
    # Folders of trials and files in them, beside the page.
    assert all((study / one).exists() for one in files)
    values = [
        float(v)
        for v in re.findall(
            r"repeat \d\): ([\d.,]+)".replace(",", ""), dialog.inner_text().replace(",", "")
        )
    ]
    assert len(values) == 2
    assert min(values) <= float(rows[place - 1]["mean"]) <= max(values)
    dialog.get_by_role("button", name="Close").click()
    assert not dialog.is_visible()
    # A figure of the verdict has one, too.
    page.locator("#verdict-table a.source").first.click()
    dialog.locator("dl").first.wait_for()
    page.keyboard.press("Escape")


@pytest.mark.slow
def test_zoom_is_shared_over_time_and_has_keys(page: Any) -> None:
    figure = see(page, "over_time")
    ranges = "document.querySelectorAll('#figure-over_time .plot')"
    read = f"Array.from({ranges}, p => p.layout.xaxis.range.map(v => Math.round(v * 100) / 100))"
    whole = page.evaluate(read)
    figure.get_by_role("button", name="Zoom in").focus()
    page.keyboard.press("Enter")
    until(page, f"{read}[0][1] < {whole[0][1]}")
    near = page.evaluate(read)
    figure.get_by_role("button", name="Later").click()
    until(page, f"{read}[0][0] > {near[0][0]}")
    figure.get_by_role("button", name="Earlier").click()
    figure.get_by_role("button", name="Zoom out").click()
    figure.get_by_role("button", name="Show all again").click()
    until(page, f"JSON.stringify({read}) === {str(whole).replace(' ', '')!r}")
    # With the mouse: dragged in one panel, zoomed in all.
    area = figure.locator(".plot").first.locator(".nsewdrag").first.bounding_box()
    page.mouse.move(area["x"] + area["width"] * 0.3, area["y"] + 60)
    page.mouse.down()
    page.mouse.move(area["x"] + area["width"] * 0.6, area["y"] + 62, steps=5)
    page.mouse.up()
    until(page, f"{read}.every(range => range[0] > 0.1 && range[0] === {read}[0][0])")


@pytest.mark.slow
def test_show_data_is_the_figure_as_a_table(kept: Any) -> None:
    page = kept
    figure = see(page, "storage")
    figure.get_by_text("Show data").click()
    table = figure.locator("table")
    table.wait_for()
    assert table.locator("tbody tr").count() > 5
    assert table.locator("a.source").first.inner_text().startswith("storage_summary ")
    drawn = page.evaluate(
        "document.querySelector('#figure-storage .plot').data.flatMap(t => t.x).length"
    )
    assert table.locator("tbody tr").count() == drawn


@pytest.mark.slow
def test_timelines_of_one_or_two_trials(page: Any) -> None:
    box = page.locator("#timelines")
    box.scroll_into_view_if_needed()
    box.locator(".main-svg").first.wait_for()
    options = page.locator("#timeline-trial option")
    assert options.count() == 20
    place = options.evaluate_all("all => all.findIndex(o => o.text.startsWith('PostgreSQL'))")
    page.select_option("#timeline-trial", str(place))
    page.select_option("#timeline-other", "0")
    page.select_option("#timeline-part", "read")
    plots = "Array.from(document.querySelectorAll('#timelines .panel:not([hidden]) .plot'))"
    until(page, f"{plots}[0].data.length === 2")
    titles = box.locator(".panel:not([hidden]) h3").all_inner_texts()
    assert {"Operations", "Processors, without waiting", "Disk, written"} <= set(titles)
    hosts = page.locator("#timeline-host option").all_inner_texts()
    page.select_option("#timeline-host", hosts[-1])
    box.get_by_role("button", name="Zoom in").click()
    until(page, f"new Set({plots}.map(p => String(p.layout.xaxis.range))).size === 1")
    box.get_by_text("Show data").click()
    box.locator("#timeline-data").wait_for()
    assert box.locator("#timeline-data tbody tr").count() == 25


@pytest.mark.slow
def test_tables_sort_by_click_and_by_keyboard_and_say_so(page: Any) -> None:
    open_table(page, "storage")
    head = page.locator("#storage th", has_text="bytes per document")
    head.locator("button").click()
    assert head.get_attribute("aria-sort") == "ascending"
    values = [float(v.replace(",", "")) for v in column(page, "storage", "bytes per document")]
    assert values == sorted(values)
    head.locator("button").focus()
    page.keyboard.press("Enter")
    assert head.get_attribute("aria-sort") == "descending"
    values = [float(v.replace(",", "")) for v in column(page, "storage", "bytes per document")]
    assert values == sorted(values, reverse=True)
    assert page.locator("#storage th[aria-sort]").count() == 1
    assert "sorted by bytes per document, descending" in page.locator("#said").inner_text()


@pytest.mark.slow
def test_tables_are_searched_and_paged(page: Any) -> None:
    box = open_table(page, "load")
    total = int(re.findall(r"\((\d+) rows\)", box.locator("summary").inner_text())[0])
    assert total > 25
    assert page.locator("#load tbody tr").count() == 25
    box.get_by_role("button", name="Next").click()
    assert page.locator("#load tbody tr").count() == min(25, total - 25)
    box.get_by_role("button", name="Previous").click()
    box.get_by_role("button", name="Show all").click()
    assert page.locator("#load tbody tr").count() == total
    box.get_by_label(re.compile("Search")).fill("duckdb read")
    rows = page.locator("#load tbody tr").all_inner_texts()
    assert rows
    assert all("duckdb" in row and "read" in row for row in rows)
    assert f"(of {total})" in box.locator(".count").inner_text()


def saved(page: Any, table: str) -> list[dict[str, str]]:
    with page.expect_download() as waiting:
        page.locator(f"[data-table='{table}'] .save").click()
    assert waiting.value.suggested_filename == f"{table}.csv"
    text = Path(waiting.value.path()).read_text(encoding="utf-8")
    return list(csv.DictReader(io.StringIO(text)))


@pytest.mark.slow
def test_saved_tables_have_the_rows_that_are_shown(page: Any) -> None:
    box = open_table(page, "rates")
    box.get_by_label(re.compile("Search")).fill("postgresql")
    page.locator("[data-choice='phase']").get_by_label("write").uncheck()
    rows = saved(page, "rates")
    assert [row["engine"] for row in rows] == column(page, "rates", "engine")
    assert {row["phase"] for row in rows} == {"read"}
    assert [row["source"] for row in rows] == column(page, "rates", "source")
    # An interval stands under its mean, and in a column of its own in the file.
    shown = [cell.split("\n") for cell in column(page, "rates", "mean")]
    means = [float(lines[0].replace(",", "")) for lines in shown]
    assert [float(row["mean"]) for row in rows] == pytest.approx(means, rel=0.01)
    assert [row["95 % interval"] for row in rows] == [lines[-1] for lines in shown]
    # What a spreadsheet would run is text, and what a file is called stays what it is.
    (bad,) = saved(page, "quarantine")
    assert bad["reason"] == f"'=cmd {EVIL}"
    assert bad["file"] == f"in/{EVIL}.m10"
    assert (bad["line"], bad["byte"]) == ("12", "345")


def test_nothing_of_the_inputs_becomes_markup(kept: Any) -> None:
    page = kept
    assert page.evaluate("window.hit") is None
    assert page.locator("main img[src='x'], main section script:not([type])").count() == 0
    assert EVIL in page.locator("#failed").inner_text()
    assert EVIL in page.locator("#quarantined").inner_text()


def brightness(page: Any) -> int:
    ground = page.evaluate("getComputedStyle(document.body).backgroundColor")
    return sum(map(int, re.findall(r"\d+", ground)[:3]))


def contrasts(page: Any) -> list[float]:
    """Of text colours on the grounds they stand on."""
    result: list[float] = page.evaluate(
        """() => {
            const style = getComputedStyle(document.documentElement);
            const light = (name) => {
                const hex = style.getPropertyValue(name).trim().slice(1);
                const parts = [0, 2, 4].map((at) => parseInt(hex.slice(at, at + 2), 16) / 255)
                    .map((v) => v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4);
                return 0.2126 * parts[0] + 0.7152 * parts[1] + 0.0722 * parts[2];
            };
            return ["--text", "--soft", "--accent"].flatMap((text) => ["--page", "--card", "--mark"]
                .map((ground) => [light(text), light(ground)].sort((a, b) => b - a))
                .map(([high, low]) => (high + 0.05) / (low + 0.05)));
        }"""
    )
    return result


@pytest.mark.slow
def test_light_and_dark_by_the_system_and_by_choice(browser: Any, study: Path) -> None:
    with opened(browser, study / "report.html", color_scheme="dark") as page:
        assert brightness(page) < 200
        assert min(contrasts(page)) >= 4.5
        see(page, "throughput")
        tick = "getComputedStyle(document.querySelector('#figure-throughput .xtick text')).fill"
        assert page.evaluate(tick) == "rgb(230, 233, 238)"
        page.select_option("#scheme", "light")
        assert brightness(page) > 600
        assert min(contrasts(page)) >= 4.5
        until(page, f"{tick} === 'rgb(27, 31, 36)'")
        page.select_option("#scheme", "")
        assert brightness(page) < 200


@pytest.mark.slow
@pytest.mark.parametrize("width", [320, 800, 1400])
def test_no_width_scrolls_sideways(browser: Any, study: Path, width: int) -> None:
    with opened(browser, study / "report.html", viewport={"width": width, "height": 900}) as page:
        for figure in ("throughput", "latency", "storage"):
            see(page, figure)
        page.locator("#timelines").scroll_into_view_if_needed()
        page.locator("#timelines .main-svg").first.wait_for()
        page.evaluate("for (const one of document.querySelectorAll('details')) one.open = true")
        until(page, f"document.documentElement.scrollWidth <= {width}")
        # No plot is cut: its drawing ends within its panel, as soon as it is drawn.
        until(
            page,
            "Array.from(document.querySelectorAll('.panel:not([hidden]) .main-svg'))"
            ".every(s => s.getBoundingClientRect().right <= innerWidth)",
        )


@pytest.mark.slow
def test_the_keyboard_reaches_every_control_in_order(page: Any) -> None:
    reached = []
    for _ in range(24):
        page.keyboard.press("Tab")
        reached.append(
            page.evaluate(
                """() => {
                    const one = document.activeElement;
                    const ring = getComputedStyle(one).outlineStyle;
                    return [one.textContent.trim() || one.id || one.type, ring];
                }"""
            )
        )
    texts = [text for text, _ in reached]
    assert texts[0] == "Skip to the verdict"
    assert texts[1] == "Copy summary"
    assert texts[2].startswith("as the system")
    assert re.match(r"[\d.,]+", texts[3]), "the first figure of the chart"
    assert all(ring != "none" for _, ring in reached)
    page.locator("[data-choice='engine'] input").first.focus()
    page.keyboard.press("Space")
    assert "3 of 4 engines" in page.locator("#chosen").inner_text()
    # What stays in view does not hide what has the focus.
    page.locator("#figure-throughput .links a").first.focus()
    hidden = page.evaluate(
        """() => {
            const box = document.activeElement.getBoundingClientRect();
            return document.elementFromPoint(box.x + 3, box.y + 3) !== document.activeElement;
        }"""
    )
    assert not hidden


@pytest.mark.slow
def test_headings_names_and_roles(kept: Any) -> None:
    page = kept
    for figure in ("throughput", "over_time", "latency"):
        see(page, figure)
    assert page.evaluate("document.documentElement.lang") == "en"
    assert page.locator("h1").count() == 1
    levels = page.eval_on_selector_all(
        "h1, h2, h3, h4", "all => all.map(h => Number(h.tagName[1]))"
    )
    assert all(b - a <= 1 for a, b in pairwise(levels))
    assert page.locator("table:not(:has(caption))").count() == 0
    assert page.locator("img:not([alt])").count() == 0
    ids = page.eval_on_selector_all("[id]", "all => all.map(e => e.id)")
    # Plotly's own drawings have ids of their own.
    mine = page.eval_on_selector_all("[id]:not(svg *)", "all => all.map(e => e.id)")
    assert len(mine) == len(set(mine))
    for attribute in ("aria-labelledby", "aria-describedby", "for"):
        targets = page.eval_on_selector_all(
            f"[{attribute}]", f"all => all.map(e => e.getAttribute('{attribute}'))"
        )
        assert set(targets) <= set(ids)
    assert set(page.eval_on_selector_all("nav a", "all => all.map(a => a.hash.slice(1))")) <= set(
        ids
    )
    assert page.locator(".plot:not([role='img'][aria-label]):not(.still)").count() == 0
    unnamed = page.eval_on_selector_all(
        "input, select",
        "all => all.filter(e => !e.labels.length && !e.ariaLabel).map(e => e.outerHTML)",
    )
    assert unnamed == []
    summary = page.locator("#figure-throughput-summary").inner_text()
    assert "documents per second" in summary
    assert " to " in summary


@pytest.mark.slow
def test_on_paper_figures_are_still_and_all_rows_are_there(browser: Any, study: Path) -> None:
    with opened(browser, study / "report.html") as page:
        see(page, "throughput")
        page.evaluate("dispatchEvent(new Event('beforeprint'))")
        page.emulate_media(media="print")
        until(
            page,
            "Array.from(document.querySelectorAll('img.static')).every(i => i.naturalWidth > 0)",
        )
        assert page.locator("details:not([open]):not(.numbers)").count() == 0
        assert (
            page.locator("figure img.static:visible").count()
            == page.locator("figure img.static").count()
        )
        for hidden in (".live", ".choose", ".bar", "nav", "#timelines", "#scheme"):
            assert page.locator(f"{hidden}:visible").count() == 0
        total = int(
            re.findall(r"\((\d+) rows\)", page.locator("[data-table='load'] summary").inner_text())[
                0
            ]
        )
        assert page.locator("#load tbody tr").count() == total
        assert brightness(page) > 600
        page.emulate_media(media="screen")
        page.evaluate("dispatchEvent(new Event('afterprint'))")
        assert page.locator("#load tbody tr").count() == 25


@pytest.mark.slow
def test_without_javascript_figures_and_tables_are_there(browser: Any, study: Path) -> None:
    with opened(browser, study / "report.html", java_script_enabled=False) as page:
        assert page.locator("figure img").count() >= 8
        assert page.locator("#load tbody tr").count() == 25
        href = page.locator("#load a.source").first.get_attribute("href")
        assert (study / str(href)).is_file()
        assert page.locator("#choose").is_hidden()


@pytest.mark.slow
def test_links_to_figures_lead_to_files(kept: Any, study: Path) -> None:
    page = kept
    links = page.locator("figure .links a:not([href^='#'])").evaluate_all(
        "all => all.map(a => a.getAttribute('href'))"
    )
    assert {Path(one).suffix for one in links} == {".png", ".svg", ".txt"}
    assert all((study / one).is_file() for one in links)
    anchors = page.locator("figure .links a[href^='#']").evaluate_all(
        "all => all.map(a => a.getAttribute('href').slice(1))"
    )
    assert all(page.locator(f"#{one}").count() == 1 for one in anchors)


@pytest.mark.slow
def test_a_link_opens_what_is_folded(page: Any) -> None:
    # Drawn first: where the page moves between press and release, nothing was clicked.
    see(page, "throughput").locator(".links a[href='#rates']").click()
    page.locator("#rates").wait_for(state="visible")
