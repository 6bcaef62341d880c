"""A running Slurm of tests as a test sees it: its queue, and what its hosts run and listen to."""

from __future__ import annotations

import os
import shlex
import subprocess
from dataclasses import dataclass, field
from pathlib import Path

import psutil
from support.waiting import wait_until

#: Of 10.0.0.0/8, so that it is no machine's usual network; the slot follows.
NETWORK = "10.213"


@dataclass(frozen=True, slots=True)
class SlurmJob:
    """A job as squeue shows it; `comment` is ``rule_<name>_wildcards_<values>`` of the plugin's."""

    id: str
    state: str
    host: str
    comment: str
    reason: str


@dataclass
class SlurmCluster:
    """A running Slurm."""

    directory: Path
    slot: int
    #: Host name -> its first process.
    hosts: dict[str, psutil.Process] = field(default_factory=dict)
    #: Hosts that have ended (`end_host`).
    ended: set[str] = field(default_factory=set)

    @property
    def scratch(self) -> Path:
        """The node-local disk, of the same path on each host."""
        return self.directory / "scratch"

    @property
    def login_address(self) -> str:
        """The address of this machine, the cluster's login node."""
        return f"{NETWORK}.{self.slot}.1"

    def address(self, host: str) -> str:
        return f"{NETWORK}.{self.slot}.{10 + list(self.hosts).index(host)}"

    def exports(self) -> dict[str, str]:
        """Variables with which Slurm's commands mean this cluster."""
        return {"SLURM_CONF": str(self.directory / "slurm.conf")}

    def environment(self, **more: str) -> dict[str, str]:
        """The whole environment of a process that uses this cluster."""
        return {**os.environ, **self.exports(), **more}

    def command(self, *arguments: str) -> str:
        """The output of one of Slurm's commands."""
        done = subprocess.run(
            arguments, env=self.environment(), capture_output=True, text=True, timeout=300
        )
        if done.returncode:
            raise AssertionError(f"{shlex.join(arguments)}: {done.stderr.strip()}")
        return done.stdout

    def jobs(self, rule: str = "", *, ended: bool = False) -> list[SlurmJob]:
        """Jobs in the queue, of one rule if named; with `ended` also those Slurm remembers."""
        states = ["--states=all"] if ended else []
        text = self.command("squeue", "--noheader", "--format=%i|%T|%N|%k|%r", *states)
        result = [SlurmJob(*line.split("|")) for line in text.splitlines()]
        prefix = f"rule_{rule}"
        return [j for j in result if not rule or f"{j.comment}_".startswith(f"{prefix}_")]

    def cancel(self, job: SlurmJob) -> None:
        self.command("scancel", job.id)

    def wait_empty(self, seconds: float = 60.0) -> None:
        """Wait until squeue is empty; an error that names what is left."""
        wait_until(
            lambda: not self.jobs(),
            seconds,
            lambda: f"an empty squeue ({self.jobs()})",
            pause=0.2,
        )

    def processes(self, host: str = "", name: str = "") -> list[psutil.Process]:
        """Processes of jobs on a host (all, if none is named), Slurm's own left out.

        Pids are this machine's, so they can be killed from here; files that jobs write hold the
        pids of their host's namespace.
        """
        spaces = {
            Path(f"/proc/{first.pid}/ns/pid").readlink()
            for known, first in self.hosts.items()
            if host in ("", known) and known not in self.ended
        }
        pids = {first.pid for first in self.hosts.values()}
        result = []
        for process in psutil.process_iter():
            try:
                if (
                    process.pid not in pids
                    and Path(f"/proc/{process.pid}/ns/pid").readlink() in spaces
                    and process.name() not in ("slurmd", "slurmstepd", "srun")
                    and process.status() != psutil.STATUS_ZOMBIE
                    and name in process.name()
                ):
                    result.append(process)
            except (psutil.NoSuchProcess, FileNotFoundError, ProcessLookupError, PermissionError):
                continue  # it ended meanwhile, or is not even root's to look at, so not a job's
        return result

    def wait_no_processes(self, seconds: float = 60.0) -> None:
        """Wait until no job's process is left on any host; an error that names what is left."""
        wait_until(
            lambda: not self.processes(),
            seconds,
            lambda: f"the end of {self.processes()}",
            pause=0.2,
        )

    def end_host(self, host: str, reason: str) -> None:
        """A host that is gone from one moment to the next, and marked so: as an instance that
        EC2 ends, which the daemon of ParallelCluster finds and sets down."""
        # The network first: the ends of connections would tell the others.
        end = f"sw{self.slot}x{list(self.hosts).index(host)}"
        subprocess.run(["ip", "link", "set", end, "down"], check=True)
        self.ended.add(host)
        self.hosts[host].kill()
        self.command("scontrol", "update", f"NodeName={host}", "State=DOWN", f"Reason={reason}")

    def execute(self, host: str, *arguments: str) -> str:
        """The output of a command that runs on a host (it sees the host's disk and network)."""
        enter = f"nsenter --target {self.hosts[host].pid} --net --uts --pid --mount".split()
        command = [*enter, f"--wd={self.directory}", *arguments]
        done = subprocess.run(command, env=self.environment(), capture_output=True, text=True)
        if done.returncode:
            raise AssertionError(f"{host}: {shlex.join(arguments)}: {done.stderr.strip()}")
        return done.stdout

    def listeners(self, host: str) -> dict[str, str]:
        """``address:port`` -> the program that listens there, Slurm's own left out."""
        result = {}
        for line in self.execute(host, "ss", "-Htlnp").splitlines():
            fields = line.split()
            users = fields[5] if len(fields) > 5 else ""
            program = users.partition('(("')[2].partition('"')[0]
            if program not in ("slurmd", "slurmstepd", "srun"):
                result[fields[3]] = program
        return result

    def scratch_files(self, host: str) -> list[str]:
        """What lies on a host's node-local disk."""
        if host in self.ended:
            return []
        return sorted(self.execute(host, "find", str(self.scratch), "-mindepth", "1").splitlines())
