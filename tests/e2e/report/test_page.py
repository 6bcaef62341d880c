"""The page in a real browser: every control, keyboard, phone, paper, and what must not happen."""

import csv
import re
from itertools import pairwise

import pytest
from support.browsing import opened
from support.results.made import GROUP
from support.results.pages import EVIL
from support.waiting import wait_until

pytestmark = [pytest.mark.needs("chromium"), GROUP]


def until(page, condition):
    """Waits for a condition in JavaScript; the page itself may evaluate no text, so it is asked
    from outside."""
    wait_until(lambda: page.evaluate(condition), 12, condition)


def told(page, figure):
    """What the points and lines of a figure say, and whose they are."""
    titles = f"#figure-{figure} .panel title"
    return [text.split("\n") for text in page.locator(titles).all_text_contents()]


def column(page, table, head):
    """The texts of a column."""
    return page.evaluate(
        """([table, head]) => {
            const rows = document.getElementById(table).rows;
            const place = Array.from(rows[0].cells).findIndex(
                (cell) => cell.innerText.trim().startsWith(head));
            return Array.from(rows).slice(1).filter(row => !row.hidden)
                .map(row => row.cells[place].innerText.trim());
        }""",
        [table, head],
    )


def open_table(page, table):
    result = page.locator(f"[data-table='{table}']")
    result.evaluate("box => { if (box.tagName === 'DETAILS') box.open = true; }")
    return result


