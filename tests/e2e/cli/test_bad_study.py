"""A study that cannot be run, and one that can, by the command in a process of its own; every kind
of refusal is in tests/unit/cli."""

from support.inputs.small_studies import GOOD
from support.workspace import Workspace


def test_a_bad_study_is_one_message(tmp_path):
    place = Workspace(tmp_path)
    place.write_study(GOOD + "engine: [duckdb]\n")
    done = place.storewise("run", "s.yaml")
    assert (done.returncode, done.stdout) == (2, ""), done.stdout + done.stderr
    assert done.stderr.startswith("storewise: s.yaml, line 6: ")
    assert done.stderr.count("\n") == 1, done.stderr
    assert sorted(path.name for path in tmp_path.iterdir()) == ["s.yaml"]


def test_inputs_may_be_gone_once_they_are_listed(tmp_path):
    """Then Snakemake decides what is still needed; the check of paths is for the first run."""
    place = Workspace(tmp_path)
    place.write_study(GOOD)
    listing = place.results / "inputs" / "files.txt"
    listing.parent.mkdir(parents=True)
    listing.write_text("data/gone.m10\n")
    done = place.storewise("run", "s.yaml", "--dry-run")
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.startswith("1 trial, about "), done.stdout
    assert not (place.results / "logs").exists(), "a plan leaves nothing"
