"""Studies that cannot be run, through `storewise run`: one message that names file, line and key.

What each key accepts is tested with the study file; this is what a user sees in the terminal.
"""

import shutil

import pytest
from support.commands import storewise
from support.inputs.small_studies import GOOD
from support.paths import SMALL

#: A study of each kind; the rest is in tests/unit/study/test_checks.py.
BAD = {
    "empty": ("", "s.yaml: ", ("empty", "storewise init")),
    "not UTF-8": (b"\xff\xfeinputs\n", "s.yaml: ", ("not UTF-8", "byte 0")),
    "no YAML": ("inputs:\n\tpaths: data\n", "s.yaml, line 2: ", ("not valid YAML", r"\t")),
    "a key": (GOOD + "engine: [duckdb]\n", "s.yaml, line 6: engine: ", ("did you mean 'engines'",)),
    "an unknown base": (GOOD + "extends: no.yaml\n", "s.yaml, line 6: extends: ", ("'no.yaml'",)),
    "a value": (GOOD.replace("10}", "-10}"), "s.yaml, line 4: phases.0.write.b", ("-10",)),
    "a path": (GOOD.replace("data", "dta"), "s.yaml, line 1: ", ("'dta'", "did you mean 'data'")),
    "a file": (GOOD.replace("data", "[data, data/none]"), "s.yaml, line 1: ", ("'data/none'",)),
    "a glob": (GOOD.replace("data", "'data/*.x'"), "s.yaml, line 1: ", ("'data/*.x'",)),
    "FASTA": (
        GOOD.replace("paths: data", "search: {queries: q.fa, libraries: data}"),
        "s.yaml, line 1: inputs.search.queries",
        ("'q.fa'", "looked from "),
    ),
}  # fmt: skip


@pytest.fixture
def place(tmp_path):
    (tmp_path / "data").mkdir()
    shutil.copy(SMALL[0], tmp_path / "data")
    return tmp_path


def refusal(place, *arguments):
    """The one message of a run that must not start."""
    done = storewise("run", *arguments, cwd=place)
    assert done.returncode == 2, done.stdout + done.stderr
    assert done.stdout == ""
    assert done.stderr.startswith("storewise: ")
    assert done.stderr.count("\n") == 1, done.stderr
    assert not (place / "results").exists()
    assert not (place / ".snakemake").exists()
    return done.stderr.removeprefix("storewise: ")


@pytest.mark.parametrize("kind", BAD)
def test_a_bad_study_is_one_message(place, kind):
    text, where, says = BAD[kind]
    (place / "s.yaml").write_bytes(text if isinstance(text, bytes) else text.encode())
    message = refusal(place, "s.yaml")
    assert message.startswith(where), message
    for words in says:
        assert words in message


def test_an_unknown_scale(place):
    (place / "s.yaml").write_text(GOOD + "scales: {tiny: {repeats: 1}}\n")
    message = refusal(place, "s.yaml", "--scale", "tinny")
    assert "'tinny'" in message
    assert "tiny" in message


def test_many_is_asked_for_by_name(place):
    """A run of a phase that no workload has ends before anything is planned."""
    text = GOOD.replace("- read", "- reed") + "exclude:\n" + "- {workers: 9}\n" * 201
    (place / "s.yaml").write_text(text)
    assert "201 rules" in refusal(place, "s.yaml")
    assert "no phase 'reed'" in refusal(place, "s.yaml", "--many")
