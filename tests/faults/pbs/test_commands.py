"""The commands of profiles/pbs against stand-ins for PBS."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
from support.fake_time import FakeTime
from support.pbs.standin import Config, Pbs
from support.waiting import wait_until

from storewise.schedulers.job_registry import (
    cancel_all,
    mark_ended,
    register,
    registered,
    remove_registry,
    run_directory,
    runs,
)
from storewise.schedulers.pbs.options import SubmitOptions
from storewise.schedulers.pbs.submit import submit

SCRIPTS = Path(sys.executable).parent
RUN = "run-1"


@dataclass
class Site:
    """A working directory and a PBS."""

    root: Path
    pbs: Pbs
    environment: dict[str, str]

    def set(self, **values: Any) -> None:
        self.pbs.configure(replace(self.pbs.config, **values))

    def jobscript(self, body: str, **properties: Any) -> Path:
        values = {"rule": "load", "wildcards": {"k": "0"}, "threads": 1, "jobid": 1, **properties}
        path = self.root / f"jobscript.{time.monotonic_ns()}.sh"
        path.write_text(f"#!/bin/sh\n# properties = {json.dumps(values)}\n{body}\n")
        return path

    def call(self, name: str, *arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [str(SCRIPTS / f"storewise-pbs-{name}"), *arguments],
            cwd=self.root,
            env=self.environment,
            capture_output=True,
            text=True,
            timeout=600,
        )

    def submit(self, body: str, *options: str, **properties: Any) -> str:
        done = self.call("submit", *options, str(self.jobscript(body, **properties)))
        assert done.returncode == 0, done.stderr
        assert done.stdout.count("\n") == 1
        return done.stdout.strip()

    def status(self, job_id: str, *options: str) -> str:
        done = self.call("status", "--every", "0", *options, job_id)
        assert (done.returncode, done.stderr) == (0, "")
        return done.stdout.strip()

    def wait_for(self, job_id: str, word: str, *options: str) -> None:
        wait_until(lambda: self.status(job_id, *options) == word, 60, f"{job_id} is {word}")


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Site]:
    root = tmp_path / "work dir"
    root.mkdir()
    pbs = Pbs(tmp_path / "pbs")
    monkeypatch.setenv("PATH", f"{pbs.install(Config())}:{os.environ['PATH']}")
    monkeypatch.setenv("STOREWISE_RUN", RUN)
    yield Site(root, pbs, dict(os.environ))
    pbs.configure(replace(pbs.config, qdel_busy=0))
    alive = pbs.alive()
    if alive:
        subprocess.run(["qdel", "-W", "force", *alive], capture_output=True)
    wait_until(lambda: not pbs.alive(), 60, "the end of the stand-in's jobs")


def test_a_job_from_submission_to_success(site: Site) -> None:
    site.set(running=0)
    job_id = site.submit("echo said; cd /; exit 0")
    assert [(job.id, job.kind) for job in registered(site.root, RUN)] == [(job_id, "pbs")]
    assert site.status(job_id) == "running"
    site.set(running=1)
    site.wait_for(job_id, "success")
    assert site.status(job_id) == "success"
    assert registered(site.root, RUN) == []
    job = site.pbs.jobs()[job_id]
    assert Path(job["output"]).read_text() == "said\n"
    assert Path(job["output"]).is_relative_to(site.root / ".snakemake")


def test_a_job_gets_the_variables_that_the_profile_names(site: Site) -> None:
    value = "a b,'c' $HOME \n d"
    site.environment |= {"KEPT": value, "NOT_KEPT": "x"}
    out = site.root / "out.json"
    code = f"import json,os; json.dump(dict(os.environ), open({str(out)!r}, 'w'))"
    job_id = site.submit(f'{sys.executable} -c "{code}"', "--export", "PATH KEPT")
    site.wait_for(job_id, "success")
    result = json.loads(out.read_text())
    assert (result["KEPT"], result["STOREWISE_RUN"]) == (value, RUN)
    assert result["PATH"] == site.environment["PATH"]
    assert "NOT_KEPT" not in result


@pytest.mark.parametrize("dialect", ["openpbs", "torque"])
def test_failures(site: Site, dialect: str) -> None:
    site.set(dialect=dialect, running=3, kill_delay=4.0)
    option = ("--dialect", dialect)
    failing = site.submit("exit 3", *option)
    deaf = site.submit("trap '' TERM; while :; do sleep 1; done", *option)
    working = site.submit("exec sleep 600", *option)
    waiting = site.submit("exec sleep 600", *option)
    site.wait_for(failing, "failed", *option)
    site.wait_for(waiting, "running", *option)
    wait_until(lambda: site.pbs.jobs()[waiting]["state"] == "R", 30, "the last job runs")
    last = site.submit("exit 0", *option)
    subprocess.run(["qdel", last, working, deaf], check=True)
    for job_id in (last, working, deaf):
        site.wait_for(job_id, "failed", *option)
    exits = [site.pbs.jobs()[job_id]["exit"] for job_id in (last, working, deaf)]
    # Never started; deleted while it ran, however its processes came to their end.
    assert exits == [None, 271, 271]
    assert site.status(waiting, *option) == "running"


def test_the_wall_time_ends_a_job(site: Site) -> None:
    site.set(running=0)
    job_id = site.submit("exec sleep 600", resources={"runtime": 1})
    job = site.pbs.jobs()[job_id]
    assert job["resources"]["walltime"] == "00:01:00"
    # A minute is the shortest that a rule can ask for, and too long for a test.
    site.pbs.change(job_id, resources={**job["resources"], "walltime": "00:00:01"})
    site.set(running=8)
    site.wait_for(job_id, "failed")
    assert site.pbs.jobs()[job_id]["exit"] == -29


def test_a_program_may_end_in_order(site: Site) -> None:
    """The job's shell must not die before the program that it waits for."""
    program = (
        "import os, signal, sys, time\n"
        "def end(number, frame):\n"
        "    open('asked', 'w').close()\n"
        "    while not os.path.exists('go'):\n"
        "        time.sleep(0.01)\n"
        "    open('ended', 'w').close()\n"
        "    sys.exit(0)\n"
        "signal.signal(signal.SIGTERM, end)\n"
        "open('started', 'w').close()\n"
        "time.sleep(600)\n"
    )
    (site.root / "program.py").write_text(program)
    job_id = site.submit(f"cd '{site.root}' && {sys.executable} program.py && exit 0 || exit 1")
    wait_until((site.root / "started").exists, 30, "the program's start")
    site.set(kill_delay=600.0)
    subprocess.run(["qdel", job_id], check=True)
    wait_until((site.root / "asked").exists, 30, "the program is told to end")
    assert site.pbs.alive() == [job_id]
    (site.root / "go").touch()
    wait_until(lambda: not site.pbs.alive(), 30, "the job's end")
    assert (site.root / "ended").exists()


