"""Studies whose names are at the edges of what is allowed, through a run with a killed job."""

import json
import os
import re
import signal

import pytest
from support.paths import ROOT
from support.waiting import wait_until
from support.workspace import Workspace

STUDY = """\
workload: ycsb
engines: [sqlite]
phases:
  - load: {recordcount: 500}
  - c: {seconds: 2}
"""


@pytest.mark.parametrize("name", ["1e3", "é+b=2@c.d-_"])
def test_a_trial_of_any_study_is_ended_and_tried_again(tmp_path, name):
    """Called by its name, as a study of the checkout. Snakemake would read 1e3 as a number."""
    place = Workspace(tmp_path, name)
    for part in ROOT.iterdir():
        if part.name not in {"config", "results"} and not part.name.startswith("."):
            (tmp_path / part.name).symlink_to(part)
    (tmp_path / "config" / "studies").mkdir(parents=True)
    (tmp_path / "config" / "prices.yaml").symlink_to(ROOT / "config" / "prices.yaml")
    (tmp_path / "config" / "studies" / f"{name}.yaml").write_text(STUDY)
    run = place.start(place.storewise_command("run", name))

    def at_work():
        assert run.poll() is None, place.output()
        return place.working("c.0")

    os.kill(wait_until(at_work, 120, "the worker"), signal.SIGKILL)
    assert run.wait(300) == 0, place.output()
    (attempts,) = place.results.glob("failures/*.jsonl")
    (attempt,) = map(json.loads, attempts.read_text().splitlines())
    assert re.match(r"c\.0 on host \S+ was ended by SIGKILL", attempt["reason"])
    (trial,) = place.results.glob("trials/*")
    assert f"trial {trial.name} is tried again; its logs: results/{name}/logs" in place.output()
    assert (place.results / "report.html").exists()
    assert place.left_behind() == []
