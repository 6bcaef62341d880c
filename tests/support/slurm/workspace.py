"""A study that runs through profiles/slurm on a Slurm of tests, watched from outside."""

from __future__ import annotations

import contextlib
import json
import subprocess
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil
import pytest
import yaml
from support.kills import SOON
from support.paths import ROOT, SMALL
from support.slurm.view import SlurmCluster
from support.waiting import wait_until
from support.workspace import Workspace

#: Seconds of the lease here; on clusters it is long, because NFS caches.
LEASE = 25.0


@dataclass(frozen=True, slots=True)
class Member:
    """A job's own process, or a server: its pid is that of its host's namespace."""

    host: str
    pid: int


class SlurmWorkspace(Workspace):
    """A study that runs through profiles/slurm."""

    slurm: SlurmCluster

    def command(self, *arguments: str, snakefile: Path = ROOT / "Snakefile") -> list[str]:
        command = super().command(*arguments, snakefile=snakefile)
        own = self.directory / "profile"
        profile = own if own.exists() else ROOT / "profiles" / "slurm"
        command[command.index("--profile") + 1] = str(profile)
        return [*command, "--slurm-init-seconds-before-status-checks", "1"]

    def edit_profile(self, rule: str, **resources: object) -> None:
        """Give this directory a profile of its own, with other resources of a rule.

        On the command line, --set-resources would replace all that the profile sets.
        """
        profile = self.directory / "profile" / "config.yaml"
        path = profile if profile.exists() else ROOT / "profiles" / "slurm" / "config.yaml"
        values = yaml.safe_load(path.read_text())
        values["set-resources"].setdefault(rule, {}).update(resources)
        profile.parent.mkdir(exist_ok=True)
        profile.write_text(yaml.safe_dump(values))

    def await_work(self, process: subprocess.Popen[str], phase: str, seconds: float) -> None:
        """Wait until two workers have passed the barrier of a phase and have clients."""

        def found() -> bool:
            assert process.poll() is None, self.output()
            return bool(self.trial_at_work(phase))

        wait_until(found, seconds, f"{phase} at work")

    def trial_at_work(self, phase: str, workers: int = 2) -> str | None:
        """The live trial whose workers are all in a phase, with clients."""
        for live in self._live():
            if not (live / "barriers" / f"{phase}-0").exists():
                continue
            jobs = self.job_members()
            known = [jobs.get(f"{phase}.{number}") for number in range(workers)]
            result = [self.process(worker) for worker in known if worker is not None]
            with contextlib.suppress(psutil.NoSuchProcess):
                if len([p for p in result if p is not None and p.children()]) == workers:
                    return live.name
        return None

    def job_members(self) -> dict[str, Member]:
        """Registered jobs of live trials, with their hosts."""
        return {
            path.stem: Member(data["host"], data["pid"])
            for path, data in self._records("members/*.json")
        }

    def servers(self) -> dict[str, tuple[Member, str]]:
        """Servers that answer: node -> its process and ``address:port``."""
        result = {}
        for _, data in self._records("endpoints/*.json"):
            end = data["endpoint"]
            member = Member(end["host"], data["server_pid"])
            result[data["node"]] = (member, f"{end['address']}:{end['port']}")
        return result

    def node_directories(self) -> list[str]:
        """Directories of nodes that are there, below the results or on a host's own disk."""
        result = [str(path) for path in self.results.glob("live/*/nodes/*/")]
        for host in self.slurm.hosts:
            names = map(Path, self.slurm.scratch_files(host))
            result += [f"{host}:{name}" for name in names if name.parent == self.slurm.scratch]
        return result

    def _live(self) -> list[Path]:
        """Live directories; those of measured trials stay until the run ends."""
        return [p for p in self.results.glob("live/*/") if not (p / "finished").exists()]

    def _records(self, pattern: str) -> Iterator[tuple[Path, dict[str, Any]]]:
        for path in (path for live in self._live() for path in live.glob(pattern)):
            with contextlib.suppress(FileNotFoundError):  # it ended while we looked
                yield path, json.loads(path.read_text())

    def process(self, member: Member) -> psutil.Process | None:
        """A process of a host as this machine sees it."""
        for process in self.slurm.processes(member.host):
            try:
                status = Path(f"/proc/{process.pid}/status").read_text()
            except (FileNotFoundError, ProcessLookupError):
                continue
            (pids,) = [line.split() for line in status.splitlines() if line.startswith("NSpid:")]
            if int(pids[-1 if len(pids) == 2 else 2]) == member.pid:
                return process
        return None

    def kill(self, member: Member) -> None:
        """kill -9."""
        process = self.process(member)
        assert process is not None, f"{member} has ended"
        process.kill()

    def nothing_left(self, seconds: float) -> float:
        """Wait until no job, no process of one and no node's directory is left; in seconds."""
        start = time.monotonic()
        self.slurm.wait_empty(seconds)
        self.slurm.wait_no_processes(seconds)
        left = self.node_directories()
        assert left == [], left
        return time.monotonic() - start

    def verified(self, trials: int = 1, documents: int | None = None) -> None:
        """Every trial has stored so many documents, by default what the manifest promises, and
        nothing is left of it."""
        counts = self.counts()
        documents = documents or self.documents()
        assert len(counts) == trials
        assert set(counts.values()) == {(documents, documents)}
        assert self.left_behind() == []
        self.nothing_left(10)
        assert self.registered() == []


@pytest.fixture
def place(
    tmp_path: Path, slurm: SlurmCluster, monkeypatch: pytest.MonkeyPatch
) -> Iterator[SlurmWorkspace]:
    place = SlurmWorkspace(tmp_path)
    place.slurm = slurm
    place.copy_inputs(SMALL[:3])
    for name, value in slurm.exports().items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("STOREWISE_LEASE_SECONDS", str(int(LEASE)))
    yield place
    for process in place.processes():
        process.kill()
    slurm.command("scancel", "--user=root")
    slurm.wait_empty(SOON)
