"""The page in a browser."""

import pytest
from support.browsing import chromium, opened


@pytest.fixture(scope="session")
def study(shown_study):
    return shown_study


@pytest.fixture(scope="module")
def browser():
    with chromium() as result:
        yield result


@pytest.fixture
def page(browser, study):
    with opened(browser, study / "report.html") as result:
        yield result


@pytest.fixture(scope="module")
def kept(browser, study):
    """One page for all tests that only look, or that put back what they open."""
    with opened(browser, study / "report.html") as result:
        yield result
