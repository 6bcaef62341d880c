"""Trials of embedded stores: whatever is killed, nothing is left and the next plain run goes on."""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket

import pytest
from support import kills
from support.kills import SOON, Cause, Run, cells
from support.waiting import wait_until
from support.workspace import Workspace, interrupt_group

pytestmark = pytest.mark.xdist_group("kills")

#: Nothing to be listed and digested before: the phase that is killed begins at once.
STUDY = """\
workload: ycsb
engines: [{engine}]
retries: 0
factors: {{workers: 2}}
phases:
  - load: {{recordcount: {records}, fieldcount: 1, batchsize: 1}}
  - c: {{seconds: {seconds}, target: 20}}
"""
#: Phases that last until they are ended. Each record becomes a Parquet file of its own.
LONG = {"load": (1_000_000, 0.3), "c": (20, 600)}


def begin(
    place: Workspace, phase: str, engine: str = "parquet", command: list[str] | None = None
) -> Run:
    """Start a run and wait until worker 1 of `phase` is at work."""
    records, seconds = LONG[phase]
    place.write_study(STUDY.format(engine=engine, records=records, seconds=seconds))
    run = place.start(command)
    place.await_worker(run, f"{phase}.1")
    return run


def worker(place: Workspace) -> int:
    (pid,) = (pid for name, pid in place.members().items() if name.endswith(".1"))
    return pid


def kill_worker(place: Workspace, run: Run) -> None:
    os.kill(worker(place), signal.SIGKILL)


HOST = socket.gethostname()
KILLED = f"c.1 on host {HOST} was ended by SIGKILL"


#: Cause, phase, and what the recorded reason must say (None: no failure of the trial).
@pytest.mark.parametrize(
    ("cause", "phase", "reason"),
    cells(
        slow=[
            (kill_worker, "c", f"{KILLED}, which the kernel did not"),
            (kills.terminate, "load", None),
        ],
        all_cells=[
            (kills.kill_snakemake, "c", None),
            (kills.hang_up, "c", None),
            (kills.interrupt, "c", None),
        ],
    ),
)
def test_nothing_is_left_and_the_next_run_goes_on(
    place: Workspace,
    monkeypatch: pytest.MonkeyPatch,
    cause: Cause,
    phase: str,
    reason: str | None,
) -> None:
    kills.ends_a_phase(place, begin, cause, phase, monkeypatch)
    failures = list(place.results.glob("failures/*.jsonl"))
    if reason is None:
        assert failures == [], "stopping a run is not a trial's failure"
    else:
        assert reason in failures[0].read_text()
        assert place.failures_told() == 1, "the first reason, once"
    place.goes_on()


@pytest.mark.long("ten Snakemakes beside one that measures", limit=600)
def test_others_do_not_disturb_a_live_trial_and_a_second_run_is_refused(place: Workspace) -> None:
    run = begin(place, "c")
    (lease,) = place.results.glob("leases/*")
    assert json.loads((place.results / "study.json").read_text())["engines"] == {"parquet": {}}

    def undisturbed() -> bool:
        return [lease] == list(place.results.glob("leases/*")) and bool(place.working("c.1"))

    # As in another container with the same host name, which sees none of our processes.
    elsewhere = ["unshare", "--pid", "--fork", "--mount-proc", "--kill-child"]
    for arguments in (["-n"], ["report"], ["no_such_target"]):
        for before in ([], elsewhere if os.geteuid() == 0 else []):
            place.run([*before, *place.command(*arguments)])
            assert undisturbed(), arguments
    for second in (
        place.run([*elsewhere, *place.command()]) if os.geteuid() == 0 else place.snakemake(),
        place.storewise("run", "s.yaml"),
        place.snakemake(),
        # As where a run of another study has ended here: Snakemake then removes all locks.
        place.snakemake("--nolock"),
    ):
        assert second.returncode != 0
        message = second.stdout + second.stderr
        where = f"by process {run.pid} on host {HOST} since 20"
        assert message.count(f"study s is measured here already, {where}") == 1
        assert "--unlock" not in message
        assert undisturbed()
    interrupt_group(run)
    place.gone(SOON)
    assert place.left_behind() == []


def test_a_second_run_of_results_that_were_removed_is_told_who_is_there(place: Workspace) -> None:
    run = begin(place, "c")
    run.send_signal(signal.SIGSTOP)  # else it ends soon

    def removed() -> bool:
        # Its jobs may write meanwhile.
        shutil.rmtree(place.results, ignore_errors=True)
        return not place.results.exists()

    wait_until(removed, SOON, "the removal")
    second = place.storewise("run", "s.yaml")
    run.send_signal(signal.SIGCONT)
    message = second.stdout + second.stderr
    assert second.returncode == 2
    assert f"another Snakemake works in {place.directory}" in message
    assert "--unlock" not in message
    place.gone(SOON)


@pytest.mark.parametrize(
    ("engine", "phase"),
    [("parquet", "c"), pytest.param("postgres", "load", marks=pytest.mark.all_cells)],
)
def test_results_that_are_removed_while_a_run_uses_them(
    place: Workspace, engine: str, phase: str
) -> None:
    run = begin(place, phase, engine)

    def removed() -> bool:
        # What is written meanwhile may stay of a removal, so it is made again.
        shutil.rmtree(place.results, ignore_errors=True)
        return not (place.results.exists() and place.processes())

    wait_until(removed, SOON, "the removal")
    place.gone(SOON)
    assert run.wait() != 0
    message = place.output()
    assert message.count("storewise: results/s was removed or moved while this run used it") == 1
    assert "Traceback" not in message
    assert place.left_behind() == []


def test_a_killed_storewise_run_takes_its_snakemake_along(place: Workspace) -> None:
    run = begin(place, "c", command=place.storewise_command("run", "s.yaml"))
    kills.kill_snakemake(place, run)
    place.gone(SOON)
    assert place.left_behind() == []


def test_a_plain_run_after_a_killed_one_finds_its_session_in_the_way(
    place: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Snakemake looks for files before it looks for its lock: what is removed between must not
    count as there."""
    kills.short_lease(monkeypatch)
    place.write_study(STUDY.format(engine="parquet", records=20, seconds=15))
    run = place.start()
    place.await_worker(run, "c.1")
    kills.kill_snakemake(place, run)
    assert list(place.results.glob("live/*/session.json")), "nothing is in the way"
    second = place.snakemake("--omit-from", "analyse")
    assert second.returncode == 0, second.stdout + second.stderr
    assert "whose run has ended" in second.stdout + second.stderr
    assert place.left_behind() == []
