"""How large a study may be: as many as the limit are taken, one more is refused by its number."""

import pytest
from support.inputs.small_studies import GOOD, OF_SERVERS

from storewise.errors import ConfigError
from storewise.study import limits
from storewise.study.load import load_study

SERVERS = OF_SERVERS.replace("factors: {nodes: [1, 2]}\n", "")
STEPS = GOOD.replace("100}", "100, steps: [{threads: 1}, {threads: 2}, {threads: 3}]}")
MANY = "`storewise run --many` (for Snakemake `--config many=true`) takes more"


@pytest.mark.parametrize(
    ("limit", "number", "text", "says"),
    [
        # Two levels, three repeats; rules are not counted.
        ("MOST_TRIALS", 6, "factors: {workers: [1, 2]}\nrepeats: 3\nexclude: [{workers: 2}]\n",
         "factors: the study means 6 trials (before `exclude`)"),
        # In each phase and the verification as many jobs as workers: 3 * (1 + 3) of two trials.
        ("MOST_JOBS", 12, "factors: {workers: [1, 3]}\n", "12 jobs of nodes and workers"),
        ("MOST_STEPS_IN_ALL", 8, STEPS + "repeats: 2\n", "8 steps of phases"),
        ("MOST_RULES", 3, "exclude: [{workers: 2}, {workers: 3}, {workers: 4}]\n",
         "exclude: has 3 rules"),
        # The load alone and with two levels; the reads in three steps, each with one level more.
        ("MOST_VARIANTS", 18, STEPS + "factors: {write.batch_size: [1, 2], read.operations: 5}\n",
         "phases: means 18 variants of parameters (of load and later: steps times levels)"),
        ("MOST_VARIANTS", 5, "factors: {read.operations: [5, 6, 7]}\n",
         "means 5 variants of parameters (checked alone"),
        # Of each server: 2 * 3 nodes and 1 router, and 1 worker in two phases and the verification.
        ("MOST_JOBS", 20, SERVERS.replace("sqlite, postgres, mongodb", "mongodb")
         + "factors: {nodes: [2], replicas: [3], routers: [1]}\nrepeats: 2\n", "20 jobs of nodes"),
    ],
)  # fmt: skip
def test_as_many_as_the_limit(tmp_path, monkeypatch, limit, number, text, says):
    path = tmp_path / "s.yaml"
    path.write_text(text if "inputs" in text else GOOD + text)
    monkeypatch.setattr(limits, limit, number)
    assert load_study(path, root=tmp_path).trials()
    monkeypatch.setattr(limits, limit, number - 1)
    with pytest.raises(ConfigError) as error:
        load_study(path, root=tmp_path)
    assert says in str(error.value) and MANY in str(error.value)
    assert load_study(path, root=tmp_path, many=True).trials()


def test_steps_of_one_phase(tmp_path):
    path, steps = tmp_path / "s.yaml", ", ".join(["{threads: 1}"] * 1000)
    path.write_text(GOOD.replace("100}", f"100, steps: [{steps}]}}"))
    assert load_study(path, root=tmp_path, many=True).trials()
    path.write_text(GOOD.replace("100}", f"100, steps: [{steps}, {{threads: 1}}]}}"))
    with pytest.raises(ConfigError, match=r"1\.read: has 1,001 steps; 1,000 is the most"):
        load_study(path, root=tmp_path, many=True)
