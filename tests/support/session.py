"""A live trial without Snakemake."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from storewise.session.coordination.liveness import Session
from storewise.session.coordination.run import Run


def opened(results: Path, run: str, trial: str = "t", lease: float = 25.0) -> Session:
    directory = results / "live" / trial
    directory.mkdir(parents=True)
    session = Session(trial, run, lease, time.time())
    session.write(directory)
    return session


@pytest.fixture
def run(tmp_path: Path) -> Run:
    run = Run(tmp_path)
    run.start()
    return run
