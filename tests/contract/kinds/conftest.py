"""One store for all tests of a file."""

from dataclasses import replace

import pytest
from support.servers.other_kinds import KINDS, TARGETS, Store, connect, filled
from support.servers.stores import cells

from storewise.engines.registry import engine


@pytest.fixture(scope="module", params=cells(TARGETS))
def store(request, tmp_path_factory):
    """One that was written by the client that reads it, or by another one; or a reader of two."""
    target = request.param
    directory = tmp_path_factory.mktemp("kinds")
    writer = None
    if not target.nodes:
        cluster = target.embedded(directory / "store", kinds=KINDS)
        writer = reader = filled(cluster)
    elif engine(target.name).flags.embedded:
        places = (directory / "first", directory / "second")
        for path, part in zip(places, (slice(0, None, 2), slice(1, None, 2)), strict=True):
            filled(target.embedded(path, kinds=KINDS), part).close()
        cluster = target.embedded(*places, kinds=KINDS)
        reader = connect(cluster, "read")
    else:
        cluster = replace(request.getfixturevalue("clusters").fresh(target), kinds=KINDS)
        writer = filled(cluster)
        reader = connect(cluster, "read")
    yield Store(target, cluster, reader, writer)
    reader.close()
    if writer is not None:
        writer.close()
