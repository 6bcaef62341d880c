"""What makes a test a unit test: it starts no process, opens no socket and does not sleep."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from support.outside import LISTENER


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item, nextitem: pytest.Item | None) -> Iterator[None]:
    """Listens from before the first fixture, whatever its scope."""
    LISTENER.start()
    result = yield
    LISTENER.stop()
    return result


@pytest.fixture(autouse=True)
def nothing_outside() -> Iterator[None]:
    """Fails a test that belongs to another tier."""
    yield
    heard = "; ".join(sorted(LISTENER.heard))
    assert not heard, f"no unit test ({heard}): it belongs to another folder"
