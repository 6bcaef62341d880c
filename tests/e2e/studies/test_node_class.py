"""The factor `node_class`: vertical scaling as classes of hosts that only the profile knows."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.workspace import Workspace

STUDY = """\
inputs: {{paths: data}}
engines: {engines}
factors: {{node_class: {levels}}}
phases: [write, read: {{operations: 10}}]
"""


@pytest.fixture
def place(tmp_path: Path) -> Workspace:
    place = Workspace(tmp_path)
    place.copy_inputs()
    place.write_study(STUDY.format(engines="[sqlite, postgres]", levels="[data, large]"))
    return place


def test_a_profile_that_does_not_know_a_class_is_refused_before_anything_starts(
    place: Workspace,
) -> None:
    done = place.snakemake()
    assert done.returncode != 0
    assert "is not one of the profile's; known in its resource node_classes: none" in done.stderr
    assert "docs/clusters.md" in done.stderr
    assert not list(place.results.glob("trials/*"))
    known = "node:node_classes='data=a, lagre=b/i4i.large'"
    done = place.snakemake("--set-resources", known)
    assert done.returncode != 0
    assert "node class 'large' is not one of the profile's (did you mean 'lagre'?)" in done.stderr
    done = place.snakemake("-n", "--set-resources", "node:node_classes='data'")
    assert done.returncode != 0
    assert "node_classes of the profile: 'data': cannot be read" in done.stdout + done.stderr
