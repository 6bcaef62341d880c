"""Stand-ins for the commands of PBS, where no PBS is installed.

What they print and their exit statuses are what a real OpenPBS answered (`answers.py`), as far as
the executor uses them for single jobs. The jobs really run, each below a runner process that takes
its turn.

As a program: ``pbs_standin.py STATE COMMAND ARGUMENT...``; `install` makes executables of it.
State directory: ``config.json`` (a `Config`), ``jobs/<number>.json``, ``scratch/pbs.<id>`` (a
job's $TMPDIR).
"""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import psutil

# The commands run isolated from the environment, so Python does not look here.
sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
from support.pbs.answers import Answer, answers, block, states_of, table

COMMANDS = ("qsub", "qstat", "qdel", "qselect", "pbsnodes")
SERVER = "standin"
TICK = 0.1
STATES, HISTORY, REFUSALS = answers("states"), answers("history"), answers("refusals")
HOSTS = answers("hosts")
UNKNOWN = HISTORY["history on: an unknown job"]
FINISHED = HISTORY["history on: one finished job without -x"]
NO_HISTORY = HISTORY["history off: one finished job"]


def status_of(answer: Answer) -> int:
    """The exit status of the only job in an answer."""
    (job,) = states_of(answer.stdout).values()
    return int(job["Exit_status"])


#: Exit statuses of jobs that PBS ended, whatever they themselves said.
DELETED = status_of(HISTORY["history on: after SIGTERM was ignored"])
FORCED = status_of(STATES["after force"])
WALL_TIME = status_of(STATES["wall time passed"])


@dataclass
class Config:
    """How this PBS behaves. Times in seconds."""

    running: int = 8
    start_delay: float = 0.0
    exit_delay: float = 0.1
    kill_delay: float = 3.0
    history: bool = True
    crashed: bool = False
    """Whether the server has died; then nothing answers."""
    nodes: dict[str, dict[str, Any]] = field(
        default_factory=lambda: {f"n{n}": {"ncpus": 16, "mem": "65536mb"} for n in range(1, 5)}
    )
    lost: list[str] = field(default_factory=list)
    """Hosts that are gone with all of their processes; PBS shows their jobs as running."""


class Pbs:
    """The state directory, as the commands and a test see it."""

    def __init__(self, state: Path) -> None:
        self.state = state
        self.jobs_directory = state / "jobs"
        self.scratch = state / "scratch"

    def install(self, config: Config) -> Path:
        """Make the commands; returns the directory to put on PATH."""
        self.jobs_directory.mkdir(parents=True)
        (self.state / "config.json").write_text(json.dumps(asdict(config)))
        commands = self.state / "bin"
        commands.mkdir()
        for name in COMMANDS:
            program = commands / name
            program.write_text(
                f'#!/bin/sh\nexec "{sys.executable}" -I "{Path(__file__).resolve()}" '
                f'"{self.state}" {name} "$@"\n'
            )
            program.chmod(0o755)
        return commands

    @property
    def config(self) -> Config:
        return Config(**json.loads((self.state / "config.json").read_text()))

    @contextmanager
    def locked(self) -> Iterator[None]:
        with (self.state / "lock").open("a") as handle:
            fcntl.flock(handle, fcntl.LOCK_EX)
            yield

    def jobs(self) -> dict[str, dict[str, Any]]:
        """All jobs by id, also those that a real server may have forgotten."""
        result = {}
        paths = sorted(self.jobs_directory.glob("*.json"), key=lambda path: int(path.stem))
        for path in paths:
            job = json.loads(path.read_text())
            result[job["id"]] = job
        return result

    def write(self, job: dict[str, Any]) -> None:
        path = self.jobs_directory / f"{job['id'].partition('.')[0]}.json"
        aside = path.with_suffix(f".{os.getpid()}.tmp")
        aside.write_text(json.dumps(job))
        aside.replace(path)

    def change(self, job_id: str, **values: Any) -> dict[str, Any]:
        with self.locked():
            job = self.jobs()[job_id]
            job.update(values)
            self.write(job)
            return job

    def alive(self) -> list[str]:
        """Ids of jobs that are queued or running."""
        return [job_id for job_id, job in self.jobs().items() if job["state"] in "QRHE"]

    def lose(self, host: str) -> None:
        """The host is gone with all of its processes."""
        self.set(lost=[*self.config.lost, host])

    def bring_back(self) -> None:
        """Lost hosts are there again."""
        self.set(lost=[])

    def shorten(self, job_id: str) -> None:
        """The wall time of a running job is over."""
        self.change(job_id, resources={**self.jobs()[job_id]["resources"], "walltime": "0:0:1"})

    def set(self, **values: Any) -> None:
        with self.locked():
            aside = self.state / f"config.{os.getpid()}.tmp"
            aside.write_text(json.dumps(asdict(replace(self.config, **values))))
            aside.replace(self.state / "config.json")


