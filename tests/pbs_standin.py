"""Stand-ins for the commands of PBS, where no PBS is installed.

They keep to the manual pages of OpenPBS (qsub, qstat, qdel, qselect, pbsnodes) as far as the
profile uses them: ids, states Q R E F, JSON and history, delays, refusals, limits, wall times,
a job's own $TMPDIR, and its output file that appears when it has ended. With ``dialect: torque``
they print ``qstat -f`` as Torque does. The jobs really run, each below a runner process that takes
its turn.

As a program: ``pbs_standin.py STATE COMMAND ARGUMENT...``; `install` makes executables of it.
State directory: ``config.json`` (a `Config`), ``jobs/<number>.json``, ``calls`` (a line a call),
``scratch/pbs.<id>`` (a job's $TMPDIR).
"""

from __future__ import annotations

import fcntl
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

COMMANDS = ("qsub", "qstat", "qdel", "qselect", "pbsnodes")
SERVER = "standin"
UNKNOWN, FINISHED = 153, 35
TICK = 0.1


@dataclass
class Config:
    """How this PBS behaves. Times in seconds."""

    dialect: str = "openpbs"
    running: int = 8
    start_delay: float = 0.0
    exit_delay: float = 0.1
    kill_delay: float = 3.0
    history: bool = True
    queues: tuple[str, ...] = ("workq", "long")
    queued: int = 1000
    """Jobs that may be queued or running at a time."""
    qsub_busy: int = 0
    """Submissions that are refused because the server cannot be reached."""
    qsub_lost: int = 0
    """Submissions that are taken although the answer is lost."""
    qstat: str = "ok"
    """ok, fail, garbage or hang."""
    qdel_busy: int = 0
    nodes: dict[str, dict[str, Any]] = field(
        default_factory=lambda: {"n1": {"ncpus": 16, "mem": "65536mb"}}
    )


class Pbs:
    """The state directory, as the commands and a test see it."""

    def __init__(self, state: Path) -> None:
        self.state = state
        self.jobs_directory = state / "jobs"
        self.scratch = state / "scratch"

    def install(self, config: Config) -> Path:
        """Make the commands; returns the directory to put on PATH."""
        self.jobs_directory.mkdir(parents=True)
        self.configure(config)
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

    def configure(self, config: Config) -> None:
        aside = self.state / f"config.{os.getpid()}.tmp"
        aside.write_text(json.dumps(asdict(config)))
        aside.replace(self.state / "config.json")

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
        found = {}
        paths = sorted(self.jobs_directory.glob("*.json"), key=lambda path: int(path.stem))
        for path in paths:
            job = json.loads(path.read_text())
            found[job["id"]] = job
        return found

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
        return [job_id for job_id, job in self.jobs().items() if job["state"] in "QRE"]

    def calls(self, command: str) -> list[str]:
        """Calls of a command so far."""
        path = self.state / "calls"
        lines = path.read_text().splitlines() if path.exists() else []
        return [line for line in lines if line.split()[0] == command]

    def spend(self, key: str) -> bool:
        """Use up one of the troubles that the configuration counts."""
        with self.locked():
            config = self.config
            left = getattr(config, key)
            if left:
                setattr(config, key, left - 1)
                self.configure(config)
            return bool(left)


def refuse(text: str, code: int) -> int:
    print(text, file=sys.stderr)
    return code


def seconds_of(walltime: str) -> int:
    hours, minutes, seconds = map(int, walltime.split(":"))
    return hours * 3600 + minutes * 60 + seconds


