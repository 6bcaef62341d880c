"""The page in a browser."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from support.browsing import chromium, opened


@pytest.fixture(scope="session")
def study(shown_study: Path) -> Path:
    return shown_study


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
