"""A headless Chromium for tests of the page."""

import importlib
import importlib.util
import os
import shutil
from contextlib import contextmanager

import pytest


@contextmanager
def chromium():
    """The browser; skips where there is none, and fails where there must be one."""
    result = shutil.which("chromium") or shutil.which("chromium-browser")
    missing = [] if result else ["chromium"]
    missing += [] if importlib.util.find_spec("playwright") else ["playwright"]
    if missing:
        text = f"{' and '.join(missing)} not installed; the page's tests need it"
        if os.environ.get("STOREWISE_REQUIRE_ALL") == "1":
            pytest.fail(text)
        pytest.skip(text)
    sync_api = importlib.import_module("playwright.sync_api")
    with sync_api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=result, args=["--no-sandbox", "--disable-gpu"]
        )
        yield browser
        browser.close()


#: Opens the parts of a page.
OPEN_ALL = "for (const one of document.querySelectorAll('details.part')) one.open = true"


@contextmanager
def opened(browser, path, *, folded=False, **options):
    """A page of a file, all its parts open unless `folded`; afterwards nothing may have been told
    on the console or asked for over a network."""
    context = browser.new_context(**{"viewport": {"width": 1200, "height": 900}, **options})
    page = context.new_page()
    problems = []
    requests = []
    page.on("console", lambda m: problems.append(m.text) if m.type != "info" else None)
    page.on("pageerror", lambda e: problems.append(f"{e} {e.stack}"))
    page.on("request", lambda r: requests.append(r.url))
    page.goto(path.as_uri())
    if not folded:
        page.evaluate(OPEN_ALL)
    yield page
    assert problems == []
    address = path.as_uri()
    assert [r for r in requests if r != address and not r.startswith(("data:", "blob:"))] == []
    context.close()
