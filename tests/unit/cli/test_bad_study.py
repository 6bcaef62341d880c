"""Studies that cannot be run, through `storewise run`: one message that names file, line and key.

What each key accepts is tested with the study file; this is what a user sees in the terminal.
"""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from pathlib import Path

import pytest
from support.commands import storewise
from support.inputs.small_studies import GOOD
from support.paths import SMALL


@dataclass(frozen=True)
class Bad:
    """A study, the line that its message names (None: the file has none), and what it says."""

    kind: str
    text: str | bytes
    line: int | None
    says: tuple[str, ...]


def changed(kind: str, old: str, new: str, line: int | None, *says: str) -> Bad:
    assert GOOD.count(old) == 1, old
    return Bad(kind, GOOD.replace(old, new), line, says)


def added(kind: str, text: str, *says: str) -> Bad:
    return Bad(kind, GOOD + text + "\n", GOOD.count("\n") + 1, says)


BAD = [
    Bad("empty", "", None, ("empty", "storewise init")),
    Bad("only a comment", "# to do\n", None, ("empty",)),
    Bad("a list", "- inputs\n- engines\n", 1, ("mapping",)),
    Bad("text", "see the other file\n", 1, ("mapping",)),
    Bad("no keys", "{}\n", None, ("inputs", "missing")),
    Bad("not UTF-8", b"\xff\xfeinputs\n", None, ("not UTF-8", "byte 0")),
    Bad("a NUL byte", GOOD.encode() + b"title: \0\n", 6, ("not valid YAML",)),
    Bad("an open bracket", "inputs: {paths: data\nengines: [sqlite]\n", 2, ("not valid YAML",)),
    Bad("a tab", "inputs:\n\tpaths: data\n", 2, ("not valid YAML", r"\t")),
    added("an alias of itself", "title: &t [*t]", "alias"),
    added("a tag of Python", "x: !!python/object/apply:os.system [id]", "tag", "os.system"),
    added("an unknown key", "engine: [duckdb]", "engine", "did you mean 'engines'"),
    added("a name", "name: ../elsewhere", "name", "what its file is"),
    added("a key twice", "engines: [duckdb]", "engines", "twice", "line 2"),
    added("a wrong word", "on_bad_input: ignore", "on_bad_input", "'quarantine'", "'ignore'"),
    added("negative repeats", "repeats: -1", "repeats", "-1"),
    added("half a repeat", "repeats: 1.5", "repeats", "whole number", "1.5"),
    added("a boolean for a number", "repeats: true", "repeats", "whole number", "True"),
    added("words for a number", "retries: lots", "retries", "whole number", "'lots'"),
    added("a list for a mapping", "factors: [workers, 2]", "factors", "mapping"),
    added("a factor in words", "factors: {workers: two}", "factors.workers", "'two'"),
    added("an unknown factor", "factors: {worker: 2}", "worker", "'workers'"),
    added("an unknown workload", "workload: ycbs", "workload", "'ycbs'", "alignments"),
    added("an unknown base", "extends: nowhere.yaml", "extends", "'nowhere.yaml'"),
    changed("an unknown engine", "sqlite", "sqllite", 2, "sqllite", "did you mean 'sqlite'"),
    changed("no engine", "[sqlite]", "[]", 2, "engines", "empty"),
    changed("no phases", GOOD[GOOD.index("phases") :], "", None, "phases", "missing"),
    changed("an unknown phase", "- write", "- wriet", 4, "wriet", "did you mean 'write'"),
    changed("nothing written", "  - write: {batch_size: 10}\n", "", 4, "loading phase"),
    changed("an unknown parameter", "operations", "operatoins", 5, "'operations'"),
    changed("a negative size", "10}", "-10}", 4, "batch_size", "-10"),
    changed("no input", "paths: data", "paths: []", 1, "inputs", "paths"),
    changed("a wrong path", "paths: data", "paths: dta", 1, "'dta'", "did you mean 'data'"),
    changed("a wrong file", "paths: data", "paths: [data, data/none]", 1, "'data/none'"),
    changed("a glob of nothing", "paths: data", "paths: 'data/*.x'", 1, "'data/*.x'"),
    changed(
        "a wrong FASTA file",
        "paths: data",
        "search: {queries: q.fa, libraries: data}",
        1,
        "inputs.search.queries",
        "'q.fa'",
    ),
]  # fmt: skip


@pytest.fixture
def place(tmp_path: Path) -> Path:
    (tmp_path / "data").mkdir()
    shutil.copy(SMALL[0], tmp_path / "data")
    return tmp_path


def refusal(place: Path, *arguments: str) -> str:
    """The one message of a run that must not start."""
    done = storewise("run", *arguments, cwd=place)
    assert done.returncode == 2, done.stdout + done.stderr
    assert done.stdout == ""
    assert done.stderr.startswith("storewise: ")
    assert done.stderr.count("\n") == 1, done.stderr
    assert not (place / "results").exists()
    assert not (place / ".snakemake").exists()
    return done.stderr.removeprefix("storewise: ")


@pytest.mark.parametrize("bad", BAD, ids=lambda bad: bad.kind)
def test_a_bad_study_is_one_message(place: Path, bad: Bad) -> None:
    content = bad.text if isinstance(bad.text, bytes) else bad.text.encode()
    (place / "s.yaml").write_bytes(content)
    message = refusal(place, "s.yaml")
    where = "s.yaml: " if bad.line is None else f"s.yaml, line {bad.line}: "
    assert message.startswith(where)
    for words in bad.says:
        assert words in message


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("s.yml", "did you mean 's.yaml'"),
        ("dmeo", "did you mean 'demo'"),
        ("elsewhere/s.yaml", "no such study file"),
        ("data", "give the path of a YAML file"),
    ],
)
def test_a_study_that_is_not_there(place: Path, name: str, says: str) -> None:
    (place / "s.yaml").write_text(GOOD)
    message = refusal(place, name)
    assert name in message
    assert says in message


def test_an_unknown_scale(place: Path) -> None:
    (place / "s.yaml").write_text(GOOD + "scales: {tiny: {repeats: 1}}\n")
    message = refusal(place, "s.yaml", "--scale", "tinny")
    assert "'tinny'" in message
    assert "tiny" in message


def test_many_is_asked_for_by_name(place: Path) -> None:
    """A run of a phase that no workload has ends before anything is planned."""
    text = GOOD.replace("- read", "- reed") + "exclude:\n" + "- {workers: 9}\n" * 201
    (place / "s.yaml").write_text(text)
    assert "201 rules" in refusal(place, "s.yaml")
    assert "no phase 'reed'" in refusal(place, "s.yaml", "--many")
