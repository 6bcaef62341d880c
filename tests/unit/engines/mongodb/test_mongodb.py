"""MongoDB: nodes, options, routing and counters, without a server."""

from itertools import pairwise

import pytest
from bson.max_key import MaxKey
from bson.min_key import MinKey
from bson.objectid import ObjectId
from hypothesis import given
from hypothesis import strategies as st

from storewise.documents import Field, Kind
from storewise.engines.mongodb.engine import MongoEngine
from storewise.engines.mongodb.sharding import RoutingTable, key_field
from storewise.engines.support.splits import split_points
from storewise.errors import ConfigError
from storewise.study.load import load_study

ENGINE = MongoEngine()


def test_a_shard_key_is_a_field_of_the_workload(tmp_path):
    other = Kind("usertable", (Field("_id", "key", "a key"), Field("field0", "str", "text")))
    settings = ENGINE.Settings.model_validate({"shard_key_field": "field0"})
    assert (key_field(other, settings), key_field(Kind.RNA, settings)) == ("field0", "_id")
    study = tmp_path / "s.yaml"
    text = "workload: ycsb\nengines: {{mongodb: {{shard_key_field: {}}}}}\nphases: [load: {{}}]\n"
    study.write_text(text.format("field3"))
    load_study(str(study))
    study.write_text(text.format("ti"))
    with pytest.raises(ConfigError, match=r"engines\.mongodb.*no document has a field 'ti'"):
        load_study(str(study))


@given(parts=st.integers(1, 64), identifier=st.binary(min_size=12, max_size=12))
def test_equal_ranges_hold_equal_parts_of_the_ids(parts, identifier):
    points = split_points(Kind.RNA, parts)
    assert points == sorted(set(points)) and len(points) == parts - 1
    bounds = [MinKey(), *map(ObjectId, points), MaxKey()]
    chunks = [
        {"min": {"_id": low}, "max": {"_id": high}, "shard": f"shard{number}"}
        for number, (low, high) in enumerate(pairwise(bounds))
    ]
    table = RoutingTable.of_chunks(chunks, hashed=False)
    share = int.from_bytes(identifier[:4], "big") * parts >> 32
    assert table.shard_of(identifier) == f"shard{share}"
    with pytest.raises(ValueError, match="highest" if parts > 1 else "lowest"):
        RoutingTable.of_chunks(chunks[:-1], hashed=False)
