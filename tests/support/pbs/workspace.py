"""A study that runs through profiles/pbs, on the stand-ins for PBS or on a real one
(tests/support/pbs/real.py), watched from outside."""

from __future__ import annotations

import json
import os
import re
import subprocess
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import psutil
from support.paths import ROOT
from support.pbs.real import WANTED, RealPbs
from support.pbs.standin import Config, Pbs
from support.slurm.on_host import ask
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
LOCAL_ENDS = {
    "  form:\n": "  close: {run_local: 1}\n  form:\n    run_local: 1\n",
}


class PbsWorkspace(Workspace):
    """A working directory, and beside it a PBS and the profile of its site."""

    def __init__(
        self, top: Path, edited: Mapping[str, str] = EDITED, *, history: bool = True
    ) -> None:
        super().__init__(top / "work")
        self.directory.mkdir()
        self.top = top
        self.pbs: Pbs | RealPbs
        self.environment = {**os.environ, "STOREWISE_LEASE_SECONDS": f"{LEASE:.0f}"}
        if WANTED:
            self.pbs = RealPbs(top)
        else:
            self.pbs = Pbs(top / "pbs")
            # PBS's own default of kill_delay is 10 s.
            commands = self.pbs.install(Config(start_delay=0.3, kill_delay=10.0, history=history))
            self.environment["PATH"] = f"{commands}:{os.environ['PATH']}"
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

    def run(
        self, command: list[str], timeout: float = 300, **options: Any
    ) -> subprocess.CompletedProcess[str]:
        return super().run(command, timeout, env=self.environment, **options)

    def start(self, command: list[str] | None = None) -> subprocess.Popen[str]:
        with (self.directory / "snakemake.out").open("w") as log:
            return subprocess.Popen(
                command or self.command(),
                cwd=self.directory,
                env=self.environment,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                text=True,
                start_new_session=True,
            )

    def jobs(self, *words: str, states: str = "QREF") -> list[dict[str, Any]]:
        """Jobs that have these words in their name, oldest first. A phase `write` is a load."""
        result = []
        for job in self.pbs.jobs().values():
            there = set(re.split("[.-]", job["name"]))
            there |= {"write"} if "load" in there else set()
            if set(words) <= there and job["state"] in states:
                result.append(job)
        return result

    def job_of(self, member: str) -> dict[str, Any]:
        """The newest job of a node (`data0`) or a worker (`load.0`)."""
        return self.jobs(*member.split("."))[-1]

    def host(self, member: str) -> str:
        """Where a live job of the trial runs, as `ask` takes it."""
        if not WANTED:
            return ""
        (path,) = self.results.glob(f"live/*/members/{member}.json")
        return str(json.loads(path.read_text())["host"])

    def working(self, name: str) -> int | None:
        log = next(iter(self.results.glob(f"logs/*/{name}.log")), None)
        barrier = next(iter(self.results.glob(f"live/*/barriers/{name.split('.')[0]}-0")), None)
        pid = self.members().get(name)
        if pid is None or log is None or barrier is None:
            return None
        return pid if ask(self.host(name), "children", str(pid)) else None

    def server(self, node: str) -> int | None:
        for path in self.results.glob(f"live/*/endpoints/{node}.json"):
            pid: int = json.loads(path.read_text())["server_pid"]
            result = ask(self.host(node), "server", str(pid))
            if result and isinstance(self.pbs, RealPbs):
                self.pbs.scratch.add(result["cwd"].partition("/pbs.")[0])
            return pid if result else None
        return None

    def processes(self) -> list[psutil.Process]:
        return self._below(self.directory)

    def _below(self, directory: Path) -> list[psutil.Process]:
        return [p for p in Workspace(directory).processes() if not _is_qsub(p)]

    def left(self) -> list[str]:
        """Processes, jobs and node-local directories that have not gone yet."""
        result = [
            *(f"process {process.pid}" for process in self._below(self.top)),
            *(f"job {job_id}" for job_id in self.pbs.alive()),
        ]
        if isinstance(self.pbs, RealPbs):
            return result + self.pbs.left()
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

    def registered(self) -> list[str]:
        """Jobs that a run would still cancel."""
        registry = self.directory / ".snakemake" / "storewise" / "jobs"
        return [path.name for path in registry.glob("*/[0-9]*")]

    def end(self) -> None:
        """Whatever a failed test has left."""
        for process in Workspace(self.top).processes():
            process.kill()
        if alive := self.pbs.alive():
            command = ["qdel", "-W", "force"]
            for job_id in alive:
                subprocess.run([*command, job_id], env=self.environment, capture_output=True)
            wait_until(lambda: not self.pbs.alive(), 60, "the end of the jobs")
        if isinstance(self.pbs, RealPbs):
            self.pbs.end()


def _is_qsub(process: psutil.Process) -> bool:
    """OpenPBS's leaves a process that keeps its connection for a minute (qsub(1B), "-f")."""
    try:
        return process.name() == "qsub"
    except psutil.NoSuchProcess:
        return False
