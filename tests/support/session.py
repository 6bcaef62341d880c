"""A live trial without Snakemake, and hosts that are made."""

from __future__ import annotations

import time
from dataclasses import dataclass, field, replace
from itertools import count
from pathlib import Path

import pytest

from storewise.session.coordination.liveness import Session
from storewise.session.coordination.run import Run
from storewise.session.coordination.system import System
from support.fake_time import FakeTime


@dataclass
class MadeHost(System):
    """What one process sees of a host whose clocks and process table are made."""

    name: str = "here"
    own_time: FakeTime = field(default_factory=FakeTime)
    ahead: float = 0.0
    """Seconds of its Unix time before that of the file server."""
    table: dict[int, float] = field(default_factory=lambda: {1: 1.0})
    """Its processes, pid -> start: the same object for all of a host."""
    own_pid: int = 1
    container: str = ""
    """Where its pids count."""

    def boot(self) -> str:
        return f"{self.name} {self.container}"

    def host(self) -> str:
        return self.name

    def pid(self) -> int:
        return self.own_pid

    def time(self) -> float:
        return self.own_time.now + self.ahead

    def clock(self) -> float:
        return self.own_time.clock() + 1000 * self.ahead

    def sleep(self, seconds: float) -> None:
        self.own_time.sleep(seconds)

    def started(self, pid: int) -> float | None:
        return self.table.get(pid)

    def kill(self, pid: int) -> None:
        self.table.pop(pid, None)

    def spawn(self) -> MadeHost:
        """A new process there; like a kernel it gives the pid of an ended one again."""
        pid = next(pid for pid in count(2) if pid not in self.table)
        self.table[pid] = self.time() + next(_STARTS)
        return replace(self, own_pid=pid)


#: No two processes start at the same moment.
_STARTS = count(0.001, 0.001)


def opened(results: Path, run: str, trial: str = "t", lease: float = 25.0) -> Session:
    directory = results / "live" / trial
    directory.mkdir(parents=True)
    session = Session(trial, run, lease, time.time())
    session.write(directory)
    return session


@pytest.fixture
def run(tmp_path: Path) -> Run:
    run = Run(tmp_path)
    run.start()
    return run
