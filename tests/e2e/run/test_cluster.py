"""The simulation of a large trial, `benchmarks/cluster.py`, with few workers."""

import json
import os
import subprocess
import sys

import pytest
from support.paths import ROOT

WORKERS, NODES = 40, 14

pytestmark = pytest.mark.slow


def simulate(directory, *options):
    figures = directory / "figures.json"
    command = [sys.executable, str(ROOT / "benchmarks" / "cluster.py")]
    command += ["--workers", str(WORKERS), "--nodes", str(NODES), "--job-seconds", "0"]
    command += ["--qsub-seconds", "0", "--directory", str(directory), "--json", str(figures)]
    done = subprocess.run([*command, *options], capture_output=True, text=True, env={**os.environ})
    assert done.returncode == 0, done.stdout + done.stderr
    return dict(json.loads(figures.read_text()))


@pytest.mark.parametrize(
    ("options", "qsub", "phase_jobs"),
    [
        pytest.param(
            (), 2 * WORKERS + NODES, 2 * WORKERS, id="a job each", marks=pytest.mark.all_cells
        ),
        pytest.param(("--arrays", "--per-job", "10"), 3, 8, id="arrays of shared jobs"),
    ],
)
def test_all_stages_of_a_trial_with_many_workers(tmp_path, options, qsub, phase_jobs):
    figures = simulate(tmp_path, *options)
    others = len(("form", "verify", "close", "analyse", "report"))
    assert figures["qsub"] == qsub + others
    assert figures["jobs"] == phase_jobs + NODES + others
    assert all(seconds >= 0 for seconds in figures["seconds"].values()), figures["seconds"]
    trials = tmp_path / "results" / "cluster" / "trials"
    for phase in ("load", "c"):
        assert len(list(trials.glob(f"*/{phase}.*.parquet"))) == WORKERS
    assert (tmp_path / "results" / "cluster" / "report.html").exists()