def test_a_server_without_history(site: Site) -> None:
    """OpenPBS's default: -x is refused for running jobs too, and ended ones are forgotten."""
    site.set(history=False)
    going = site.submit("exec sleep 600")
    ended = {site.submit(f"exit {code}"): code for code in (0, 3)}
    wait_until(lambda: site.pbs.alive() == [going], 30, "the jobs' end")
    for job_id, code in ended.items():
        assert site.status(job_id) == ("failed" if code else "success")
    assert site.status(going, "--grace", "0") == "running"
    assert [job.id for job in registered(site.root, RUN)] == [going]
    # That there is no history is found out once.
    assert [call for call in site.pbs.calls("qstat") if "-x" in call] == [
        f"qstat -x -f {' '.join([going, *ended])}"
    ]


def test_a_job_that_vanishes_without_a_mark_has_failed(site: Site) -> None:
    """Deleted before it started: after the time in which its mark could still be on its way."""
    site.set(history=False, running=0)
    job_id = site.submit("exit 0")
    subprocess.run(["qdel", job_id], check=True)
    wait_until(lambda: not site.pbs.alive(), 30, "the job's end")
    path = run_directory(site.root, RUN) / job_id
    path.write_text(json.dumps({**json.loads(path.read_text()), "submitted": 0.0}))
    assert site.status(job_id) == "running"
    site.wait_for(job_id, "failed", "--grace", "1")


