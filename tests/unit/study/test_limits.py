"""How large a study may be: as many as the limit are taken, one more is refused."""

import pytest
from support.inputs.small_studies import GOOD

from storewise.errors import ConfigError
from storewise.study import checks
from storewise.study.load import load_study


def test_as_many_trials_as_the_limit(tmp_path, monkeypatch):
    """Two levels, three repeats; rules are not counted."""
    path = tmp_path / "s.yaml"
    path.write_text(GOOD + "factors: {workers: [1, 2]}\nrepeats: 3\nexclude: [{workers: 2}]\n")
    monkeypatch.setattr(checks, "MAX_TRIALS", 6)
    assert load_study(path, root=tmp_path).trials()
    monkeypatch.setattr(checks, "MAX_TRIALS", 5)
    with pytest.raises(ConfigError, match=r"means 6 trials .*storewise run --many"):
        load_study(path, root=tmp_path)
    assert load_study(path, root=tmp_path, many=True).trials()


def test_steps_of_one_phase(tmp_path):
    path, steps = tmp_path / "s.yaml", ", ".join(["{threads: 1}"] * 1000)
    path.write_text(GOOD.replace("100}", f"100, steps: [{steps}]}}"))
    assert load_study(path, root=tmp_path, many=True).trials()
    path.write_text(GOOD.replace("100}", f"100, steps: [{steps}, {{threads: 1}}]}}"))
    with pytest.raises(ConfigError, match=r"1\.read: has 1,001 steps; 1,000 is the most"):
        load_study(path, root=tmp_path, many=True)
