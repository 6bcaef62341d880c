"""The study file: what its keys mean. What is refused: test_checks.py."""

from support.paths import ROOT

from storewise.study.load import load_study

BASE = """\
inputs: {paths: data}
engines: [null, sqlite]
phases:
  - write: {batch_size: 10}
  - read: {operations: 100}
"""


def study(tmp_path, text=BASE, name="s.yaml", **options):
    path = tmp_path / name
    path.write_text(text)
    return load_study(path, **options)


def test_the_demo_is_what_the_readme_says():
    demo = load_study("demo", root=ROOT)
    assert len(demo.trials()) == 4 * 3
    assert set(demo.engines) == {"files", "sqlite", "duckdb", "parquet"}


def test_extends_and_scales_merge_mappings_and_replace_the_rest(tmp_path):
    study(tmp_path, BASE + "factors: {workers: [1, 2], threads: 1}\n", name="base.yaml")
    text = "extends: base.yaml\nfactors: {workers: 4}\nscales: {tiny: {repeats: 3}}\n"
    result = study(tmp_path, text)
    assert result.factors == {"workers": [4], "threads": [1]}
    assert result.repeats == 1
    assert study(tmp_path, text, scale="tiny").repeats == 3
    chosen = study(tmp_path, text + "scale: tiny\n")
    assert (chosen.repeats, chosen.scale) == (3, "tiny")


def test_new_engines_levels_and_repeats_leave_other_trials_as_they_are(tmp_path):
    before = {trial.id: trial for trial in study(tmp_path).trials()}
    for change in (
        BASE.replace("[null, sqlite]", "[null, sqlite, duckdb]"),
        BASE + "repeats: 3\n",
        BASE + "factors: {workers: [1, 2]}\n",
    ):
        after = {trial.id: trial for trial in study(tmp_path, change).trials()}
        assert len(after) > len(before) and before.items() <= after.items()
        assert [trial for trial in after if trial in before] == list(before)
