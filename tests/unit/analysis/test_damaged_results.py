"""Results that were damaged on disk: never another figure in silence, each told by its file."""

import numpy as np
import pandas as pd
import pytest
from support.results import synthetic
from support.results.pages import fail

from storewise.analysis.files.runs import FailedAttempt, read_attempts
from storewise.analysis.pipeline.build import measured_tables
from storewise.analysis.pipeline.load import load_results
from storewise.analysis.pipeline.output import write_csv
from storewise.errors import ResultError
from storewise.layout import PACK
from storewise.metrics.pack import write_pack
from storewise.publish.results import run_of
from storewise.session.coordination.run_record import begin


def test_brackets_without_end_are_told_with_their_file(tmp_path):
    """Results may have been pulled; Python counts how deep it reads."""
    synthetic.make_study(tmp_path, engines=["sqlite"], workers=[1], repeats=1)
    for name in ("study.json", "run.json", "left_out.json", "trials/t/failed.json"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("[" * 100_000)
    (tmp_path / "failures").mkdir()
    (tmp_path / "failures" / "t.jsonl").write_text("[" * 100_000 + "\n")
    warnings = load_results(tmp_path).warnings
    assert "no_study" in {one.code for one in warnings}
    assert any("failed.json is not readable" in one.message for one in warnings)


def test_what_was_cut_short_is_told_with_its_file(tmp_path):
    synthetic.make_study(tmp_path, engines=["sqlite", "duckdb"], workers=[1], repeats=1)
    begin(tmp_path, "r1", {}, (), 1)
    assert run_of(tmp_path).id == "r1"
    logged, packed_ = sorted((tmp_path / "trials").iterdir())  # duckdb, sqlite
    for trial in (logged, packed_):
        assert write_pack(sorted(trial.glob("*.*.parquet"))) == trial / PACK
    cut = {
        "no_study": (tmp_path / "study.json", "", "cut short or changed"),
        "unreadable_log": (logged / "read.0.hlog", logged.name, "the log was cut short or changed"),
    }
    for path in (tmp_path / "run.json", packed_ / PACK, *(path for path, *_ in cut.values())):
        path.write_bytes(path.read_bytes()[:-20])
    tables = measured_tables(load_results(tmp_path))
    for code, (path, trial_name, words) in cut.items():
        (message,) = [warning for warning in tables.warnings if warning.code == code]
        assert message.trial == trial_name
        assert f"{path}: {words}" in message.message
    # A pack is a copy, a log is not.
    phases = tables.latency.groupby("trial")["phase"].unique().apply(set).to_dict()
    assert phases == {packed_.name: {"write", "read"}, logged.name: {"write"}}
    # A publication does not guess the run.
    with pytest.raises(ResultError, match=r"run\.json: the record of the last run"):
        run_of(tmp_path)


def test_attempts_are_read_by_trial_and_broken_lines_passed_over(tmp_path):
    assert read_attempts(tmp_path, {"a"}) == []
    fail(tmp_path, "a", "first", "second", broken='{"trial": "a", "rea\n[]\n{"at": "x"}\n')
    fail(tmp_path, "given-up", "never measured")
    fail(tmp_path, "b", "spot")
    result = read_attempts(tmp_path, {"a", "b"})
    assert result == [
        FailedAttempt("a", 1_772_353_320.0, "first", "tail 0"),
        FailedAttempt("a", 1_772_353_321.0, "second", "tail 1"),
        FailedAttempt("b", 1_772_353_320.0, "spot", "tail 0"),
    ]
    assert result[0].when == "2026-03-01 08:22:00 UTC"


def test_cells_are_written_as_pandas_does(tmp_path):
    rng = np.random.default_rng(5)
    n = 400
    numbers = rng.random(n) * 10.0 ** rng.integers(-12, 14, n)
    numbers[:6] = [np.nan, np.inf, -np.inf, 0.0, -0.0, 1e9]
    texts = ["a", "", "x,y", 'q"', "line\nend", " blank ", "null", "é"]
    columns = {
        "text": rng.choice(texts, n),
        "level": pd.Categorical(rng.choice(["one", "two"], n)),
        "maybe": pd.Series(rng.choice(np.array([None, "u"], dtype=object), n)),
        "flag": rng.random(n) < 0.5,
        "whole": rng.integers(-5, 5, n),
        "second": rng.integers(0, 100, n).astype(float),
        "mixed": pd.Series(rng.choice(np.array([None, 1, 2.5, True, "u"], dtype=object), n)),
        "nothing": pd.Series([None] * n, dtype=object),
    }
    table = pd.DataFrame(columns).assign(number=numbers)
    write_csv(table, tmp_path / "long.csv")
    text = table.to_csv(index=False, float_format="%.9g", lineterminator="\n")
    (written,) = tmp_path.iterdir()
    assert written.read_bytes() == text.encode()
    with pytest.raises(OSError, match="no-such"):
        write_csv(table, tmp_path / "no-such" / "long.csv")
