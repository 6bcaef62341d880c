"""How somebody ends a run of the workflow from outside, and the tables of such ends."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from support.workspace import Workspace, interrupt_group

Run = subprocess.Popen[str]
#: What a table's cell does to a run that is at work.
Cause = Callable[[Any, Run], None]

#: Seconds, of the contract: nothing is left so long after the cause.
SOON = 60.0
#: Seconds of the lease where Snakemake is killed: its jobs work for so long without it.
LEASE = 4.0


def short_lease(monkeypatch: pytest.MonkeyPatch) -> None:
    """For runs that lose their Snakemake. Others keep the lease that no busy machine loses."""
    monkeypatch.setenv("STOREWISE_LEASE_SECONDS", f"{LEASE:.0f}")


def cells(
    *,
    every_run: Sequence[tuple[Any, ...]] = (),
    slow: Sequence[tuple[Any, ...]] = (),
    all_cells: Sequence[tuple[Any, ...]] = (),
) -> list[Any]:
    """A table's cells (cause, phase, ...), each with the mark of the first run that has it."""
    tiers = [
        (every_run, [pytest.mark.every_run]),
        (slow, []),
        (all_cells, [pytest.mark.all_cells]),
    ]
    return [
        pytest.param(*cell, marks=marks, id=f"{cell[0].__name__}-{cell[1]}")
        for table, marks in tiers
        for cell in table
    ]


def kill_snakemake(place: Workspace, run: Run) -> None:
    run.kill()
    run.wait()


def hang_up(place: Workspace, run: Run) -> None:
    """What closing a terminal does."""
    os.killpg(run.pid, signal.SIGHUP)
    run.wait()


def interrupt(place: Workspace, run: Run) -> None:
    interrupt_group(run)


def terminate(place: Workspace, run: Run) -> None:
    run.terminate()


#: Snakemake cleans up nothing then: files are left for the next run.
UNCLEAN = (kill_snakemake, hang_up)


def ends_a_phase(
    place: Workspace,
    begin: Callable[[Workspace, str], Run],
    cause: Cause,
    phase: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """`begin` a run and end it by `cause` while `phase` is at work; no process is left, and where
    Snakemake could clean up, no file either."""
    if cause in UNCLEAN:
        short_lease(monkeypatch)
    run = begin(place, phase)
    cause(place, run)
    place.gone(SOON)
    if cause not in UNCLEAN:
        assert place.left_behind() == []
        assert run.wait() != 0
    # Otherwise the cause came too late and the cell has shown nothing.
    logs = [log.read_text() for log in place.results.glob(f"logs/*/{phase}.?.log")]
    assert not any(log.rstrip().endswith("INFO done") for log in logs), "the phase ended by itself"
