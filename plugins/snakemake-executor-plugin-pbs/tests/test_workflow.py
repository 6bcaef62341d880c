"""Whole workflows, on a real PBS (``SNAKEMAKE_PBS_REAL=1``) or the stand-in."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

SUBMITTED = re.compile(
    r"Job \S+ was submitted as PBS job (?P<id>\S+) \((?P<name>\S+)\); log: (?P<log>.+)"
)
SNAKEFILE = """
rule all:
    input: expand("{i}.txt", i=range(3))
rule one:
    output: "{i}.txt"
    resources: mem_mb=100, runtime=5
    shell: "echo $FROM_OUTSIDE > {output}"
rule bad:
    output: "bad"
    resources: mem_mb=100, runtime=5
    shell: "exit 3"
rule big:
    output: "big"
    threads: 6400
    shell: "touch {output}"
rule long:
    output: "long"
    resources: mem_mb=100, runtime=5
    shell: "touch started; sleep 300; touch {output}"
"""


class Run:
    def __init__(self, directory: Path, *arguments: str) -> None:
        (directory / "Snakefile").write_text(SNAKEFILE)
        self.log = directory / "out"
        with self.log.open("w") as out:
            self.process = subprocess.Popen(
                [
                    *(sys.executable, "-m", "snakemake", "--executor", "pbs", "-j", "9"),
                    *("--pbs-status-interval", "1", *arguments),
                ],
                cwd=directory,
                stdout=out,
                stderr=subprocess.STDOUT,
                env={**os.environ, "FROM_OUTSIDE": "it's here"},
                start_new_session=True,
                preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
            )

    def lines(self) -> list[str]:
        return [line.strip() for line in self.log.read_text().splitlines()]

    def submitted(self) -> list[dict[str, str]]:
        return [match.groupdict() for match in map(SUBMITTED.fullmatch, self.lines()) if match]

    def errors(self) -> list[str]:
        lines = (line for line in self.lines() if line.startswith("message: "))
        return [line.removeprefix("message: ") for line in lines]


def until(condition: Callable[[], object], seconds: float = 90) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.1)


def left(run: Run) -> list[str]:
    """Names of the run's jobs that PBS still has."""
    names = {job["name"] for job in run.submitted()}
    ask = {name: ["qselect", "-N", name] for name in names}
    return [
        name
        for name, command in ask.items()
        if subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()
    ]


@pytest.mark.usefixtures("pbs")
def test_jobs_that_succeed_that_fail_and_that_are_too_large(tmp_path: Path) -> None:
    """One run of all of them, which goes on after an error."""
    run = Run(tmp_path, "-k", "all", "bad", "big")
    assert run.process.wait(120) == 1, run.log.read_text()
    assert [(tmp_path / f"{i}.txt").read_text() for i in range(3)] == ["it's here\n"] * 3
    assert len(run.submitted()) == 4
    (bad,) = (job for job in run.submitted() if "bad" in job["name"])
    refused, failed = sorted(run.errors(), key=lambda error: "exit status" in error)
    assert refused.startswith("PBS did not accept big: it asks for 6400 CPUs")
    assert failed == (
        f"PBS job {bad['id']} ({bad['name']}) ended with exit status 3. Its log: {bad['log']}"
    )
    # The log of the failed job stays.
    logs = [path for path in tmp_path.glob(".snakemake/pbs_logs/**/*") if path.is_file()]
    assert logs == [Path(bad["log"])]


@pytest.mark.parametrize("who", ["the user", pytest.param("somebody", marks=pytest.mark.slow)])
@pytest.mark.usefixtures("pbs")
def test_a_job_that_is_ended(tmp_path: Path, who: str) -> None:
    """By Ctrl-C, after which nothing is left, or by whoever deletes it."""
    run = Run(tmp_path, "long")
    until(lambda: (tmp_path / "started").exists())
    (job,) = run.submitted()
    if who == "the user":
        os.killpg(run.process.pid, signal.SIGINT)
    else:
        subprocess.run(["qdel", job["id"]], check=True)
    assert run.process.wait(60) == 1
    if who == "somebody":
        assert any(f"PBS job {job['id']}" in error for error in run.errors())
    until(lambda: not left(run))


@pytest.mark.parametrize("times", ["twice", "all the time"])
@pytest.mark.usefixtures("pbs")
def test_ctrl_c_more_than_once_while_a_job_is_being_submitted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, times: str
) -> None:
    """A job that PBS queues after Snakemake has ended is deleted as well."""
    qsub = tmp_path / "commands" / "qsub"
    qsub.parent.mkdir()
    qsub.write_text(
        f'#!/bin/sh\nprintf "%s" "$2" > "{tmp_path}/asked"\n'
        f'while [ ! -e "{tmp_path}/go" ]; do sleep 0.1; done\n'
        f'{shutil.which("qsub")} "$@"; touch "{tmp_path}/taken"\n'
    )
    qsub.chmod(0o755)
    monkeypatch.setenv("PATH", f"{qsub.parent}:{os.environ['PATH']}")
    run = Run(tmp_path, "long")
    until(lambda: (tmp_path / "asked").exists() and (tmp_path / "asked").read_text())
    os.killpg(run.process.pid, signal.SIGINT)
    if times == "twice":
        until(lambda: any(line.startswith("Terminating processes") for line in run.lines()))
    while run.process.poll() is None:
        os.killpg(run.process.pid, signal.SIGINT)
        with contextlib.suppress(subprocess.TimeoutExpired):
            run.process.wait(60 if times == "twice" else 0.001)
    (tmp_path / "go").touch()
    until(lambda: (tmp_path / "taken").exists())
    ask = ["qselect", "-N", (tmp_path / "asked").read_text()]
    until(lambda: not subprocess.run(ask, capture_output=True, check=True).stdout.split(), 30)
