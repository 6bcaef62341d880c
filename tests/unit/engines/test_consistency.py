"""Strong and weak: one vocabulary for all engines."""

import pytest

from storewise.analysis.common.engines import consistency
from storewise.engines.registry import ENGINES, engine
from storewise.errors import ConfigError
from storewise.study.load import load_study


def test_both_words_mean_levels_of_the_engine():
    for described in map(engine, ENGINES):
        assert set(described.consistency_aliases) == {"strong", "weak"}
        strong, weak = (
            described.consistency_aliases["strong"],
            described.consistency_aliases["weak"],
        )
        assert {strong, weak} <= set(described.consistencies)
        assert strong != weak and strong not in described.lossy_levels
        assert described.level("strong") == strong and described.level(strong) == strong


def test_a_trial_has_the_level_and_its_factor_the_word(tmp_path):
    path = tmp_path / "s.yaml"
    text = (
        "workload: measures\nengines: [sqlite, postgres]\n"
        "factors: {consistency: [strong, weak]}\nphases: [load: {rows: 1000}]\n"
    )
    path.write_text(text)
    trials = load_study(path).trials()
    assert {(t.engine, t.factors["consistency"], t.consistency) for t in trials} == {
        ("sqlite", "strong", "durable"),
        ("sqlite", "weak", "relaxed"),
        ("postgres", "strong", "serializable"),
        ("postgres", "weak", "unlogged"),
    }
    assert consistency("postgres", "weak").startswith("unlogged: as relaxed")
    assert consistency("postgres", "durable").startswith("synchronous_commit=on")
    path.write_text(text.replace("strong, weak", "stronk"))
    with pytest.raises(ConfigError, match=r"stronk.*strong and weak"):
        load_study(path)
