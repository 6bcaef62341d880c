"""Servers killed under load: what they acknowledged at a durable level is there afterwards, and
clients go on with the restarted server by themselves."""

import pytest
from support.crash_trial import NODE, crash
from support.servers.stores import available

from storewise.engines.registry import engine

#: Those of the engines' levels that `make test-slow` tries.
_TRIED = {
    "postgres": ("durable", "relaxed"),
    "mongodb": ("durable",),
    "valkey": ("durable", "relaxed", "memory"),
}
_ALL = ("postgres", "mariadb", "mongodb", "cassandra", "hbase", "valkey")

CELLS = [
    pytest.param(
        name,
        level,
        marks=[
            pytest.mark.xdist_group(name),
            *([] if level in _TRIED.get(name, ()) else [pytest.mark.all_cells]),
        ],
    )
    for name in _ALL
    for level in engine(name).consistencies
]


@pytest.mark.parametrize(("name", "level"), CELLS)
def test_acknowledged_documents_outlive_a_crash(name, level, tmp_path):
    result = crash(
        name,
        tmp_path / "c",
        consistency=level,
        settings=available(name),
        node=NODE.get(name, "data0"),
    )
    assert result.unavailable > 0
    if level not in engine(name).losing:
        assert result.lost == 0, result
    # A store at any level still has most: the log is written behind, not never.
    assert result.lost < result.acknowledged
