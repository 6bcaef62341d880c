"""A study that runs through profiles/pbs on the stand-ins for PBS, watched from outside."""

from __future__ import annotations

import os
import re
import subprocess
import time
from pathlib import Path
from typing import Any

from support.paths import ROOT
from support.pbs.standin import Config, Pbs
from support.waiting import wait_until
from support.workspace import Workspace

#: Seconds after which the jobs of a killed run see that it is gone.
LEASE = 25.0
#: Seconds that PBS may call a job's host down.
LOST_AFTER = 5.0
#: What a user edits in the profile: node-local disk, and pauses that suit a test.
EDITED = {
    "scratch: \"''\"": "scratch: \"'$TMPDIR'\"",
    "pbs-status-interval: 10": "pbs-status-interval: 1",
    "pbs-lost-after: 60": f"pbs-lost-after: {LOST_AFTER:.0f}",
}
#: For a site whose login node reaches the network of the servers.
LOCAL_ENDS = {"  form:\n": "  close: {run_local: 1}\n  form:\n    run_local: 1\n"}


class PbsWorkspace(Workspace):
    """A working directory, and beside it a PBS and the profile of its site."""

    def __init__(self, top: Path, edited: dict[str, str] = EDITED, *, history: bool = True) -> None:
        super().__init__(top / "work")
        self.directory.mkdir()
        self.top = top
        self.pbs = Pbs(top / "pbs")
        # PBS's own default of kill_delay is 10 s.
        commands = self.pbs.install(Config(start_delay=0.3, kill_delay=10.0, history=history))
        self.environment = {
            **os.environ,
            "STOREWISE_LEASE_SECONDS": f"{LEASE:.0f}",
            "PATH": f"{commands}:{os.environ['PATH']}",
        }
        text = (ROOT / "profiles" / "pbs" / "config.yaml").read_text()
        for old, new in edited.items():
            assert text.count(old) == 1, old
            text = text.replace(old, new)
        (top / "profile").mkdir()
        (top / "profile" / "config.yaml").write_text(text)

    def command(self, *arguments: str, snakefile: Path = ROOT / "Snakefile") -> list[str]:
        command = super().command(*arguments, snakefile=snakefile)
        command[command.index("--profile") + 1] = str(self.top / "profile")
        return command

    def jobs(self, *words: str) -> list[dict[str, Any]]:
        """Jobs that have these words in their name, oldest first. A phase `write` is a load."""
        result = []
        for job in self.pbs.jobs().values():
            there = set(re.split("[.-]", job["name"]))
            there |= {"write"} if "load" in there else set()
            if set(words) <= there:
                result.append(job)
        return result

    def job_of(self, member: str) -> dict[str, Any]:
        """The newest job of a node (`data0`) or a worker (`load.0`)."""
        return self.jobs(*member.split("."))[-1]

    def left(self) -> list[str]:
        """Processes, jobs and node-local directories that have not gone yet."""
        result = [
            *(f"process {process.pid}" for process in Workspace(self.top).processes()),
            *(f"job {job_id}" for job_id in self.pbs.alive()),
        ]
        # The directory itself is PBS's: it is removed once, also where a server still writes there.
        # (Path.glob would fail over one that is removed while it is read.)
        for top, directories, files in os.walk(self.pbs.scratch):
            if Path(top) != self.pbs.scratch:
                result += [f"{top}/{name}" for name in (*directories, *files)]
        return result

    def nothing_left(self, seconds: float) -> float:
        """Wait until nothing is left, also no Snakemake; returns the seconds that it took."""
        start = time.monotonic()
        wait_until(lambda: not self.left(), seconds, lambda: f"the end of {self.left()}")
        return time.monotonic() - start

    def end(self) -> None:
        """Whatever a failed test has left."""
        for process in Workspace(self.top).processes():
            process.kill()
        for job_id in self.pbs.alive():
            command = ["qdel", "-W", "force", job_id]
            subprocess.run(command, env=self.environment, capture_output=True)
        wait_until(lambda: not self.pbs.alive(), 60, "the end of the jobs")
