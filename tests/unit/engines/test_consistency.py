"""Strong and weak: one vocabulary for all engines, and what the documentation says of it."""

import re

import pytest
from support.paths import ROOT

from storewise.analysis.common.engines import consistency
from storewise.engines.registry import ENGINES, engine
from storewise.errors import ConfigError
from storewise.study.load import load_study


def words(cell):
    """A cell without its Markdown."""
    return re.sub(r"[`*]", "", cell).strip()


def rows(heading):
    """The cells of the first table below a heading of the page."""
    page = (ROOT / "docs" / "consistency.md").read_text()
    text = page.split(f"## {heading}\n", 1)[1].split("\n## ", 1)[0]
    lines = [line for line in text.splitlines() if line.startswith("|")]
    return [[words(cell) for cell in line.strip("|").split("|")] for line in lines[2:]]


@pytest.mark.parametrize("name", sorted(ENGINES))
def test_the_page_has_every_level_of_an_engine_and_whether_it_may_lose_documents(name):
    """Only where an acknowledged document may be lost is a loss a measurement."""
    described = engine(name)
    mine = [row for row in rows("Levels") if row[0] == name]
    assert sorted(row[1] for row in mine) == sorted(described.consistencies)
    losing = {row[1] for row in mine if row[4] == "yes"}
    may_lose = (
        set(described.lossy_levels) if described.flags.stores else set(described.consistencies)
    )
    assert losing == set(described.consistencies) & may_lose


def test_both_words_mean_levels_of_the_engine_and_the_page_says_which():
    result = {row[0]: (row[1], row[2]) for row in rows("Strong and weak")}
    for described in map(engine, ENGINES):
        assert set(described.consistency_aliases) == {"strong", "weak"}
        strong, weak = (
            described.consistency_aliases["strong"],
            described.consistency_aliases["weak"],
        )
        assert result.pop(described.name) == (strong, weak)
        assert {strong, weak} <= set(described.consistencies)
        assert strong != weak and strong not in described.lossy_levels
        assert described.level("strong") == strong and described.level(strong) == strong
    assert not result


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