@pytest.mark.parametrize("history", [True, False])
def test_all_of_several_jobs_are_seen_to_end(site: Site, history: bool) -> None:
    """As JSON, qstat would print the first one only, here one that goes on."""
    site.set(history=history)
    site.submit("exec sleep 600")
    ended = [site.submit("exit 0") for _ in range(2)]
    for job_id in ended:
        site.wait_for(job_id, "success")


def test_an_unknown_job_is_young_first_and_then_failed(site: Site) -> None:
    register(site.root, RUN, "999.standin", "pbs")
    assert site.status("999.standin", "--grace", "60") == "running"
    assert site.status("999.standin", "--grace", "0") == "failed"


@pytest.mark.parametrize("trouble", ["fail", "garbage", "hang"])
def test_a_server_in_trouble_changes_nothing(site: Site, trouble: str) -> None:
    done, going = site.submit("exit 0"), site.submit("exec sleep 600")
    site.wait_for(done, "success")
    site.set(qstat=trouble)
    option = ("--timeout", "2", "--grace", "0")
    assert site.status(done, *option) == "success"
    assert site.status(going, *option) == "running"
    subprocess.run(["qdel", going], check=True)
    wait_until(lambda: not site.pbs.alive(), 30, "the job's end")
    assert site.status(going, *option) == "running"
    site.set(qstat="ok")
    assert site.status(going) == "failed"


def test_no_qstat_at_all(site: Site) -> None:
    site.environment["PATH"] = "/usr/bin:/bin"
    assert site.status("1.standin") == "running"


def test_many_jobs_share_few_calls_of_qstat(site: Site) -> None:
    """60 jobs, asked for by eight callers at once."""
    for number in range(60):
        job = {"id": f"{101 + number}.standin", "name": "x", "queue": "q", "state": "R"}
        job |= {"exit": None, "resources": {}, "delete": ""}
        if number % 2:
            job |= {"state": "F", "exit": number % 3}
        site.pbs.write(job)
        register(site.root, RUN, str(job["id"]), "pbs")
    ids = [job.id for job in registered(site.root, RUN)]

    def ask(job_id: str) -> str:
        done = site.call("status", "--every", "3600", job_id)
        assert done.returncode == 0
        return done.stdout.strip()

    ask(ids[0])
    with ThreadPoolExecutor(8) as pool:
        words = dict(zip(ids, pool.map(ask, ids), strict=True))
    assert len(site.pbs.calls("qstat")) == 1, "one an hour"
    expected = {
        job_id: "running" if job["state"] == "R" else ("failed" if job["exit"] else "success")
        for job_id, job in site.pbs.jobs().items()
    }
    assert words == expected
    # What is over is asked for no more.
    assert len(registered(site.root, RUN)) == 30
    site.status(ids[0])
    assert len(site.pbs.calls("qstat")[-1].split()) < 40
    for job_id, job in site.pbs.jobs().items():
        site.pbs.write({**job, "id": job_id, "state": "F"})


# ------------------------------------------------------------------ refusals


def test_a_busy_server_is_asked_again(site: Site) -> None:
    own_time = FakeTime()
    site.set(qsub_busy=2)
    script = site.jobscript("exit 0")
    job_id = submit(script, SubmitOptions(), site.root, RUN, sleep=own_time.sleep)
    assert list(site.pbs.jobs()) == [job_id]
    assert len(site.pbs.calls("qsub")) == 3
    assert own_time.sleeps == [1.0, 2.0]


@pytest.mark.parametrize("history", [True, False])
def test_a_lost_answer_does_not_double_a_job(site: Site, history: bool) -> None:
    site.set(qsub_lost=1, history=history)
    job_id = site.submit("exec sleep 600")
    assert list(site.pbs.jobs()) == [job_id]


