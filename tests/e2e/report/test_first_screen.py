"""The first screen in a real browser: answer, chart, uses, and the reader's own weights."""

from dataclasses import replace
from random import Random

import pytest
from support.browsing import opened
from support.results.made import GROUP

from storewise.analysis.decision import Conditions, decide
from storewise.analysis.verdict.criteria import criteria_of
from storewise.analysis.verdict.decision import verdict
from storewise.analysis.verdict.measures import measures_of, no_stores, rules

pytestmark = [pytest.mark.needs("chromium"), GROUP]


@pytest.mark.parametrize(
    ("width", "scheme"), [(1280, "light"), pytest.param(390, "dark", marks=pytest.mark.slow)]
)
def test_the_first_screen_has_the_answer_the_chart_and_the_uses(browser, study, width, scheme):
    options = {"viewport": {"width": width, "height": 800}, "color_scheme": scheme}
    with opened(browser, study / "report.html", folded=True, **options) as page:
        answer = page.locator("#take strong")
        assert len(answer.inner_text().split()) <= 20
        assert page.locator(".beside .sure").inner_text().startswith("sure: ")
        assert page.locator(".warning:visible").count() <= 1
        # Every part below is closed, and nothing is wider than the screen.
        assert page.locator("details.part[open]").count() == 0
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        for thing in ("#take", "#chart"):
            assert page.locator(thing).bounding_box()["y"] < 800, thing
        if width > 1000:
            for thing in ("#chart", "#uses", "#weights", ".warning"):
                box = page.locator(thing).first.bounding_box()
                assert box["y"] + box["height"] <= 800, thing
        # A cell leads to its evidence.
        page.locator("#chart a.source").first.click()
        page.locator("dialog#source dl").first.wait_for()


def test_weights_are_judged_on_the_page_as_by_the_analysis(kept, paged):
    tables = paged.tables
    criteria = criteria_of(tables)
    measures = measures_of(tables, criteria)
    plain = rules(tables, criteria, measures, {})
    # As the page does: with the deployments of the verdict.
    deployed = verdict(tables).decision.table["deployment"].to_dict()
    own = measures["deployment"] == measures["store"].map(deployed).fillna(measures["deployment"])
    names = kept.evaluate("storewise.priorities.criteria.map(({ name }) => name)")
    assert len(names) > 2
    random = Random(20190601)
    draws = [dict.fromkeys(names, 1.0), {names[0]: 1.0}, *({n: 0.0} for n in names[:1])]
    draws += [{name: random.choice([0, 1, 2, 8]) for name in names} for _ in range(60)]
    for weights in draws:
        weighted = {n: replace(plain[n], weight=float(w)) for n, w in weights.items() if w}
        here = decide(measures[own], weighted, Conditions(no_stores=no_stores())).table
        there = kept.evaluate("w => storewise.scored(storewise.priorities, w)", weights)
        assert [one["choice"] for one in there] == list(here.index), weights
        scores = list(here.get("score", []))  # the page has six digits of each figure
        assert [one["relative"] for one in there] == pytest.approx(scores, rel=1e-4)


@pytest.mark.slow
def test_sliders_answer_at_once_and_uses_set_them(page):
    before = page.locator("#weighed strong").inner_text()
    assert before.startswith("→ ")
    page.locator("#weights").evaluate("box => { box.open = true; }")
    disk = page.locator("#weight-disk")
    for slide in page.locator("#sliders input").all():
        slide.fill("0")
    assert "give a weight" in page.locator("#weighed").inner_text()
    disk.fill("10")
    alone = page.locator("#weighed strong").inner_text()
    uses = page.locator("#uses li", has_text="keep it small")
    assert uses.locator("strong").inner_text() in alone or " or " in alone
    page.get_by_role("button", name="Reset").click()
    assert page.locator("#weighed strong").inner_text().replace("still ", "") == before
    uses.get_by_role("button").click()
    assert float(disk.input_value()) == 10