def qsub(pbs: Pbs, words: list[str]) -> int:
    config = pbs.config
    options: dict[str, str] = {}
    resources: dict[str, str] = {}
    *flags, script = words
    flags_left = iter(flags)
    for flag in flags_left:
        if flag == "-n" and config.dialect == "torque":
            continue
        if flag not in {"-N", "-r", "-j", "-o", "-q", "-A", "-l"}:
            return refuse(f"qsub: invalid option -- '{flag.lstrip('-')}'", 2)
        value = next(flags_left)
        if flag == "-l":
            name, _, given = value.partition("=")
            resources[name] = given
        else:
            options[flag] = value
    known = {"openpbs": {"select", "place", "walltime"}, "torque": {"nodes", "mem", "walltime"}}
    for name in resources:
        if name not in known[config.dialect]:
            return refuse(f"qsub: Unknown resource: {name}", 171)
    if not re.fullmatch(r"[A-Za-z][A-Za-z0-9_.+-]{0,229}", options.get("-N", "STDIN")):
        return refuse("qsub: illegal -N value", 2)
    queue = options.get("-q", config.queues[0])
    if pbs.spend("qsub_busy"):
        return refuse("Connection refused\nqsub: cannot connect to server standin (errno=111)", 111)
    if queue not in config.queues:
        return refuse("qsub: Unknown queue", 170)
    chunk = resources.get("select", "")
    wanted = int((re.search(r"ncpus=(\d+)", chunk) or [0, "1"])[1])
    if wanted > 4096:
        return refuse("qsub: Job exceeds queue and/or server resource limits", 188)
    with pbs.locked():
        if len(pbs.alive()) >= config.queued:
            return refuse(
                "qsub: would exceed complex's limit on number of jobs that may be queued", 188
            )
        number = 101 + len(list(pbs.jobs_directory.glob("*.json")))
        copy = pbs.jobs_directory / f"{number}.sh"
        shutil.copy(script, copy)
        job = {
            "id": f"{number}.{SERVER}",
            "name": options.get("-N", "STDIN"),
            "queue": queue,
            "state": "Q",
            "exit": None,
            "account": options.get("-A", ""),
            "resources": resources,
            "output": options.get("-o", ""),
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
    if pbs.spend("qsub_lost"):
        return refuse("qsub: End of File", 1)
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
            if job["delete"]:
                job["state"] = "F"
                pbs.write(job)
                return 0
            busy = sum(other["state"] in "RE" for other in pbs.jobs().values())
            waited = time.time() - job["submitted"]
            if busy < config.running and waited >= config.start_delay:
                job["state"] = "R"
                pbs.write(job)
                break
        time.sleep(TICK)
    number = job_id.partition(".")[0]
    spool = pbs.jobs_directory / f"{number}.OU"
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
    with spool.open("wb") as output:
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
    limit = time.monotonic() + seconds_of(job["resources"].get("walltime", "1000:00:00"))
    own = None
    while process.poll() is None:
        if time.monotonic() > limit:
            own = -29
        if own is not None or pbs.jobs()[job_id]["delete"]:
            pbs.change(job_id, state="E")
            end(process, config.kill_delay)
        time.sleep(TICK)
    # Nothing of a job outlives it.
    end(process, 0)
    code = process.returncode
    status = own if own is not None else code if code >= 0 else 256 - code
    pbs.change(job_id, state="E")
    time.sleep(config.exit_delay)
    if job["output"]:
        shutil.move(spool, job["output"])
    # As pbs_mom does: once, with whatever is in it.
    shutil.rmtree(temporary, ignore_errors=True)
    pbs.change(job_id, state="F", exit=status)
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


def described(job: dict[str, Any]) -> dict[str, Any]:
    """A job's attributes as ``qstat -f`` names them in OpenPBS."""
    text = {
        "Job_Name": job["name"],
        "Job_Owner": "user@host",
        "job_state": job["state"],
        "queue": job["queue"],
        "server": SERVER,
        "Rerunable": "False",
        "Resource_List": {"select": job["resources"].get("select", ""), "ncpus": 1},
        "Variable_List": {"PBS_O_HOME": "/home/user", "PBS_O_LANG": "C.UTF-8"},
        "comment": 'Job run on "n1" ü',
        "project": "_pbs_project_default",
    }
    return text if job["exit"] is None else {**text, "Exit_status": job["exit"]}


def qstat(pbs: Pbs, words: list[str]) -> int:
    config = pbs.config
    if config.qstat == "hang":
        signal.pause()
    if config.qstat == "fail":
        return refuse("Connection refused\nqstat: cannot connect to server standin", 111)
    if config.qstat == "garbage":
        print('{\n    "timestamp":17')
        return 0
    ids = [word for word in words if word[0].isdigit()]
    torque = config.dialect == "torque"
    jobs, code = {}, 0
    known = pbs.jobs()
    for job_id in ids:
        job = known.get(job_id)
        over = job is not None and job["state"] == "F"
        if job is None or (over and not config.history):
            print(f"qstat: Unknown Job Id {job_id}", file=sys.stderr)
            code = UNKNOWN
        elif over and not torque and "-x" not in words:
            print(
                f"qstat: {job_id} Job has finished, use -x or -H to obtain historical job "
                "information",
                file=sys.stderr,
            )
            code = FINISHED
        else:
            jobs[job_id] = job
    if torque and "-f" in words:
        for job_id, job in jobs.items():
            letter = "C" if job["state"] == "F" else job["state"]
            print(f"Job Id: {job_id}\n    Job_Name = {job['name']}\n    job_state = {letter}")
            print("    Variable_List = PBS_O_HOME=/home/user,PBS_O_LANG=C.UTF-8,\n\tPATH=/bin")
            if job["exit"] is not None:
                print(f"    exit_status = {job['exit']}")
            print()
    elif "json" in words:
        answer = {"timestamp": int(time.time()), "pbs_version": "23.06.06", "pbs_server": SERVER}
        if jobs:
            answer["Jobs"] = {job_id: described(job) for job_id, job in jobs.items()}
        print(json.dumps(answer, indent=4, separators=(",", ":"), ensure_ascii=False))
    elif jobs:
        print("Job id            Name             User              Time Use S Queue")
        print("----------------  ---------------- ----------------  -------- - -----")
        for job_id, job in jobs.items():
            letter = "C" if torque and job["state"] == "F" else job["state"]
            print(
                f"{job_id[:16]:17} {job['name'][:16]:16} user               00:00:00 {letter} "
                f"{job['queue']}"
            )
    return code


def qdel(pbs: Pbs, words: list[str]) -> int:
    if pbs.spend("qdel_busy"):
        return refuse("Connection refused\nqdel: cannot connect to server standin", 111)
    force = "-W" in words
    code = 0
    for job_id in (word for word in words if word[0].isdigit()):
        job = pbs.jobs().get(job_id)
        if job is None:
            code = refuse(f"qdel: Unknown Job Id {job_id}", UNKNOWN)
        elif job["state"] == "F":
            code = refuse(f"qdel: Job has finished {job_id}", FINISHED)
        elif job["delete"] and not force:
            code = refuse(f"qdel: Request invalid for state of job {job_id}", 21)
        else:
            pbs.change(job_id, delete="force" if force else "yes")
    return code


def main(state: str, command: str, *words: str) -> int:
    pbs = Pbs(Path(state))
    if command == "run":
        return run(pbs, words[0])
    with (pbs.state / "calls").open("a") as calls:
        calls.write(" ".join((command, *words)) + "\n")
    if command == "qselect":
        states = "QREF" if "-x" in words and pbs.config.history else "QRE"
        for job in pbs.jobs().values():
            if job["name"] == words[-1] and job["state"] in states:
                print(job["id"])
        return 0
    if command == "pbsnodes":
        nodes = {name: {"resources_available": has} for name, has in pbs.config.nodes.items()}
        print(json.dumps({"pbs_server": SERVER, "nodes": nodes}, indent=4))
        return 0
    return {"qsub": qsub, "qstat": qstat, "qdel": qdel}[command](pbs, list(words))


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
