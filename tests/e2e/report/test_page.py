"""The page in a real browser: every control, keyboard, phone, paper, and what must not happen."""

import csv
import io
import re
from itertools import pairwise
from pathlib import Path

import pytest
from support.browsing import opened
from support.results.made import GROUP
from support.results.pages import EVIL
from support.waiting import wait_until

pytestmark = [pytest.mark.needs("chromium"), GROUP]


def see(page, figure):
    """A figure, drawn."""
    result = page.locator(f"#figure-{figure}")
    result.scroll_into_view_if_needed()
    result.locator(".panel:not([hidden]) .main-svg").first.wait_for()
    return result


def until(page, condition):
    """Waits for a condition in JavaScript; the page itself may evaluate no text, so it is asked
    from outside."""
    wait_until(lambda: page.evaluate(condition), 12, condition)


def names(page, figure):
    """The lines of a figure that are drawn now."""
    plots = f"#figure-{figure} .panel:not([hidden]) .plot"
    lines = "all => all.flatMap(plot => (plot.data ?? []).map(trace => trace.name))"
    return set(page.eval_on_selector_all(plots, lines))


def column(page, table, head):
    """The texts of a column."""
    return page.evaluate(
        """([table, head]) => {
            const rows = document.getElementById(table).rows;
            const place = Array.from(rows[0].cells).findIndex(
                (cell) => cell.innerText.trim().startsWith(head));
            return Array.from(rows).slice(1).map(row => row.cells[place].innerText.trim());
        }""",
        [table, head],
    )


def open_table(page, table):
    result = page.locator(f"[data-table='{table}']")
    result.evaluate("box => { if (box.tagName === 'DETAILS') box.open = true; }")
    return result


def test_choices_reach_all_figures_and_tables(page):
    see(page, "throughput")
    before = names(page, "throughput")
    page.get_by_label("SQLite", exact=True).uncheck()
    assert "3 of 4 engines" in page.locator("#chosen").inner_text()
    until(
        page,
        "!document.querySelector('#figure-throughput .plot').data"
        ".some(trace => trace.name.includes('SQLite'))",
    )
    assert names(page, "throughput") == {n for n in before if not n.startswith("SQLite")}
    open_table(page, "rates")
    assert "SQLite" not in column(page, "rates", "engine")
    page.get_by_label("SQLite", exact=True).check()
    assert "SQLite" in column(page, "rates", "engine")

    engines = page.locator("[data-choice='engine']")
    engines.get_by_role("button", name=re.compile("none")).click()
    assert "No row fits" in page.locator("#rates tbody").inner_text()
    engines.get_by_role("button", name=re.compile("all")).click()
    assert page.locator("#rates tbody tr").count() > 5


@pytest.mark.slow
def test_published_curves_are_laid_over_and_taken_away(page):
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
def test_hovering_tells_value_interval_repeats_and_trials_and_a_click_the_source(kept):
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


@pytest.mark.slow
def test_zoom_is_shared_over_time_and_has_keys(page):
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
def test_show_data_is_the_figure_as_a_table(kept):
    page = kept
    figure = see(page, "storage")
    figure.get_by_text("Show data").click()
    table = figure.locator("table")
    table.wait_for()
    assert table.locator("tbody tr").count() > 5
    assert table.locator("a.source").first.inner_text().startswith("summary ")
    drawn = page.evaluate(
        "document.querySelector('#figure-storage .plot').data.flatMap(t => t.x).length"
    )
    assert table.locator("tbody tr").count() == drawn


@pytest.mark.slow
def test_timelines_of_one_or_two_trials(page):
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


def test_a_number_leads_to_its_row_trials_and_files(kept, study):
    open_table(kept, "rates")
    row = kept.locator("#rates tbody tr").nth(1)
    mean = row.locator("td[data-label^='mean']").inner_text().split("\n")[0].replace(",", "")
    row.locator("a.source").focus()
    kept.keyboard.press("Enter")
    dialog = kept.locator("dialog#source")
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
    dialog.get_by_role("button", name="Close").click()
    assert not dialog.is_visible()


@pytest.mark.slow
def test_tables_are_sorted_searched_and_paged_by_click_and_by_keyboard(page):
    open_table(page, "storage")
    head = page.locator("#storage th", has_text="bytes per document")
    head.locator("button").click()
    for way in ("ascending", "descending"):
        assert head.get_attribute("aria-sort") == way
        values = [float(v.replace(",", "")) for v in column(page, "storage", "bytes per document")]
        assert values == sorted(values, reverse=way == "descending")
        assert f"sorted by bytes per document, {way}" in page.locator("#said").inner_text()
        head.locator("button").focus()
        page.keyboard.press("Enter")
    box, rows = open_table(page, "load"), page.locator("#load tbody tr")
    total = int(re.findall(r"\((\d+) rows\)", box.locator("summary").inner_text())[0])
    assert rows.count() == 25 < total
    box.get_by_role("button", name="Next").click()
    assert rows.count() == min(25, total - 25)
    box.get_by_role("button", name="Show all").click()
    assert rows.count() == total
    box.get_by_label(re.compile("Search")).fill("duckdb read")
    found = rows.all_inner_texts()
    assert found and all("duckdb" in row and "read" in row for row in found)
    assert f"(of {total})" in box.locator(".count").inner_text()


def saved(page, table):
    with page.expect_download() as waiting:
        page.locator(f"[data-table='{table}'] .save").click()
    assert waiting.value.suggested_filename == f"{table}.csv"
    text = Path(waiting.value.path()).read_text(encoding="utf-8")
    return list(csv.DictReader(io.StringIO(text)))


