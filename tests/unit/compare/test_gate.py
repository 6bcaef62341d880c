"""The limit of `storewise compare`, by hand, and the study that measures old and new together."""

import math

import pandas as pd
import pytest
from scipy import stats

from storewise.compare.compare import Comparison
from storewise.compare.gate import gate, parse_limit
from storewise.compare.interleave import write_interleaved
from storewise.errors import ConfigError, ResultError
from storewise.study.load import load_study

STUDY = """
workload: ycsb
engines: [sqlite, duckdb]
phases: [{load: {recordcount: 100}}, {a: {operations: 10}}]
repeats: 3
"""


def comparison(*figures, only=()):
    """Of (kind, ratio, error, freedom); `only` has the sides that have a further rate."""
    columns = ["kind", "ratio", "error", "freedom"]
    lost = pd.DataFrame([(side, "rate") for side in only], columns=["side", "kind"])
    table = pd.DataFrame(figures, columns=columns).assign(basis="same rounds")
    return Comparison("a", "b", [], table, lost)


def test_a_rate_is_held_to_its_limit_by_students_t():
    # A tenth slower is exp(-0.105); 0.8 lies 0.118 below that, 2.36 of its errors.
    limit = math.log(0.9)
    t = (math.log(0.8) - limit) / 0.05
    assert stats.t.cdf(t, 9) == pytest.approx(0.0215, abs=1e-4)
    assert len(gate(comparison(("rate", 0.8, 0.05, 9)), 0.1).slower) == 1
    # Of two figures Holm's method asks for half of 2.5 %.
    two = gate(comparison(("rate", 0.8, 0.05, 9), ("rate", 1.0, 0.02, 9)), 0.1)
    assert (len(two.slower), two.held, len(two.unsure)) == (0, 1, 1)
    assert two.unsure["reason"].tolist() == ["its error is too large"]
    # A time is slower where it is longer.
    times = gate(comparison(("time", 1.5, 0.05, 9), ("time", 0.5, 0.05, 9)), 0.1)
    assert (times.slower["ratio"].tolist(), times.held) == ([1.5], 1)


def test_what_has_no_error_and_what_is_gone_cannot_be_told():
    nan = float("nan")
    limit = gate(comparison(("rate", 0.1, nan, nan), only=["old", "new"]), 0.1)
    assert limit.unsure["reason"].tolist() == ["a single round has no error", "old has it only"]
    assert (limit.fails(strict=False), limit.fails(strict=True)) == (False, True)
    with pytest.raises(ResultError, match="no rate and no time"):
        gate(comparison(("size", 2.0, nan, nan)), 0.1)


def test_limits():
    for text, share in (("10%", 0.1), (" 2.5 % ", 0.025), ("0%", 0.0)):
        assert parse_limit(text) == pytest.approx(share)
    for text in ("10", "-5%", "100%", "a%", "", "1e1%", "nan%"):
        with pytest.raises(ResultError, match="expected a percentage"):
            parse_limit(text)


def test_old_and_new_are_levels_of_one_study(tmp_path):
    base = tmp_path / "base.yaml"
    base.write_text(STUDY, encoding="utf-8")
    out = tmp_path / "both.yaml"
    study = write_interleaved(str(base), "sqlite.cache_mib", ("2", "64"), out, tmp_path)
    assert load_study(out, root=tmp_path) == study
    found = [(trial.engine, trial.settings, trial.repeat) for trial in study.trials()]
    expected = [("sqlite", {"cache_mib": n}, r) for n in (2, 64) for r in range(1, 6)]
    assert sorted(found, key=str) == sorted(expected, key=str)
    # A factor of all engines leaves none out.
    both = write_interleaved(str(base), "threads", ("1", "4"), tmp_path / "t.yaml", tmp_path)
    assert len(both.trials()) == 20


@pytest.mark.parametrize(
    ("factor", "words"),
    [
        ("engine", "in the same rounds already"),
        ("sqlite.cahce_mib", "did you mean"),
        ("nowhere.a", "neither a phase nor an engine"),
    ],
)
def test_what_is_no_factor_leaves_no_file(tmp_path, factor, words):
    base, out = tmp_path / "base.yaml", tmp_path / "both.yaml"
    base.write_text(STUDY, encoding="utf-8")
    with pytest.raises(ConfigError, match=words):
        write_interleaved(str(base), factor, ("2", "64"), out, tmp_path)
    assert not out.exists()
    out.write_text("mine")
    with pytest.raises(ConfigError, match="exists already"):
        write_interleaved(str(base), "threads", ("1", "4"), out, tmp_path)
