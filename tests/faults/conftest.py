"""What fault tests share."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from support.workspace import Workspace


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Workspace]:
    """An empty workspace; what a failed test still runs there is ended with it."""
    place = Workspace(tmp_path)
    yield place
    for process in place.processes():
        process.kill()
