"""Trials come in the order of the study's rounds where their jobs are Slurm's."""

from __future__ import annotations

import pytest
from support.slurm.workspace import SlurmWorkspace

from storewise.study.load import load_study

pytestmark = [pytest.mark.xdist_group("slurm"), pytest.mark.all_cells]

STUDY = """\
inputs: {paths: data}
engines: [sqlite]
factors: {workers: [1, 2]}
repeats: 2
phases: [write]
verify: 5
"""


@pytest.mark.long("four trials, each with jobs of its own", limit=900)
def test_trials_come_round_by_round(place: SlurmWorkspace) -> None:
    place.copy_inputs()
    place.write_study(STUDY)
    done = place.snakemake("--omit-from", "analyse", timeout=600)
    assert done.returncode == 0, done.stdout + done.stderr
    ends = place.results.glob("trials/*/verify.parquet")
    measured = [p.parent.name for p in sorted(ends, key=lambda p: p.stat().st_mtime_ns)]
    trials = load_study(place.directory / "s.yaml").trials()
    assert measured == [trial.id for trial in trials]
    assert [trial.repeat for trial in trials] == [1, 1, 2, 2]
