"""A trial's jobs in one allocation: the `groups` line of profiles/slurm."""

from __future__ import annotations

import pytest
from support.paths import ROOT
from support.slurm.workspace import SlurmWorkspace

pytestmark = [pytest.mark.xdist_group("slurm"), pytest.mark.needs("postgres")]

STUDY = """\
workload: ycsb
engines: [sqlite, postgres]
repeats: 1
retries: 0
factors: {workers: 2}
phases:
  - load: {recordcount: 300}
  - c: {seconds: 0.3}
"""


@pytest.mark.long("a whole run", limit=600)
def test_the_jobs_of_a_group_run_together_in_one_allocation(place: SlurmWorkspace) -> None:
    place.write_study(STUDY)
    shipped = (ROOT / "profiles/slurm/config.yaml").read_text().splitlines()
    (line,) = [line for line in shipped if line.startswith("# groups:")]
    place.edit_profile("node")
    with (place.directory / "profile" / "config.yaml").open("a") as profile:
        profile.write(line.removeprefix("# ") + "\n")
    done = place.snakemake(timeout=400)
    assert done.returncode == 0, done.stdout + done.stderr
    place.verified(trials=2, documents=300)
    # Of each trial a job, of PostgreSQL's one more for its server, and the analysis.
    logs = (place.directory / ".snakemake" / "slurm_logs").glob("*/**/*.log")
    jobs = sorted(str(log.relative_to(place.directory).parts[2]) for log in logs)
    assert [job.startswith("group_trial") for job in jobs] == [True, True, False, False], jobs
