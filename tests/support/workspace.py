"""Running the workflow for tests: in a directory of its own, watched from outside."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil
import pyarrow.parquet as pq

from storewise.session.coordination.lease import Lease, lease_files
from support.paths import ROOT, SMALL
from support.waiting import BUSY, wait_until

#: What a run that measures begins with.
FORGET = """
import sys
from pathlib import Path
from storewise.run.killed import clean_up_killed_runs

clean_up_killed_runs(Path(sys.argv[1]), print)
"""


@dataclass
class Workspace:
    """A directory with a study, its inputs and its results."""

    directory: Path
    study: str = "s"
    #: Of the processes that it starts (None: this one's).
    environment: dict[str, str] | None = None

    @property
    def results(self) -> Path:
        return self.directory / "results" / self.study

    def copy_inputs(self, files: list[Path] = SMALL) -> Path:
        inputs = self.directory / "data"
        inputs.mkdir(exist_ok=True)
        for path in files:
            shutil.copy(path, inputs)
        return inputs

    def write_study(self, text: str) -> None:
        (self.directory / f"{self.study}.yaml").write_text(text)

    def command(self, *arguments: str, snakefile: Path = ROOT / "Snakefile") -> list[str]:
        """Plain Snakemake with the local profile."""
        return [
            sys.executable,
            "-m",
            "snakemake",
            "--snakefile",
            str(snakefile),
            "--config",
            f"study={self.study}.yaml",
            "--profile",
            str(ROOT / "profiles" / "local"),
            *arguments,
        ]

    def snakemake(self, *arguments: str, **options: Any) -> subprocess.CompletedProcess[str]:
        return self.run(self.command(*arguments), **options)

    def storewise(self, *arguments: str, **options: Any) -> subprocess.CompletedProcess[str]:
        return self.run(self.storewise_command(*arguments), **options)

    def storewise_command(self, *arguments: str) -> list[str]:
        return [str(Path(sys.executable).parent / "storewise"), *arguments]

    def run(
        self, command: list[str], timeout: float = 1200, **options: Any
    ) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            command,
            cwd=self.directory,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=BUSY * timeout,
            **{"env": self.environment, **options},
        )

    def start(self, command: list[str] | None = None) -> subprocess.Popen[str]:
        """Snakemake in a process group of its own, so that a test can signal it like a terminal."""
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
                # Ignored where the tests themselves run in the background, and that is inherited.
                preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
            )

    def output(self) -> str:
        return (self.directory / "snakemake.out").read_text()

    def members(self) -> dict[str, int]:
        """Registered jobs of live trials: name -> pid."""
        result = {}
        for path in self.results.glob("live/*/members/*.json"):
            try:
                result[path.stem] = json.loads(path.read_text())["pid"]
            except (FileNotFoundError, json.JSONDecodeError):
                continue
        return result

    def working(self, name: str) -> int | None:
        """The pid of a job whose clients are at work (past its barrier)."""
        pid = self.members().get(name)
        log = next(iter(self.results.glob(f"logs/*/{name}.log")), None)
        barrier = next(iter(self.results.glob(f"live/*/barriers/{name.split('.')[0]}-0")), None)
        if pid is None or log is None or barrier is None:
            return None
        try:
            return pid if psutil.Process(pid).children() else None
        except psutil.NoSuchProcess:
            return None

    def server(self, node: str) -> int | None:
        """The pid of a node's server that answers."""
        for path in self.results.glob(f"live/*/endpoints/{node}.json"):
            pid: int = json.loads(path.read_text())["server_pid"]
            return pid if psutil.pid_exists(pid) else None
        return None

    def processes(self) -> list[psutil.Process]:
        """Processes that work in our directory: Snakemake, its jobs, servers, their children."""
        result = []
        for process in psutil.process_iter():
            try:
                where = Path(process.cwd())
                ours = process.pid != os.getpid() and where.is_relative_to(self.directory)
                if ours and process.status() != psutil.STATUS_ZOMBIE:
                    result.append(process)
            except (psutil.NoSuchProcess, psutil.AccessDenied, psutil.ZombieProcess):
                continue
        return result

    def left_behind(self) -> list[str]:
        """Temporary files that no run may leave."""
        patterns = ["live", "leases", "trials/*/store.*", "trials/*/data.*", "**/*.tmp"]
        return sorted(
            str(path.relative_to(self.results))
            for pattern in [*patterns, "**/*.partial"]
            for path in self.results.glob(pattern)
        )

    def failures(self) -> list[str]:
        """Reasons of failed attempts, oldest first."""
        files = self.results.glob("failures/*.jsonl")
        result = [json.loads(line) for p in files for line in p.read_text().splitlines()]
        return [failure["reason"] for failure in sorted(result, key=lambda f: f["at"])]

    def failures_told(self) -> int:
        """How often Snakemake has said that a trial failed."""
        return len(re.findall(r"^storewise: trial \S+ ended: ", self.output(), re.MULTILINE))

    def registered(self) -> list[str]:
        """Jobs of a scheduler that the next run would cancel."""
        leases = [Lease.read(path) for path in lease_files(self.results)]
        return [job for lease in leases for ids in lease.jobs.values() for job in ids]

    def await_worker(self, run: subprocess.Popen[str], name: str) -> None:
        """Wait until a worker of a run that was started is at work."""

        def found() -> bool:
            assert run.poll() is None, self.output()
            return self.working(name) is not None

        wait_until(found, 150, f"{name} at work")

    def gone(self, seconds: float) -> float:
        """Wait until no process of a run is left; returns the seconds that it took."""
        start = time.monotonic()
        wait_until(lambda: not self.processes(), seconds, "the end of all processes")
        return time.monotonic() - start

    def plan_again(self) -> None:
        """Plan trials that were given up, as `storewise run --retry-failed`."""
        for mark in self.results.glob("trials/*/failed.json"):
            mark.unlink()

    def goes_on(self) -> None:
        """The next plain Snakemake removes first what a killed run has left; then it would measure
        the trial anew, and complains of nothing."""
        forgotten = self.run([sys.executable, "-c", FORGET, str(self.results)])
        assert forgotten.returncode == 0, forgotten.stderr
        self.plan_again()
        planned = self.snakemake("-n")
        message = planned.stdout + planned.stderr
        assert planned.returncode == 0, message
        assert re.search(r"^open_session +1$", message, re.MULTILINE), message
        assert self.left_behind() == []
        assert list(self.directory.glob(".snakemake/locks/*")) == []
        # What cancels a killed run's jobs is a process of its own.
        self.gone(30)

    def finishes(self, study: str, timeout: float = 1200) -> None:
        """A plain Snakemake finishes with verified counts and leaves nothing behind."""
        self.write_study(study)
        done = self.snakemake("--omit-from", "analyse", timeout=timeout)
        assert done.returncode == 0, done.stdout + done.stderr
        counts = self.counts()
        assert len(counts) == 1
        assert set(counts.values()) == {(self.documents(), self.documents())}
        assert self.left_behind() == []
        assert self.processes() == []

    def counts(self) -> dict[str, tuple[int, int]]:
        """(expected, counted) documents of each trial that was verified."""
        result = {}
        for path in self.results.glob("trials/*/verify.parquet"):
            rows = pq.read_table(path, columns=["metric", "value"]).to_pylist()

            def total(metric: str, rows: list[dict[str, object]] = rows) -> int:
                return int(sum(float(str(r["value"])) for r in rows if r["metric"] == metric))

            result[path.parent.name] = (total("expected_documents"), total("counted_documents"))
        return result

    def documents(self) -> int:
        """Documents that the manifest promises."""
        table = pq.read_table(self.results / "inputs" / "manifest.parquet")
        return sum(row["documents"] for row in table.to_pylist() if row.get("duplicate_of") is None)


def interrupt_group(process: subprocess.Popen[str]) -> None:
    """What a terminal's Ctrl-C does."""
    os.killpg(process.pid, signal.SIGINT)
