"""Slurm itself: what it refuses, what reaches its hosts, runs that are stopped or killed."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from support.paths import ROOT
from support.slurm.view import SlurmCluster
from support.slurm.workspace import SOON, SlurmWorkspace

pytestmark = pytest.mark.xdist_group("slurm")

#: Its first job is the load.
STUDY = """\
workload: ycsb
engines: [sqlite]
retries: 0
phases:
  - load: {recordcount: 20}
  - c: {seconds: 0.3}
"""


@pytest.mark.all_cells
@pytest.mark.long("three runs, of which two look three times at a job that only waits", limit=700)
def test_what_slurm_cannot_give_is_one_clear_sentence(place: SlurmWorkspace) -> None:
    place.write_study(STUDY)
    # sbatch refuses.
    refused = place.snakemake("--set-resources", "load:slurm_partition=nowhere", timeout=300)
    assert refused.returncode != 0
    assert "load was refused: sbatch: error: invalid partition" in refused.stderr
    assert place.failures()[-1].startswith("load was refused: sbatch")
    # sbatch accepts, but the job could only wait: for longer than the partition allows, ...
    place.plan_again()
    waits = place.snakemake("--set-resources", "load:slurm_partition=short", timeout=200)
    assert waits.returncode != 0
    assert "Slurm would never start job" in waits.stderr
    assert "PartitionTimeLimit. Change runtime and slurm_partition of `load`" in waits.stderr
    # ... or for more processors than a host has.
    place.plan_again()
    waits = place.snakemake("--set-threads", "load=999", timeout=200)
    assert waits.returncode != 0
    assert "PartitionConfig. Change threads, mem_mb and slurm_partition" in waits.stderr
    assert "Slurm would never start job" in place.failures()[-1]
    place.nothing_left(SOON)


def test_a_profile_s_texts_arrive_on_the_host(
    place: SlurmWorkspace, tmp_path: Path, slurm: SlurmCluster
) -> None:
    """Two pairs of quotes keep a text from being read as an expression; $NAME is the host's."""
    (tmp_path / "Snakefile").write_text(
        "rule node:\n"
        "    output: 'out.json'\n"
        "    resources: scratch='', interface='lo', ports='', mem_mb=100, runtime=5\n"
        "    script: 'show.py'\n"
    )
    (tmp_path / "show.py").write_text(
        "import json, socket\n"
        "from pathlib import Path\n"
        "from storewise.session.server.address import address_of\n"
        "shown = {n: str(snakemake.resources[n]) for n in ('scratch', 'interface', 'ports')}\n"
        "shown['host'] = socket.gethostname()\n"
        "shown['address'] = address_of(shown['interface'])\n"
        "Path(snakemake.output[0]).write_text(json.dumps(shown))\n"
    )
    profile = tmp_path / "profile"
    profile.mkdir()
    text = (ROOT / "profiles" / "slurm" / "config.yaml").read_text()
    for old, new in (
        ("scratch: \"''\"", "scratch: \"'/local/$SLURM_JOB_ID/$USER'\""),
        ("ports: \"''\"", "ports: \"'20000-20010'\""),
    ):
        assert old in text
        text = text.replace(old, new)
    (profile / "config.yaml").write_text(text)
    command = [*place.command(snakefile=tmp_path / "Snakefile")]
    command[command.index("--profile") + 1] = str(profile)
    environment = slurm.environment(USER="somebody", PYTHONPATH=str(ROOT))
    done = place.run(command, env=environment, timeout=200)
    assert done.returncode == 0, done.stdout + done.stderr
    shown = json.loads((tmp_path / "out.json").read_text())
    (job,) = [j for j in slurm.jobs("node", ended=True) if f"/{j.id}/" in shown["scratch"]]
    assert shown["scratch"] == f"/local/{job.id}/somebody"
    assert shown["ports"] == "20000-20010"
    assert shown["host"] == job.host
    assert shown["address"] == slurm.address(job.host)
