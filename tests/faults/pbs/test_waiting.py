"""A PBS that lets a run wait: a stopped queue, a server that does not answer; on stand-ins or on a
real one (how: tests/support/pbs/real.py)."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from support.pbs.real import ADMIN, WANTED
from support.pbs.workspace import PbsWorkspace
from support.waiting import exit_code, wait_until

pytestmark = [
    pytest.mark.xdist_group("kills"),
    pytest.mark.all_cells,
    pytest.mark.skipif(WANTED and not ADMIN, reason="STOREWISE_PBS_ADMIN is not set"),
]

STUDY = """\
workload: ycsb
engines: [sqlite]
factors: {workers: 2}
phases:
  - load: {recordcount: 20}
  - c: {seconds: 1}
"""


@pytest.fixture
def place(tmp_path: Path) -> Iterator[PbsWorkspace]:
    place = PbsWorkspace(tmp_path)
    place.write_study(STUDY)
    yield place
    place.pbs.stop_server(False)
    place.pbs.stop_queue(False)
    place.end()


@pytest.mark.long(
    "PBS starts nothing and then says nothing, until the plugin asks again", limit=1500
)
def test_a_stopped_queue_and_a_silent_server_cost_only_time(place: PbsWorkspace) -> None:
    """`storewise run` says what it waits for, no job is lost, and the run ends well."""
    place.pbs.stop_queue(True)
    profile = ("--profile", str(place.top / "profile"))
    run = place.start(place.storewise_command("run", f"{place.study}.yaml", *profile))

    def says(*words: str) -> bool:
        assert run.poll() is None, place.output()
        return all(word in place.output() for word in words)

    # The plugin is in no hurry to complain of a queue.
    wait_until(
        lambda: says("storewise: PBS job ", "waits: Not Running: Queue not star"), 120, "why"
    )
    assert len(place.jobs("load", states="Q")) == 2
    place.pbs.stop_server(True)
    wait_until(lambda: says("PBS does not answer (", "No job is lost by it."), 120, "silence")
    place.pbs.stop_server(False)
    wait_until(lambda: says("PBS answers again."), 180, "an answer")
    place.pbs.stop_queue(False)
    assert exit_code(run, 600) == 0, place.output()
    assert place.jobs("load") and place.pbs.alive() == []
    assert len(place.jobs("load")) == len(place.jobs("c")) == 2, "nothing was submitted twice"
    assert place.registered() == []
    assert place.left_behind() == []
