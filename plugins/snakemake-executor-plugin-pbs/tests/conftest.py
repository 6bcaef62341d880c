"""Tests stand alone, except that those of whole workflows need a PBS: a real one on PATH where
``SNAKEMAKE_PBS_REAL=1``, else the stand-in of the repository that this plugin lives in."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))
#: The tests of the repository around this plugin, where it is a part of one.
AROUND = HERE.parents[2] / "tests"
STAND_IN = AROUND / "support" / "pbs" / "standin.py"
REAL = os.environ.get("SNAKEMAKE_PBS_REAL") == "1"


@pytest.fixture
def pbs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """A PBS on PATH; its name."""
    if REAL:
        yield "real"
        return
    if not STAND_IN.exists():
        pytest.skip("no PBS: set SNAKEMAKE_PBS_REAL=1 where there is one")
    monkeypatch.syspath_prepend(str(AROUND))
    from support.pbs.standin import Config, Pbs

    commands = Pbs(tmp_path / "pbs").install(Config())
    monkeypatch.setenv("PATH", f"{commands}:{os.environ['PATH']}")
    yield "stand-in"