@pytest.mark.parametrize(
    ("config", "options", "said"),
    [
        ({}, ["--queue", "nosuch"], "qsub: Unknown queue"),
        ({"queued": 0}, [], "would exceed complex's per-user limit"),
        ({"walltime": 1800}, [], "Job violates queue and/or server resource limits"),
        ({}, ["--extra=-Z"], "invalid option"),
        ({"qsub_busy": 9}, ["--attempts", "2"], "cannot connect to server"),
    ],
)
def test_a_refusal_is_one_message(
    site: Site, config: dict[str, Any], options: list[str], said: str
) -> None:
    site.set(**config)
    done = site.call("submit", *options, str(site.jobscript("exit 0")))
    # Snakemake hands on what stands on standard output.
    assert (done.returncode, done.stderr) == (1, "")
    assert done.stdout.startswith("storewise: PBS did not take load-0: ")
    assert said in done.stdout and "Asked: qsub -N load-0-" in done.stdout
    assert done.stdout.count("\n") == 1
    assert len(site.pbs.calls("qsub")) == (2 if "qsub_busy" in config else 1)
    assert registered(site.root, RUN) == []


def test_a_job_that_no_node_can_run_is_refused_before_it_queues(site: Site) -> None:
    script = site.jobscript("exit 0", resources={"mem_mb": 100_000})
    done = site.call("submit", str(script))
    assert done.returncode == 1
    assert "100000 MB of memory on one node, which no node of this PBS has" in done.stdout
    assert site.pbs.jobs() == {}
    assert site.call("submit", "--no-size-check", str(script)).returncode == 0


def test_no_qsub_on_this_host(site: Site) -> None:
    site.environment["PATH"] = "/usr/bin:/bin"
    done = site.call("submit", str(site.jobscript("exit 0")))
    assert done.returncode == 1
    assert done.stdout.startswith("storewise: qsub is not on PATH")


# ------------------------------------------------------------------ cancel


def test_cancel_answers_at_once_and_ends_the_run(site: Site) -> None:
    site.set(qdel_busy=1000, running=2)
    ids = [site.submit("exec sleep 600") for _ in range(4)]
    wait_until(lambda: "R" in {j["state"] for j in site.pbs.jobs().values()}, 30, "a job runs")
    # Snakemake knows only one of them.
    done = site.call("cancel", ids[0])
    assert done.returncode == 0
    assert site.pbs.alive() == ids, "it has not waited for a server that takes no qdel yet"
    site.set(qdel_busy=0)
    wait_until(lambda: not site.pbs.alive(), 60, "an empty queue")
    wait_until(lambda: not registered(site.root, RUN), 60, "an empty registry")


@pytest.mark.parametrize("history", [True, False])
def test_cancel_with_jobs_that_have_ended(site: Site, history: bool) -> None:
    """The server of a real OpenPBS without history dies of one qdel for both kinds."""
    site.set(running=0, history=history)
    waiting, ended = site.submit("exit 0"), site.submit("exit 0")
    site.pbs.change(ended, state="F", exit=0)
    site.call("cancel", waiting, ended)
    wait_until(lambda: not registered(site.root, RUN), 60, "an empty registry")
    assert (site.pbs.alive(), site.pbs.config.crashed) == ([], False)


def test_a_submission_that_the_end_of_the_run_overtakes_is_cancelled(site: Site) -> None:
    mark_ended(site.root, RUN)
    done = site.call("submit", str(site.jobscript("exec sleep 600")))
    assert done.returncode == 1
    assert "the run ended while load-0 was submitted" in done.stdout
    assert len(site.pbs.jobs()) == 1
    wait_until(lambda: not site.pbs.alive(), 60, "an empty queue")


def test_a_run_sweeps_its_own_jobs_only(site: Site) -> None:
    mine = site.submit("exec sleep 600")
    site.environment["STOREWISE_RUN"] = "run-2"
    other = site.submit("exec sleep 600")
    assert runs(site.root) == [RUN, "run-2"]
    assert cancel_all(site.root, "run-3") == 0
    assert cancel_all(site.root, RUN) == 1
    wait_until(lambda: mine not in site.pbs.alive(), 60, "the end of this run's job")
    wait_until(lambda: not registered(site.root, RUN), 60, "an empty registry")
    assert site.pbs.alive() == [other]
    assert cancel_all(site.root, RUN) == 0
    remove_registry(site.root, RUN)
    assert not run_directory(site.root, RUN).exists()
