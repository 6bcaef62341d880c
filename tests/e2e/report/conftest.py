"""A made-up study with all that a page can show, and its page, made once for all tests of it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from support.browsing import chromium, opened
from support.results import synthetic
from support.results.pages import EVIL, FACTORS, TAKEN, fail, publish_beside

from storewise.report.page.page import Report, make_report


@pytest.fixture(scope="session")
def report(tmp_path_factory: pytest.TempPathFactory) -> Report:
    """Servers, an engine without a store, published figures, a failed trial, a failed attempt."""
    directory = tmp_path_factory.mktemp("results") / "demo"
    engines = ["null", "sqlite", "duckdb", "postgres"]
    trials = synthetic.make_study(directory, engines=engines, nodes=[1, 2])
    publish_beside(directory)
    synthetic.make_failed(directory, FACTORS, 1, f"disk full {EVIL}")
    fail(directory, trials[0], TAKEN)
    synthetic.make_inputs(directory, [(f"in/{EVIL}.m10", "12", "345", f"=cmd {EVIL}")])
    return make_report(directory)


@pytest.fixture(scope="session")
def study(report: Report) -> Path:
    """The study's directory; no test changes it."""
    return report.path.parent


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with chromium() as result:
        yield result


@pytest.fixture
def page(browser: Any, study: Path) -> Iterator[Any]:
    with opened(browser, study / "report.html") as result:
        yield result


@pytest.fixture(scope="module")
def kept(browser: Any, study: Path) -> Iterator[Any]:
    """One page for all tests that only look, or that put back what they open."""
    with opened(browser, study / "report.html") as result:
        yield result
