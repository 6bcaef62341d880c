"""Faults of a session whose servers and workers are jobs of PBS, on stand-ins for it."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest
from support import kills
from support.kills import SOON, Cause, Run
from support.pbs.workspace import EDITED, LOCAL_ENDS, LOST_AFTER, PbsWorkspace
from support.waiting import wait_until

pytestmark = [pytest.mark.needs("postgres"), pytest.mark.xdist_group("kills")]

#: Without inputs, which would be jobs of their own (test_study.py has those). Thousands of
#: transactions, each on disk before the next.
STUDY = """\
workload: ycsb
engines: {postgres: {bulk: insert}}
retries: 0
factors: {workers: 2, nodes: 2}
phases:
  - load: {recordcount: 1000000, fieldcount: 1, batchsize: 1}
  - c: {seconds: 0.3}
"""


@pytest.fixture
def place(tmp_path: Path) -> Iterator[PbsWorkspace]:
    place = PbsWorkspace(tmp_path, {**EDITED, **LOCAL_ENDS})
    place.write_study(STUDY)
    yield place
    place.end()


def delete_node(place: PbsWorkspace, run: Run) -> None:
    subprocess.run(["qdel", place.job_of("data0")["id"]], env=place.environment, check=True)


def pass_wall_time(place: PbsWorkspace, run: Run) -> None:
    place.pbs.shorten(place.job_of("load.0")["id"])


def lose_worker_s_host(place: PbsWorkspace, run: Run) -> None:
    place.pbs.lose(place.job_of("load.1")["host"])


def lose_node_s_host(place: PbsWorkspace, run: Run) -> None:
    place.pbs.lose(place.job_of("data1")["host"])


def kill_job(place: PbsWorkspace, run: Run) -> None:
    """All that a job has but the guard of its server, which has a process session of its own."""
    for process in psutil.process_iter():
        try:
            if os.getsid(process.pid) == place.job_of("data0")["group"]:
                process.kill()
        except (psutil.NoSuchProcess, ProcessLookupError):
            continue


#: Whoever sees it first: the other jobs of the trial, or Snakemake.
ENDED = (
    r"data0: its job on host \S+ has ended without ending its server: was it killed\? PBS says: "
    r"|data0 was ended by a signal|data0 ended with exit status"
)
DELETED = r"data0 was ended by signal SIGTERM; PBS says: .*(was deleted|by a signal \(15, SIGTERM)"
#: Cause, and what the recorded reason must say (None: no failure of the trial). What becomes of a
#: killed server, node or worker alone is that of any session: tests/faults/workflow.
CELLS: list[tuple[Cause, str | None]] = [
    (lose_worker_s_host, r"load\.1 lost its host \S+: PBS reports it \S*down"),
]
FURTHER: list[tuple[Cause, str | None]] = [
    (kills.interrupt, None),
    (delete_node, DELETED),
    (pass_wall_time, r"load\.0 was ended by signal SIGTERM; PBS says: walltime \d+ exceeded limit"),
    # The clients see it first; why comes later.
    (lose_node_s_host, r"data1 lost its host \S+: PBS reports it \S*down"),
    (kill_job, ENDED),
    # Last: a killed run cleans up nothing, the plain run after it does.
    (kills.kill_snakemake, None),
]


def in_order(place: PbsWorkspace, node: str) -> bool:
    """Whether the last server of a node has stopped in order."""
    (path,) = place.results.glob(f"logs/*/{node}.server.log")
    _, _, last = path.read_text().rpartition("starting PostgreSQL")
    return "database system is shut down" in last


def strike(place: PbsWorkspace, cause: Cause, reason: str | None) -> None:
    """One run and its cause, from its start until nothing is left."""
    before = place.failures()
    place.plan_again()
    killed = cause is kills.kill_snakemake
    if killed:
        place.environment["STOREWISE_LEASE_SECONDS"] = f"{kills.LEASE:.0f}"
    run = place.start()

    def loading() -> bool:
        assert run.poll() is None, place.output()
        loaders = all(place.working(f"load.{worker}") for worker in (0, 1))
        return loaders and place.server("data1") is not None

    wait_until(loading, 150, "both loaders at work")
    cause(place, run)
    lost = cause in (lose_worker_s_host, lose_node_s_host)
    place.nothing_left(SOON + (LOST_AFTER if lost else 0))
    assert run.wait() != 0
    if lost:
        assert re.search(r"lost its host \S+: PBS reports it", place.output())
        place.pbs.bring_back()
    for log in place.results.glob("logs/*/load.?.log"):
        assert not log.read_text().rstrip().endswith("INFO done"), "the load had ended"
    if not killed:
        # A killed run leaves files for the next one; any other end cleans up by itself.
        assert place.left_behind() == []
        assert place.registered() == []
    new = place.failures()[len(before) :]
    message = re.findall(r"storewise: trial \S+ ended: (.*)", place.output())
    if reason is None:
        assert (new, message) == ([], [])
    else:
        (recorded,) = new
        assert re.search(reason, recorded)
        (line,) = message
        # Why comes behind it, where that is known later.
        assert recorded.startswith(line.removesuffix("."))
    if cause is delete_node:
        # Whatever the job itself said.
        assert place.job_of("data0")["exit"] == 271
    if cause in (kills.interrupt, delete_node):
        # SIGTERM was enough: neither PBS nor the guard had to kill anything.
        assert in_order(place, "data0")
        assert in_order(place, "data1")


@pytest.mark.long("a run for each kill, and one that goes on", limit=1500)
@pytest.mark.parametrize(
    "cells",
    [
        pytest.param(CELLS, id="a-lost-host"),
        pytest.param(FURTHER, id="further", marks=pytest.mark.all_cells),
    ],
)
def test_whatever_fails_nothing_is_left(
    place: PbsWorkspace, cells: list[tuple[Cause, str | None]]
) -> None:
    """One after another in one directory: each start also shows that nothing was in its way."""
    for cause, reason in cells:
        strike(place, cause, reason)
    place.goes_on()
    place.nothing_left(5)
    assert place.registered() == []
    assert place.jobs("data0")
    assert place.jobs("form") == place.jobs("close") == [], "the profile wants them here"
