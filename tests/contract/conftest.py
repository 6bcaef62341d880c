from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from support.servers.stores import Clusters


@pytest.fixture(scope="session")
def clusters(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Clusters]:
    """Servers for the tests, started when they are first needed."""
    from support.servers.stores import Clusters

    result = Clusters(tmp_path_factory.mktemp("servers"))
    with result.stack:
        yield result
