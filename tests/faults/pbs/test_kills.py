"""Faults of a session whose servers and workers are jobs of PBS, on stand-ins or on a real one
(how: tests/support/pbs/real.py)."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from support import kills
from support.kills import SOON, Cause, Run
from support.pbs.real import ADMIN, WANTED
from support.pbs.standin import Pbs
from support.pbs.workspace import EDITED, LOCAL_ENDS, LOST_AFTER, PbsWorkspace
from support.slurm.on_host import ask
from support.waiting import wait_until

pytestmark = [pytest.mark.needs("postgres"), pytest.mark.xdist_group("kills")]

#: Without inputs, which would be jobs of their own (test_study.py has those). Thousands of
#: transactions, each on disk before the next.
STUDY = """\
workload: ycsb
engines: {postgres: {bulk: insert}}
factors: {workers: 2, nodes: 2}
phases:
  - load: {recordcount: 1000000, fieldcount: 1, batchsize: 1}
  - c: {seconds: 0.3}
"""

#: For nodes that ask for more wall time than other jobs.
LONG_SESSIONS = {
    "qstat -Qf).\n    runtime: 720\n": "qstat -Qf).\n    runtime: 1440\n",
}


@pytest.fixture
def place(tmp_path: Path) -> Iterator[PbsWorkspace]:
    place = PbsWorkspace(tmp_path, {**EDITED, **LOCAL_ENDS, **LONG_SESSIONS})
    place.write_study(STUDY)
    yield place
    place.end()


def delete(place: PbsWorkspace, member: str) -> None:
    subprocess.run(["qdel", place.job_of(member)["id"]], env=place.environment, check=True)


def delete_node(place: PbsWorkspace, run: Run) -> None:
    delete(place, "data0")


def delete_worker(place: PbsWorkspace, run: Run) -> None:
    delete(place, "load.1")


def pass_wall_time(place: PbsWorkspace, run: Run) -> None:
    place.pbs.shorten(place.job_of("load.0")["id"])


def lose_worker_s_host(place: PbsWorkspace, run: Run) -> None:
    place.pbs.lose(place.job_of("load.1")["host"])


def lose_node_s_host(place: PbsWorkspace, run: Run) -> None:
    place.pbs.lose(place.job_of("data1")["host"])


def kill_server(place: PbsWorkspace, run: Run) -> None:
    ask(place.host("data1"), "kill", str(place.server("data1")))


def kill_node(place: PbsWorkspace, run: Run) -> None:
    ask(place.host("data0"), "kill", str(place.members()["data0"]))


def kill_worker(place: PbsWorkspace, run: Run) -> None:
    ask(place.host("load.0"), "kill", str(place.members()["load.0"]))


def kill_job(place: PbsWorkspace, run: Run) -> None:
    """All that a job has but the guard of its server, which has a process session of its own."""
    ask(place.host("data0"), "kill_session", str(place.job_of("data0")["group"]))


#: Whoever sees it first: the other jobs of the trial, or Snakemake.
ENDED = (
    r"data0: its job on host \S+ has ended without ending its server: was it killed\? PBS says: "
    r"|data0 was ended by a signal|data0 ended with exit status"
)
#: What PBS says of a job that qdel has ended.
DELETED = (
    r"was deleted|it was ended by a signal \(15, SIGTERM\)|was ended by a signal \(15, SIGTERM\)"
)
#: Cause, and what the recorded reason must say (None: no failure of the trial).
CELLS: list[tuple[Cause, str | None]] = [
    (lose_worker_s_host, r"load\.1 lost its host \S+: PBS reports it \S*down"),
]
FURTHER: list[tuple[Cause, str | None]] = [
    (kills.interrupt, None),
    (delete_node, rf"data0 was ended by signal SIGTERM; PBS says: ({DELETED})"),
    (pass_wall_time, r"load\.0 was ended by signal SIGTERM; PBS says: walltime \d+ exceeded limit"),
    # The clients see it first; why comes later.
    (lose_node_s_host, r"data1 lost its host \S+: PBS reports it \S*down"),
    (kill_server, r"data1: the server of PostgreSQL on host \S+ was ended by SIGKILL"),
    (kill_node, r"data0 on host \S+ was ended by SIGKILL"),
    (kill_worker, r"load\.0 on host \S+ was ended by SIGKILL"),
    (kill_job, ENDED),
    (delete_worker, rf"load\.1 was ended by signal SIGTERM; PBS says: ({DELETED})"),
    (kills.terminate, None),
    # Last: a killed run cleans up nothing, the plain run after it does.
    (kills.kill_snakemake, None),
]
#: They need an administrator of a real PBS.
ADMINISTERED = (lose_worker_s_host, lose_node_s_host)


def reasons(place: PbsWorkspace) -> list[str]:
    """Recorded failures of the trial, oldest first."""
    return [
        json.loads(line)["reason"]
        for path in place.results.glob("failures/*.jsonl")
        for line in path.read_text().splitlines()
    ]


def in_order(place: PbsWorkspace, node: str) -> bool:
    """Whether the last server of a node has stopped in order."""
    (path,) = place.results.glob(f"logs/*/{node}.server.log")
    _, _, last = path.read_text().rpartition("starting PostgreSQL")
    return "database system is shut down" in last


def strike(place: PbsWorkspace, cause: Cause, reason: str | None) -> None:
    """One run and its cause, from its start until nothing is left."""
    before = reasons(place)
    killed = cause is kills.kill_snakemake
    if killed:
        place.environment["STOREWISE_LEASE_SECONDS"] = f"{kills.LEASE:.0f}"
    run = place.start()

    def loading() -> bool:
        assert run.poll() is None, place.output()
        loaders = all(place.working(f"load.{worker}") for worker in (0, 1))
        return loaders and place.server("data1") is not None

    # Where jobs wait in a queue of others, too.
    wait_until(loading, 600 if WANTED else 150, "both loaders at work")
    cause(place, run)
    lost = cause in ADMINISTERED
    seconds = place.nothing_left(SOON + (LOST_AFTER if lost else 0))
    print(f"{cause.__name__}: nothing is left after {seconds:.1f} s")
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
    new = reasons(place)[len(before) :]
    message = re.findall(r"storewise: trial \S+ ended: (.*)", place.output())
    if reason is None:
        assert (new, message) == ([], [])
    else:
        (recorded,) = new
        assert re.search(reason, recorded)
        (line,) = message
        # Why comes behind it, where that is known later.
        assert recorded.startswith(line.removesuffix("."))
    if cause is delete_node and not WANTED:
        # Whatever the job itself said.
        assert place.job_of("data0")["exit"] == 271
    if cause in (kills.interrupt, delete_node):
        # SIGTERM was enough: neither PBS nor the guard had to kill anything.
        assert in_order(place, "data0")
        assert in_order(place, "data1")


def refuse(place: PbsWorkspace) -> None:
    """A queue that allows less wall time than the profile asks for: qsub's words are the reason."""
    assert isinstance(place.pbs, Pbs)
    place.pbs.configure(replace(place.pbs.config, walltime=13 * 3600))
    assert place.snakemake().returncode != 0
    place.pbs.configure(replace(place.pbs.config, walltime=0))
    (reason,) = reasons(place)
    assert re.match(
        r"node was refused: PBS did not take \S+: qsub: Job violates queue and/or server resource "
        r"limits\. Asked: qsub .*; it asks for .*a wall time of 24:00:00; .*runtime",
        reason,
    )
    assert place.jobs("data0") == []
    place.nothing_left(SOON)
    assert place.left_behind() == []


@pytest.mark.long("a run for each kill, and one that goes on", limit=3600 if WANTED else 1500)
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
    if not WANTED:
        refuse(place)
    for cause, reason in cells:
        if cause in ADMINISTERED and WANTED and not ADMIN:
            continue
        strike(place, cause, reason)
    place.goes_on()
    place.nothing_left(5)
    assert place.registered() == []
    assert place.jobs("data0")
    assert place.jobs("form") == place.jobs("close") == [], "the profile wants them here"
