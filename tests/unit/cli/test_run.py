"""What `storewise run` refuses before anything starts: one message, and nothing is left behind."""

import shutil

import pytest
from support.commands import storewise
from support.inputs.small_studies import GOOD
from support.paths import SMALL

UNKNOWN = ("--profile", "slrum")

#: A study of each kind; the rest is in tests/unit/study/test_checks.py.
REFUSED = {
    "not UTF-8": (b"\xff\xfeinputs\n", (), ("s.yaml: ", "not UTF-8", "byte 0")),
    "a key": (GOOD + "engine: [duckdb]\n", (), ("s.yaml, line 6: engine: ", "mean 'engines'")),
    "a value": (GOOD.replace("10}", "-10}"), (), ("s.yaml, line 4: phases.0.write.b", "-10")),
    "a path": (GOOD.replace("data", "dta"), (), ("s.yaml, line 1: ", "'dta'", "mean 'data'")),
    "a file": (GOOD.replace("data", "[data, data/none]"), (), ("s.yaml, line 1: ", "'data/none'")),
    "a glob": (GOOD.replace("data", "'data/*.x'"), (), ("s.yaml, line 1: ", "'data/*.x'")),
    "FASTA": (
        GOOD.replace("paths: data", "search: {queries: q.fa, libraries: data}"), (),
        ("s.yaml, line 1: inputs.search.queries", "'q.fa'", "looked from "),
    ),
    "a scale": (GOOD + "scales: {tiny: {repeats: 1}}\n", ("--scale", "tinny"), ("'tinny'", "tiny")),
    "a phase, where many trials are allowed": (
        GOOD.replace("- read", "- reed"), ("--many",), ("no phase 'reed'",),
    ),
    "an option": (GOOD, ("--core", "2"), ("No such option: --core", "--cores")),
    "Snakemake's option": (
        GOOD, ("--omit-from", "analyse"), ("No such option: --omit-from", "-- ARGUMENT"),
    ),
    "a profile": (GOOD, UNKNOWN, ("no profile is called 'slrum' (did you mean 'slurm'?)",)),
    "a profile's path": (GOOD, ("--profile", "./x"), ("no profile is called './x'",)),
}  # fmt: skip


@pytest.mark.parametrize("kind", REFUSED)
def test_what_is_refused(tmp_path, kind):
    text, arguments, words = REFUSED[kind]
    (tmp_path / "data").mkdir()
    shutil.copy(SMALL[0], tmp_path / "data")
    (tmp_path / "s.yaml").write_bytes(text if isinstance(text, bytes) else text.encode())
    done = storewise("run", "s.yaml", *arguments, cwd=tmp_path)
    assert (done.returncode, done.stdout) == (2, "")
    if words[0].startswith("s.yaml"):
        assert done.stderr.startswith(f"storewise: {words[0]}")
    assert "option" in kind or done.stderr.count("\n") == 1
    for text in words:
        assert text in done.stderr
    assert sorted(path.name for path in tmp_path.iterdir()) == ["data", "s.yaml"]
