"""Results that were damaged on disk: never another figure in silence, each told by its file."""

import re

import numpy as np
import pytest
from support.results import synthetic

from storewise.analysis.files.parts import trial_files
from storewise.analysis.pipeline.build import measured_tables
from storewise.analysis.pipeline.load import load_results
from storewise.errors import ResultError
from storewise.layout import PACK
from storewise.metrics.hdr import Interval, Tag, merge_all, new_histogram, tags, write_log
from storewise.metrics.pack import Pack, read_pack, write_pack
from storewise.publish.results import run_of
from storewise.session.coordination.run_record import begin


def changed(content, at, bit):
    return content[:at] + bytes([content[at] ^ 1 << bit]) + content[at + 1 :]


@pytest.fixture
def log(tmp_path):
    result = []
    for second in range(3):
        histogram = new_histogram()
        for value in (1000, 20_000, 300_000 + second):
            histogram.record_value(value)
        result.append(Interval(Tag("get", "service_time"), float(second), 1.0, histogram))
    write_log(tmp_path / "read.0.hlog", 1_700_000_000.0, result)
    return tmp_path / "read.0.hlog"


def test_no_byte_and_no_end_of_a_log_change_unnoticed(log):
    content = log.read_bytes()
    for at in range(0, len(content), 2):
        log.write_bytes(changed(content, at, at % 7))
        with pytest.raises(ResultError, match=re.escape(str(log))):
            merge_all([log], lambda tag: True)
    for length in range(content.index(b"\n#[StartTime") + 1, len(content), 2):
        log.write_bytes(content[:length])
        with pytest.raises(ResultError, match=r"read\.0\.hlog: the log was cut short"):
            tags(log)
    log.write_bytes(content + b"#[more]\n")
    with pytest.raises(ResultError, match="cut short or changed"):
        merge_all([log], lambda tag: True)


def packed(trial):
    parts = [name for name in trial_files(trial).parts if not name.startswith("verify")]
    assert write_pack([trial / name for name in parts]) == trial / PACK
    return trial, parts, [one.name for one in trial_files(trial).logs]


def test_a_damaged_pack_is_an_error_or_the_same(tmp_path):
    synthetic.make_study(tmp_path, engines=["sqlite"], workers=[1], repeats=1)
    trial, parts, logs = packed(next((tmp_path / "trials").iterdir()))
    content = (trial / PACK).read_bytes()
    whole = read_pack(trial, parts, logs)
    assert isinstance(whole, Pack)
    generator = np.random.default_rng(5)
    places = generator.integers(0, len(content), 150).tolist()
    damaged = [changed(content, at, at % 8) for at in places]
    for one in [*damaged, *(content[:at] for at in places[:30]), b""]:
        (trial / PACK).write_bytes(one)
        try:
            result = read_pack(trial, parts, logs)
        except ResultError as error:
            assert str(trial / PACK) in str(error)
            continue
        if result is not None:  # None is one of another version
            assert result.rows.equals(whole.rows)
            assert (result.conditions, result.totals) == (whole.conditions, whole.totals)


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
        packed(trial)
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