@pytest.mark.slow
def test_a_point_tells_value_interval_and_repeats_and_leads_to_its_source(kept):
    point = kept.locator("#figure-throughput a[data-source]").first
    text = point.locator("title").text_content()
    for word in ("documents/s", "95 % interval", "n = 2"):
        assert word in text
    point.scroll_into_view_if_needed()
    box = point.bounding_box()
    kept.mouse.click(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
    dialog = kept.locator("dialog#source")
    dialog.wait_for()
    assert dialog.locator("h2").inner_text() == "Source: summary"
    kept.keyboard.press("Escape")
    assert not dialog.is_visible()
    assert any(one[0].startswith("published: ") for one in told(kept, "published"))


@pytest.mark.slow
def test_timelines_of_a_trial(page):
    box = page.locator("#timelines")
    box.scroll_into_view_if_needed()
    box.locator(".panel path").first.wait_for()
    options = page.locator("#timeline-trial option")
    assert options.count() == 20
    place = options.evaluate_all("all => all.findIndex(o => o.text.startsWith('PostgreSQL'))")
    page.select_option("#timeline-trial", str(place))
    page.select_option("#timeline-part", label="read")
    line = "document.querySelector('#timelines .panel title')"
    until(page, f"{line}?.textContent.startsWith('postgres')")
    titles = box.locator(".panel h3").all_inner_texts()
    assert {"operations per second", "waiting for the disk in %", "bytes written per second"} <= {
        *titles
    }
    assert box.locator(".legend li").count() == 1


def test_a_number_leads_to_its_row_trials_and_files(kept, study):
    open_table(kept, "rates")
    row = kept.locator("#rates tbody tr").nth(1)
    mean = row.locator("td:has(small)").inner_text().split()[0].replace(",", "")
    row.locator("a.source").focus()
    kept.keyboard.press("Enter")
    dialog = kept.locator("dialog#source")
    dialog.locator("li").first.wait_for()
    place = int(re.findall(r"row (\d+)", dialog.inner_text())[0])
    with (study / "analysis" / "summary.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert float(rows[place - 1]["mean"]) == pytest.approx(float(mean), rel=0.01)
    files = dialog.locator("li a").evaluate_all("all => all.map(a => a.getAttribute('href'))")
    assert len(files) > 4
    # Folders of trials and files in them, beside the page.
    assert all((study / one).exists() for one in files)
    dialog.get_by_role("button", name="Close").click()
    assert not dialog.is_visible()


@pytest.mark.slow
def test_tables_are_sorted_and_searched_by_click_and_by_keyboard(page):
    open_table(page, "storage")
    head = page.locator("#storage th", has_text=re.compile("^bytes per document"))
    head.locator("button").click()
    for way in ("ascending", "descending"):
        assert head.get_attribute("aria-sort") == way
        values = [float(v.replace(",", "")) for v in column(page, "storage", "bytes per document")]
        assert values == sorted(values, reverse=way == "descending")
        assert f"sorted by bytes per document, {way}" in page.locator("#said").inner_text()
        head.locator("button").focus()
        page.keyboard.press("Enter")
    box, rows = open_table(page, "load"), page.locator("#load tbody tr:visible")
    total = int(re.findall(r"\((\d+) rows\)", box.locator("summary").inner_text())[0])
    assert rows.count() == total > 25
    box.get_by_label(re.compile("Search")).fill("duckdb read")
    found = rows.all_inner_texts()
    assert found and all("duckdb" in row and "read" in row for row in found)
    assert f"{len(found)} of {total} rows" in box.locator(".count").inner_text()


@pytest.mark.slow
def test_copied_tables_have_the_rows_that_are_shown(page):
    box = open_table(page, "rates")
    box.get_by_label(re.compile("Search")).fill("postgresql read")
    page.evaluate("navigator.clipboard.writeText = async (text) => { window.copied = text; }")
    box.get_by_role("button", name="Copy as Markdown").click()
    heads, rule, *rows = page.evaluate("window.copied").splitlines()
    assert set(rule) == set("| -") and heads.count("|") == rule.count("|")
    cells = [[cell.strip() for cell in row.strip("|").split("|")] for row in rows]
    place = [head.strip() for head in heads.strip("|").split("|")].index("engine")
    assert [row[place] for row in cells] == column(page, "rates", "engine")
    assert all("read" in row for row in cells)
    page.locator("#copy-chart").click()
    chart = page.evaluate("window.copied").splitlines()
    assert len(chart) == page.locator("#chart tr").count() + 1
    assert page.locator("#chart td a").first.inner_text() in chart[2]


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
            const probe = document.body.appendChild(document.createElement("i"));
            const light = (name) => {
                probe.style.color = `var(${name})`;
                const parts = getComputedStyle(probe).color.match(/\\d+/g).map((n) => n / 255)
                    .map((v) => v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4);
                return 0.2126 * parts[0] + 0.7152 * parts[1] + 0.0722 * parts[2];
            };
            return ["--text", "--soft", "--accent"].flatMap((text) => ["--page", "--card"]
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
        tick = "getComputedStyle(document.querySelector('#figure-throughput text')).fill"
        assert page.evaluate(tick) == "rgb(230, 233, 238)"
        page.select_option("#scheme", "light")
        assert brightness(page) > 600
        assert min(contrasts(page)) >= 4.5
        until(page, f"{tick} === 'rgb(27, 31, 36)'")
        page.select_option("#scheme", "light dark")
        assert brightness(page) < 200


@pytest.mark.slow
@pytest.mark.parametrize("width", [320, 800, 1400])
def test_no_width_scrolls_sideways(browser, study, width):
    with opened(browser, study / "report.html", viewport={"width": width, "height": 900}) as page:
        page.evaluate("for (const one of document.querySelectorAll('details')) one.open = true")
        until(page, f"document.documentElement.scrollWidth <= {width}")
        # No panel is cut, and its text can be read.
        until(
            page,
            "Array.from(document.querySelectorAll('figure svg')).every("
            "s => s.getBoundingClientRect().right <= innerWidth && s.clientWidth >= 0.74 * 400)",
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


@pytest.mark.slow
def test_headings_names_and_roles(kept):
    def every(selector, value):
        return kept.eval_on_selector_all(selector, f"all => all.map(e => {value})")

    assert kept.evaluate("document.documentElement.lang") == "en"
    levels = every("h1, h2, h3, h4", "Number(e.tagName[1])")
    assert levels.count(1) == 1 and all(b - a <= 1 for a, b in pairwise(levels))
    assert kept.locator("table:not(:has(caption)), img:not([alt])").count() == 0
    ids = every("[id]", "e.id")
    assert len(ids) == len(set(ids))
    for attribute in ("aria-labelledby", "aria-describedby", "for"):
        assert set(every(f"[{attribute}]", f"e.getAttribute('{attribute}')")) <= set(ids)
    assert set(every("nav a", "e.hash.slice(1)")) <= set(ids)
    assert all(every("input, select", "e.labels.length > 0 || Boolean(e.ariaLabel)"))


@pytest.mark.slow
def test_on_paper_all_is_open_and_all_rows_are_there(browser, study):
    with opened(browser, study / "report.html") as page:
        page.evaluate("dispatchEvent(new Event('beforeprint'))")
        page.emulate_media(media="print")
        assert page.locator("details:not([open]):not(.numbers)").count() == 0
        assert page.locator("nav:visible").count() == 0
        assert page.locator("#load tbody tr:visible").count() > 25
        assert brightness(page) > 600


@pytest.mark.slow
def test_without_javascript_figures_and_tables_are_there(browser, study):
    with opened(browser, study / "report.html", java_script_enabled=False) as page:
        assert page.locator("figure .panel svg").count() >= 8
        assert page.locator("#load tbody tr").count() > 25
        href = page.locator("#load a.source").first.get_attribute("href")
        assert (study / str(href)).is_file()


@pytest.mark.slow
def test_a_link_opens_what_is_folded(page):
    page.locator("#figure-throughput .links a[href='#rates']").click()
    page.locator("#rates").wait_for(state="visible")
