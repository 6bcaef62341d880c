"""What tests of whole studies share."""

from __future__ import annotations

import pytest
from support.results.made import Made


@pytest.fixture(scope="session")
def made(tmp_path_factory: pytest.TempPathFactory) -> Made:
    return Made(tmp_path_factory.mktemp("made"))
