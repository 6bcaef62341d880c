"""Slowed and killed nodes in a study: what is refused; outages as clients see them."""

from __future__ import annotations

from pathlib import Path

import pytest

from storewise.driver.step_faults import marked
from storewise.errors import ConfigError, EngineError
from storewise.metrics.outages import BIN, common, longest, merged, outages
from storewise.metrics.recorder import NS
from storewise.study.load import load_study
from storewise.workloads.contract import Operation

STUDY = """\
workload: ycsb
engines: [{engine}]
factors: {{nodes: [2], workers: [2]}}
phases:
  - load: {{recordcount: 500, fieldcount: 2, fieldlength: 20}}
  - {phase}
"""


@pytest.mark.parametrize(
    ("engine", "phase", "words"),
    [
        ("sqlite", "a: {seconds: 1, slow: {how: cpu}}", "engine has no nodes that could be"),
        ("sqlite", "a: {seconds: 1, crash: {after: 1}}", "engine has no nodes that could be"),
        ("postgres", "a: {seconds: 1, slow: {how: cpu, nodes: 3}}", "nodes is 3, and the trial"),
        ("postgres", "a: {seconds: 1, crash: {node: data5, after: 1}}", "no node 'data5'"),
        ("postgres", "a: {seconds: 1, slow: {how: cpu, file_mb: 3}}", "belongs to `how: disk`"),
        ("postgres", "a: {seconds: 1, steps: [{crash: {after: -1}}]}", "0 or more seconds"),
    ],
)
def test_what_cannot_be_is_refused(engine: str, phase: str, words: str, tmp_path: Path) -> None:
    text = STUDY.format(engine=engine, phase=phase)
    if engine == "sqlite":
        text = text.replace("nodes: [2], ", "")
    (tmp_path / "s.yaml").write_text(text)
    with pytest.raises(ConfigError, match=words):
        load_study(tmp_path / "s.yaml")


def test_a_load_is_not_crashed(tmp_path: Path) -> None:
    text = STUDY.format(engine="postgres", phase="a: {seconds: 1}")
    text = text.replace("fieldlength: 20", "fieldlength: 20, crash: {after: 0.1}")
    (tmp_path / "s.yaml").write_text(text)
    with pytest.raises(ConfigError, match="a loading phase has no `crash`"):
        load_study(tmp_path / "s.yaml")


def test_the_null_engine_runs_such_a_step(tmp_path: Path) -> None:
    text = STUDY.format(engine="'null', postgres", phase="a: {seconds: 1, crash: {after: 0.1}}")
    (tmp_path / "s.yaml").write_text(text)
    assert {trial.engine for trial in load_study(tmp_path / "s.yaml").trials()} == {
        "null",
        "postgres",
    }


def test_successes_are_marked_by_owner_and_failures_are_not() -> None:
    def fails() -> int:
        raise EngineError("gone")

    marks: dict[str, set[int]] = {}
    values = [
        Operation("get", lambda: 3, owner="data0"),
        Operation("get", fails, owner="data1"),
        Operation("get", lambda: 1),
    ]
    first, second, third = marked(values, marks)
    assert first.call() == 3
    with pytest.raises(EngineError):
        second.call()
    assert marks["data1"] == set()
    assert len(marks["data0"]) == 1
    third.call()
    assert marks[""] >= marks["data0"]


def test_outages_are_what_no_client_and_no_worker_could_do() -> None:
    def at(*seconds: float) -> set[int]:
        return {round(s * NS) // BIN for s in seconds}

    def steady(start: float, end: float) -> set[int]:
        return at(*(start + 0.02 * k for k in range(round((end - start) / 0.02))))

    one = {"": steady(0, 1) | steady(2, 4), "data0": steady(0, 1) | steady(2, 4), "data1": set()}
    other = {"": steady(0, 1.5) | steady(2, 4)}
    result = outages(merged([one, other]), 0, 4 * NS)
    ((start, end),) = result[""]
    assert (start, end) == (pytest.approx(1.485, abs=0.02), pytest.approx(2.0, abs=0.01))
    assert longest(result["data0"]) == pytest.approx(1.0, abs=0.03)
    assert result["data1"] == [(0.0, 4.0)]
    assert longest(result[""], after=3.0) == 0.0
    assert common([[(1.0, 3.0)], [(0.0, 1.5), (2.0, 2.5)]]) == [(1.0, 1.5), (2.0, 2.5)]
    assert common([]) == []
