"""Faults of a session whose servers and workers are jobs of PBS, on stand-ins or on a real one
(how: tests/support/pbs/real.py)."""

from __future__ import annotations

import json
import os
import re
import subprocess
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from support.paths import SAMPLE
from support.pbs.real import WANTED
from support.pbs.standin import Pbs
from support.pbs.workspace import EDITED, LEASE, LOCAL_ENDS, PbsWorkspace
from support.slurm.on_host import ask
from support.waiting import wait_until
from support.workspace import interrupt_group

#: Seconds, of the contract: after the cause is visible to a job; after SIGKILL of Snakemake.
SOON, AFTER_LEASE = 60.0, LEASE + 60.0
STUDY = """\
inputs: {{paths: data}}
engines: {{postgres: {settings}}}
factors: {{workers: 2, nodes: 2}}
phases:
  - write: {{batch_size: {batch}}}
  - read: {{seconds: 0.3}}
verify: 50
"""
#: A load of thousands of transactions, each on disk before the next.
LONG = STUDY.format(settings="{bulk: insert}", batch=1)
SHORT = STUDY.format(settings="{}", batch=1000)

#: For nodes that ask for more wall time than other jobs.
LONG_SESSIONS = {"session_walltime: 720": "session_walltime: 1440"}

Run = subprocess.Popen[str]


@pytest.fixture
def place(tmp_path: Path) -> Iterator[PbsWorkspace]:
    place = PbsWorkspace(tmp_path, {**EDITED, **LOCAL_ENDS, **LONG_SESSIONS})
    place.copy_inputs(sorted(SAMPLE.glob("*.m10.*")))
    yield place
    place.end()


def interrupt(place: PbsWorkspace, run: Run) -> None:
    interrupt_group(run)


def delete_node(place: PbsWorkspace, run: Run) -> None:
    job = place.node_job("data0")["id"]
    subprocess.run(["qdel", job], env=place.environment, check=True)


def kill_server(place: PbsWorkspace, run: Run) -> None:
    ask(place.host("data1"), "kill", str(place.server("data1")))


def kill_snakemake(place: PbsWorkspace, run: Run) -> None:
    run.kill()


def kill_node(place: PbsWorkspace, run: Run) -> None:
    ask(place.host("data0"), "kill", str(place.members()["data0"]))


def kill_job(place: PbsWorkspace, run: Run) -> None:
    """All that a job has but the guard of its server, which has a process session of its own."""
    ask(place.host("data0"), "kill_session", str(place.node_job("data0")["group"]))


Cause = Callable[[PbsWorkspace, Run], None]
ENDED = r"data0: its job on host \S+ has ended without ending its server"
#: Cause, and what the recorded reason must say (None: no failure of the trial).
CELLS: list[tuple[Cause, str | None]] = [
    (interrupt, None),
    (delete_node, r"data0 was ended by signal SIGTERM"),
    (kill_server, r"data1: the server of PostgreSQL on host \S+ was ended by SIGKILL"),
]
FURTHER: list[tuple[Cause, str | None]] = [
    (kill_snakemake, None),
    (kill_node, r"data0 on host \S+ was ended by SIGKILL"),
    (kill_job, ENDED),
]
if os.environ.get("STOREWISE_ALL_CELLS") == "1":
    CELLS += FURTHER


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
    place.write_study(LONG)
    run = place.start()

    def writing() -> bool:
        assert run.poll() is None, place.output()
        writers = all(place.working(f"write.{worker}") for worker in (0, 1))
        return writers and place.server("data1") is not None

    # Where jobs wait in a queue of others, too.
    wait_until(writing, 600 if WANTED else 150, "both writers at work")
    killed = cause is kill_snakemake
    cause(place, run)
    if killed:
        run.wait()
    seconds = place.nothing_left(AFTER_LEASE if killed else SOON)
    print(f"{cause.__name__}: nothing left after {seconds:.1f} s")
    assert run.wait() != 0
    for log in place.results.glob("logs/*/write.?.log"):
        assert not log.read_text().rstrip().endswith("INFO done"), "the load had ended"
    if not killed:
        # A killed run leaves files for the next one; any other end cleans up by itself.
        assert place.left_behind() == []
        assert place.registered() == []
    new = reasons(place)[len(before) :]
    told = re.findall(r"storewise: trial \S+ ended: (.*)", place.output())
    if reason is None:
        assert (new, told) == ([], [])
    else:
        (recorded,) = new
        assert re.search(reason, recorded)
        assert [recorded.splitlines()[0]] == told
    if cause is delete_node and not WANTED:
        # Whatever the job itself said.
        assert place.node_job("data0")["exit"] == 271
    if cause in (interrupt, delete_node):
        # SIGTERM was enough: neither PBS nor the guard had to kill anything.
        assert in_order(place, "data0")
        assert in_order(place, "data1")


def refuse(place: PbsWorkspace) -> None:
    """A queue that allows less wall time than the profile asks for: qsub's words are the reason."""
    assert isinstance(place.pbs, Pbs)
    place.pbs.configure(replace(place.pbs.config, walltime=13 * 3600))
    place.write_study(LONG)
    assert place.snakemake().returncode != 0
    place.pbs.configure(replace(place.pbs.config, walltime=0))
    (reason,) = reasons(place)
    assert re.match(
        r"node was refused: PBS did not take node-\S+: qsub: Job violates queue and/or server "
        r"resource limits\. Asked: qsub .*; it asks for a wall time of 24:00:00.*session_walltime",
        reason,
    )
    assert place.jobs("node") == []
    place.nothing_left(SOON)
    assert place.left_behind() == []


@pytest.mark.timeout(3600 if WANTED else 1500)
def test_whatever_fails_nothing_is_left(place: PbsWorkspace) -> None:
    """One after another in one directory: each start also shows that nothing was in its way."""
    if not WANTED:
        refuse(place)
    for cause, reason in CELLS:
        strike(place, cause, reason)
    place.write_study(SHORT)
    done = place.snakemake("--omit-from", "analyse", timeout=900)
    assert done.returncode == 0, done.stdout + done.stderr
    counts = place.counts()
    assert len(counts) == 1
    assert set(counts.values()) == {(place.documents(), place.documents())}
    place.nothing_left(5)
    assert place.left_behind() == []
    assert place.registered() == []
    assert place.jobs("node")
    assert place.jobs("form") == place.jobs("close") == [], "the profile wants them here"