def refuse(answer: Answer, **new: str) -> int:
    """What the real one said and how it ended, with its words replaced by those of `new`."""
    print(answer.line(**new), file=sys.stderr)
    return answer.exit_status


def down(command: str) -> int:
    answer = STATES[f"server down: {command}"]
    print(answer.stderr, end="", file=sys.stderr)
    return answer.exit_status


def seconds_of(walltime: str) -> int:
    hours, minutes, seconds = map(int, walltime.split(":"))
    return hours * 3600 + minutes * 60 + seconds


def qsub(pbs: Pbs, words: list[str]) -> int:
    options: dict[str, str] = {}
    resources: dict[str, str] = {}
    *flags, script = words
    flags_left = iter(flags)
    for flag in flags_left:
        if flag not in {"-N", "-r", "-j", "-o", "-q", "-A", "-l", "-m", "-k", "-S"}:
            print(REFUSALS["an unknown option"].stderr, end="", file=sys.stderr)
            return REFUSALS["an unknown option"].exit_status
        value = next(flags_left)
        if flag == "-l":
            name, _, values = value.partition("=")
            resources[name] = values
        else:
            options[flag] = value
    if not resources.keys() <= {"select", "place", "walltime"}:
        return refuse(STATES["qsub with an unknown resource"])
    queue = options.get("-q", "workq")
    with pbs.locked():
        number = 101 + len(list(pbs.jobs_directory.glob("*.json")))
        copy = pbs.jobs_directory / f"{number}.sh"
        shutil.copy(script, copy)
        job = {
            "id": f"{number}.{SERVER}",
            "name": options.get("-N", "STDIN"),
            "queue": queue,
            "state": "Q",
            "exit": None,
            "resources": resources,
            "output": options.get("-o", ""),
            "direct": "d" in options.get("-k", ""),
            "host": "",
            "directory": str(Path.cwd()),
            "submitted": time.time(),
            "delete": "",
        }
        pbs.write(job)
    subprocess.Popen(
        [sys.executable, "-I", __file__, str(pbs.state), "run", job["id"]],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=(pbs.state / "runners").open("a"),
        cwd="/",
        start_new_session=True,
    )
    print(job["id"])
    return 0


def run(pbs: Pbs, job_id: str) -> int:
    """A job's life: its turn, its processes, its end."""
    # The submitting command ignores them; a job of a real server inherits nothing from it.
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_DFL)
    while True:
        with pbs.locked():
            config = pbs.config
            job = pbs.jobs()[job_id]
            if job["state"] == "F":  # a test has said so
                return 0
            if job["delete"]:
                job["state"] = "F"
                pbs.write(job)
                return 0
            running = [other["host"] for other in pbs.jobs().values() if other["state"] in "RE"]
            waited = time.time() - job["submitted"]
            free = [host for host in config.nodes if host not in config.lost]
            if free and waited >= config.start_delay and len(running) < config.running:
                job |= {"state": "R", "host": min(free, key=running.count)}
            pbs.write(job)
            if job["state"] == "R":
                break
        time.sleep(TICK)
    number = job_id.partition(".")[0]
    spool = Path(job["output"]) if job["direct"] else pbs.jobs_directory / f"{number}.OU"
    temporary = pbs.scratch / f"pbs.{job_id}"
    temporary.mkdir(mode=0o700, parents=True)
    # What PBS gives to a job: a login's variables and its own, nothing of the submitting shell.
    environment = {
        "HOME": str(Path.home()),
        "PATH": "/usr/local/bin:/usr/bin:/bin",
        "LANG": "C.UTF-8",
        "PBS_JOBID": job_id,
        "PBS_O_WORKDIR": job["directory"],
        "PBS_ENVIRONMENT": "PBS_BATCH",
        "TMPDIR": str(temporary),
    }
    # Others write into it too: what PBS itself says.
    with spool.open("ab") as output:
        process = subprocess.Popen(
            ["/bin/sh", str(pbs.jobs_directory / f"{number}.sh")],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            cwd=Path.home(),
            env=environment,
            start_new_session=True,
        )
    pbs.change(job_id, group=process.pid)
    started = time.monotonic()
    own = None
    while process.poll() is None:
        if job["host"] in pbs.config.lost:
            return lose(pbs, job_id, process)
        job = pbs.jobs()[job_id]  # a test may have changed it
        passed = time.monotonic() - started
        limit = seconds_of(job["resources"].get("walltime", "1000:00:00"))
        if passed > limit and own is None:
            own = WALL_TIME
            with spool.open("a") as output_end:
                print(
                    f"=>> PBS: job killed: walltime {passed:.0f} exceeded limit {limit}",
                    file=output_end,
                )
        if (deleted := job["delete"]) and own is None:
            own = FORCED if deleted == "force" else DELETED
        if own is not None:
            end(process, config.kill_delay)
        time.sleep(TICK)
    # Nothing of a job outlives it.
    end(process, 0)
    code = process.returncode
    # The login shell that ran the script says how it ended.
    status = own if own is not None else code if code >= 0 else 128 - code
    pbs.change(job_id, state="E")
    time.sleep(config.exit_delay)
    if job["output"] and not job["direct"]:
        shutil.move(spool, job["output"])
    # As pbs_mom does: once, with whatever is in it.
    shutil.rmtree(temporary, ignore_errors=True)
    pbs.change(job_id, state="F", exit=status)
    return 0