@pytest.mark.slow
def test_saved_tables_have_the_rows_that_are_shown(page):
    box = open_table(page, "rates")
    box.get_by_label(re.compile("Search")).fill("postgresql")
    page.locator("[data-choice='phase']").get_by_label("write").uncheck()
    rows = saved(page, "rates")
    assert [row["engine"] for row in rows] == column(page, "rates", "engine")
    assert {row["phase"] for row in rows} == {"read"}
    assert [row["source"] for row in rows] == column(page, "rates", "source")
    # What a spreadsheet would run is text, and what a file is called stays what it is.
    (bad,) = saved(page, "quarantine")
    assert bad["reason"] == f"'=cmd {EVIL}"
    assert bad["file"] == f"in/{EVIL}.m10"
    assert (bad["line"], bad["byte"]) == ("12", "345")


def test_nothing_of_the_inputs_becomes_markup(kept):
    assert kept.evaluate("window.hit") is None
    assert kept.locator("main img[src='x'], main section script:not([type])").count() == 0
    for part in ("#failed", "#quarantined"):
        assert EVIL in kept.locator(part).inner_text()


def brightness(page):
    ground = page.evaluate("getComputedStyle(document.body).backgroundColor")
    return sum(map(int, re.findall(r"\d+", ground)[:3]))


def contrasts(page):
    """Of text colours on the grounds they stand on."""
    result = page.evaluate(
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
def test_light_and_dark_by_the_system_and_by_choice(browser, study):
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
def test_no_width_scrolls_sideways(browser, study, width):
    with opened(browser, study / "report.html", viewport={"width": width, "height": 900}) as page:
        for figure in ("throughput", "latency", "storage"):
            see(page, figure)
        page.evaluate("for (const one of document.querySelectorAll('details')) one.open = true")
        until(page, f"document.documentElement.scrollWidth <= {width}")
        # No plot is cut: its drawing ends within its panel, as soon as it is drawn.
        until(
            page,
            "Array.from(document.querySelectorAll('.panel:not([hidden]) .main-svg'))"
            ".every(s => s.getBoundingClientRect().right <= innerWidth)",
        )


@pytest.mark.slow
def test_the_keyboard_reaches_every_control_and_shows_where_it_is(page):
    reached = []
    ring = "getComputedStyle(document.activeElement).outlineStyle"
    for _ in range(24):
        page.keyboard.press("Tab")
        reached.append(page.evaluate(f"[document.activeElement.textContent, {ring}]"))
    assert reached[0][0].strip() == "Skip to the verdict"
    assert all(ring != "none" for _, ring in reached)
    page.locator("[data-choice='engine'] input").first.focus()
    page.keyboard.press("Space")
    assert "3 of 4 engines" in page.locator("#chosen").inner_text()


@pytest.mark.slow
def test_headings_names_and_roles(kept):
    def every(selector, value):
        return kept.eval_on_selector_all(selector, f"all => all.map(e => {value})")

    see(kept, "throughput")
    assert kept.evaluate("document.documentElement.lang") == "en"
    levels = every("h1, h2, h3, h4", "Number(e.tagName[1])")
    assert levels.count(1) == 1 and all(b - a <= 1 for a, b in pairwise(levels))
    assert kept.locator("table:not(:has(caption)), img:not([alt])").count() == 0
    # Plotly's own drawings have ids of their own.
    ids, mine = every("[id]", "e.id"), every("[id]:not(svg *)", "e.id")
    assert len(mine) == len(set(mine))
    for attribute in ("aria-labelledby", "aria-describedby", "for"):
        assert set(every(f"[{attribute}]", f"e.getAttribute('{attribute}')")) <= set(ids)
    assert set(every("nav a", "e.hash.slice(1)")) <= set(ids)
    assert all(every("input, select", "e.labels.length > 0 || Boolean(e.ariaLabel)"))


@pytest.mark.slow
def test_on_paper_figures_are_still_and_all_rows_are_there(browser, study):
    with opened(browser, study / "report.html") as page:
        see(page, "throughput")
        page.evaluate("dispatchEvent(new Event('beforeprint'))")
        page.emulate_media(media="print")
        until(
            page,
            "Array.from(document.querySelectorAll('img.static')).every(i => i.naturalWidth > 0)",
        )
        assert page.locator("details:not([open]):not(.numbers)").count() == 0
        still = page.locator("figure img.static")
        assert page.locator("figure img.static:visible").count() == still.count()
        for hidden in (".live", ".choose", "nav"):
            assert page.locator(f"{hidden}:visible").count() == 0
        assert page.locator("#load tbody tr").count() > 25
        assert brightness(page) > 600
        page.emulate_media(media="screen")
        page.evaluate("dispatchEvent(new Event('afterprint'))")
        assert page.locator("#load tbody tr").count() == 25


@pytest.mark.slow
def test_without_javascript_figures_and_tables_are_there(browser, study):
    with opened(browser, study / "report.html", java_script_enabled=False) as page:
        assert page.locator("figure img").count() >= 8
        assert page.locator("#load tbody tr").count() == 25
        href = page.locator("#load a.source").first.get_attribute("href")
        assert (study / str(href)).is_file()
        assert page.locator("#choose").is_hidden()


@pytest.mark.slow
def test_a_link_opens_what_is_folded(page):
    # Drawn first: where the page moves between press and release, nothing was clicked.
    see(page, "throughput").locator(".links a[href='#rates']").click()
    page.locator("#rates").wait_for(state="visible")
