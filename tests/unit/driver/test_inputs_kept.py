"""The inputs count as files of an engine that answers from them, once in a trial."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from storewise.driver import embedded_stores
from storewise.driver.embedded_stores import inputs_kept
from storewise.driver.worker_job import WorkerJob
from storewise.engines.contract.engine import SourceFile
from storewise.metrics.inodes import Inodes
from storewise.study.trial import Trial


def job(engine: str, paths: list[str], monkeypatch: pytest.MonkeyPatch) -> WorkerJob:
    class Alignments:
        @staticmethod
        def sources(*given: Any) -> tuple[SourceFile, ...]:
            return tuple(SourceFile(path, 1, b"", (), 0) for path in paths)

    monkeypatch.setattr(embedded_stores, "workload", lambda name: Alignments)
    trial = Trial(
        study="s",
        id="t",
        engine=engine,
        workload="alignments",
        repeat=1,
        seed=1,
        factors={"engine": engine},
        phases=[],
    )
    nowhere = Path("nowhere")
    return WorkerJob(
        trial=trial,
        phase="write",
        worker=0,
        shards=nowhere,
        live=nowhere,
        result=nowhere,
        hdr_log=nowhere,
    )


def test_the_first_worker_counts_all_inputs(monkeypatch: pytest.MonkeyPatch) -> None:
    first = job("files", ["in/a/1", "in/b/2", "in/b/3"], monkeypatch)
    assert inputs_kept(first) == Inodes(3, 3)
    assert inputs_kept(replace(first, worker=1)) == Inodes()


def test_stores_do_not_need_their_inputs(monkeypatch: pytest.MonkeyPatch) -> None:
    assert inputs_kept(job("sqlite", ["in/a"], monkeypatch)) == Inodes()


@pytest.mark.parametrize("worker", [0, 1])
def test_objects_on_s3_are_no_files(monkeypatch: pytest.MonkeyPatch, worker: int) -> None:
    mixed = job("files", ["in/a", "s3://bucket/b"], monkeypatch)
    assert inputs_kept(replace(mixed, worker=worker)) is None