def lose(pbs: Pbs, job_id: str, process: subprocess.Popen[bytes]) -> int:
    """What becomes of a job whose host is gone: PBS shows it as running until it is deleted by
    force."""
    with suppress(psutil.NoSuchProcess):
        below = psutil.Process(process.pid).children(recursive=True)
        # No shell may live to write down how its program has ended.
        os.killpg(process.pid, signal.SIGKILL)
        for one in below:
            with suppress(psutil.NoSuchProcess):
                one.kill()
    process.wait()
    shutil.rmtree(pbs.scratch / f"pbs.{job_id}", ignore_errors=True)
    while pbs.jobs()[job_id]["delete"] != "force":
        time.sleep(TICK)
    pbs.change(job_id, state="F")
    return 0


def end(process: subprocess.Popen[bytes], delay: float) -> None:
    for number in (signal.SIGTERM, signal.SIGKILL):
        try:
            os.killpg(process.pid, number)
        except ProcessLookupError:
            return
        deadline = time.monotonic() + delay
        while process.poll() is None and time.monotonic() < deadline:
            time.sleep(TICK)
        if number == signal.SIGTERM and process.poll() is not None and delay:
            return
    process.wait()


def qstat(pbs: Pbs, words: list[str]) -> int:
    config = pbs.config
    ids = [word for word in words if word[0].isdigit()]
    jobs, code = [], 0
    known = pbs.jobs()
    for job_id in ids:
        job = known.get(job_id)
        over = job is not None and job["state"] == "F"
        if "-x" in words and not config.history:
            code = refuse(NO_HISTORY, id=job_id)
        elif job is None or (over and not config.history):
            code = refuse(UNKNOWN, id=job_id)
        elif over and "-x" not in words:
            code = refuse(FINISHED, id=job_id)
        else:
            jobs.append(job)
    if "-f" in words:
        print("".join(map(block, jobs)), end="")
    else:
        print(table(jobs), end="")
    return code


def qdel(pbs: Pbs, words: list[str]) -> int:
    config = pbs.config
    ids = [word for word in words if word[0].isdigit()]
    jobs = [pbs.jobs().get(job_id) for job_id in ids]
    unknown = [job is None or (job["state"] == "F" and not config.history) for job in jobs]
    if jobs and jobs[0] and jobs[0]["state"] == "Q" and any(unknown[1:]):
        # So the real one died, tried twice: nothing on stderr, exit status 0.
        pbs.set(crashed=True)
        return 0
    code = 0
    for job_id, job, gone in zip(ids, jobs, unknown, strict=True):
        if job is None or gone:
            code = refuse(STATES["delete an unknown job"], id=job_id)
        elif job["state"] == "F":
            code = refuse(STATES["delete a finished job"], id=job_id)
        elif job["host"] in config.lost and "-W" not in words:
            code = refuse(HOSTS["mom of n1 killed: delete a job there"], id=job_id)
        else:
            pbs.change(job_id, delete="force" if "-W" in words else "yes")
    return code


def qselect(pbs: Pbs, words: list[str]) -> int:
    if "-x" in words and not pbs.config.history:
        return refuse(HISTORY["history off: find a running job by its name"])
    for job in pbs.jobs().values():
        if job["name"] == words[-1] and job["state"] in ("QRHEF" if "-x" in words else "QRHE"):
            print(job["id"])
    return 0


def pbsnodes(config: Config, words: list[str]) -> int:
    if "-l" in words:
        for name in config.lost:
            print(f"{name:<20} down                 node down: communication closed")
        return 0
    for name, has in config.nodes.items():
        print(f"{name}\n     state = {'down' if name in config.lost else 'free'}")
        print("".join(f"     resources_available.{key} = {value}\n" for key, value in has.items()))
    return 0


def main(state: str, command: str, *words: str) -> int:
    pbs = Pbs(Path(state))
    if command == "run":
        return run(pbs, words[0])
    if pbs.config.crashed:
        return down(command if command in ("qsub", "qdel") else "qstat")
    if command == "pbsnodes":
        return pbsnodes(pbs.config, list(words))
    commands = {"qsub": qsub, "qstat": qstat, "qdel": qdel, "qselect": qselect}
    return commands[command](pbs, list(words))


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
