"""MongoDB: the shard key of a workload, without a server."""

import pytest

from storewise.documents import Field, Kind
from storewise.engines.mongodb.engine import MongoEngine
from storewise.engines.mongodb.sharding import key_field
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
