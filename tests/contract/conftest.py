import pytest


@pytest.fixture(scope="session")
def clusters(tmp_path_factory):
    """Servers for the tests, started when they are first needed."""
    from support.servers.stores import Clusters

    result = Clusters(tmp_path_factory.mktemp("servers"))
    with result.stack:
        yield result
