"""A stand-in PBS for a thousand jobs on one host.

    python scheduler.py DIRECTORY SLOTS STUDY JOB_SECONDS

It has Storewise's modules loaded and forks a process per job. Jobs of workers and nodes are run in
that process (`jobs.py`), JOB_SECONDS after their start, which is what the Snakemake of a job takes
on a host of its own. All other jobs run their script, as in PBS. DIRECTORY gets ``socket``, on
which the commands ask (`client.py`), and ``journal``: a line of JSON for each event.
"""

from __future__ import annotations

import gc
import json
import os
import resource
import selectors
import signal
import socket
import sys
from collections import deque
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

from jobs import Journal, Stub, load, stub_of, target_of

TICK = 0.05
#: Jobs that are started between two looks at the commands.
STARTS = 10
DELETED = 271
WORKER_NICE = 10
#: What a job of OpenPBS has in its environment, beside the rest: qstat prints it.
VARIABLES = ",".join(f"PBS_O_VARIABLE_{n}=/a/directory/of/a/user/of/the/cluster" for n in range(12))


@dataclass(slots=True)
class Job:
    """A job of the stand-in PBS."""

    id: str
    name: str
    script: str
    output: str
    state: str = "Q"
    pid: int = 0
    exit: int | None = None
    deleted: bool = False


class Scheduler:
    """One thread that takes commands, starts jobs, and collects ended jobs."""

    def __init__(self, directory: Path, slots: int, stubs: Stub) -> None:
        self.directory, self.slots, self.stubs = directory, slots, stubs
        self.journal = Journal(directory / "journal")
        self.jobs: dict[str, Job] = {}
        self.waiting: deque[Job] = deque()
        self.running: dict[int, Job] = {}
        self.number = 0
        self.server = socket.socket(socket.AF_UNIX)
        self.server.bind(str(directory / "socket"))
        self.server.listen(64)
        self.selector = selectors.DefaultSelector()
        self.selector.register(self.server, selectors.EVENT_READ)
        self.ended = False

    def run(self) -> None:
        signal.signal(signal.SIGTERM, self.end)
        (self.directory / "ready").touch()
        while not self.ended:
            if self.selector.select(TICK):
                connection, _ = self.server.accept()
                with connection, connection.makefile("rb") as lines:
                    command, words, directory = json.loads(lines.readline())
                    answer = getattr(self, command)(words, directory)
                    connection.sendall(json.dumps(answer).encode())
            self.collect()
            for _ in range(min(STARTS, len(self.waiting), self.slots - len(self.running))):
                self.start(self.waiting.popleft())
        for pid in self.running:
            _kill(pid, signal.SIGKILL)
        used = resource.getrusage(resource.RUSAGE_CHILDREN)
        self.journal.write("computed", round(used.ru_utime + used.ru_stime, 1))

    def end(self, *_: object) -> None:
        self.ended = True

    # The commands: each returns its exit status and what it prints.

    def qsub(self, words: list[str], directory: str) -> tuple[int, str, str]:
        *_, script = words
        options = dict(pairwise(words))
        self.number += 1
        text = Path(script).read_text()
        job_id, name = f"{self.number}.standin", options.get("-N", "STDIN")
        self.jobs[job_id] = job = Job(job_id, name, text, options.get("-o", ""))
        self.waiting.append(job)
        self.journal.write("submitted", job_id, name=name, target=target_of(text))
        return 0, f"{job_id}\n", ""

    def qstat(self, words: list[str], directory: str) -> tuple[int, str, str]:
        self.journal.write("qstat", len(words))
        ids = [word for word in words if word[0].isdigit()]
        jobs = [self.jobs[job_id] for job_id in ids if job_id in self.jobs]
        unknown = [job_id for job_id in ids if job_id not in self.jobs]
        errors = "".join(f"qstat: Unknown Job Id {job_id}\n" for job_id in unknown)
        return (153 if unknown else 0), "".join(map(_block, jobs)), errors

    def qdel(self, words: list[str], directory: str) -> tuple[int, str, str]:
        for job_id in words:
            if (job := self.jobs.get(job_id)) is None:
                continue
            job.deleted = True
            if job.state == "R":
                _kill(job.pid, signal.SIGTERM)
            elif job.state == "Q":
                self.waiting.remove(job)
                job.state, job.exit = "F", DELETED
        return 0, "", ""

    def qselect(self, words: list[str], directory: str) -> tuple[int, str, str]:
        name = words[words.index("-N") + 1]
        return 0, "".join(f"{job.id}\n" for job in self.jobs.values() if job.name == name), ""

    def pbsnodes(self, words: list[str], directory: str) -> tuple[int, str, str]:
        if "-l" in words:
            return 0, "", ""
        has = {"host": "n1", "ncpus": self.slots, "mem": "1024gb"}
        lines = [f"     resources_available.{key} = {value}" for key, value in has.items()]
        return 0, "\n".join(["n1", "     state = free", *lines, "", ""]), ""

    # The jobs.

    def start(self, job: Job) -> None:
        pid = os.fork()
        if pid == 0:
            self._child(job)
        job.pid, job.state = pid, "R"
        self.running[pid] = job
        self.journal.write("started", job.id, name=job.name)

    def _child(self, job: Job) -> None:
        status = 1
        try:
            for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
                signal.signal(number, signal.SIG_DFL)
            os.setsid()
            stub = stub_of(job.script)
            # A thousand that compute at once would leave nothing to Snakemake, nor to others.
            os.setpriority(os.PRIO_PROCESS, 0, 0 if stub is None else WORKER_NICE)
            self.server.close()
            log = os.open(job.output or os.devnull, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
            for number in (1, 2):
                os.dup2(log, number)
            os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
            os.environ |= {"PBS_JOBID": job.id, "PBS_ENVIRONMENT": "PBS_BATCH"}
            if stub is None:
                os.execv("/bin/sh", ["/bin/sh", "-c", job.script])
            status = self.stubs.run(*stub, self.journal)
        except BaseException:  # noqa: BLE001 - told in the job's log, and the process ends
            sys.excepthook(*sys.exc_info())
        finally:
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(status)

    def collect(self) -> None:
        while self.running:
            pid, status = os.waitpid(-1, os.WNOHANG)
            if pid == 0:
                return
            job = self.running.pop(pid)
            code = os.waitstatus_to_exitcode(status)
            job.state, job.exit = "F", DELETED if job.deleted else code if code >= 0 else 128 - code
            self.journal.write("ended", job.id, name=job.name, status=job.exit)


def _kill(group: int, number: int) -> None:
    try:
        os.killpg(group, number)
    except ProcessLookupError:
        return


def _block(job: Job) -> str:
    """The output of ``qstat -f`` for a job."""
    lines = [
        f"Job Id: {job.id}",
        f"    Job_Name = {job.name}",
        "    Job_Owner = user@login",
        *(["    resources_used.walltime = 00:00:01"] if job.state != "Q" else []),
        f"    job_state = {job.state}",
        "    queue = workq",
        *(["    exec_host = n1/0"] if job.state != "Q" else []),
        "    Resource_List.ncpus = 1",
        "    Resource_List.select = 1:ncpus=1:mem=2000mb",
        "    Resource_List.walltime = 12:00:00",
        *(["    substate = 42"] if job.state == "R" else []),
        f"    Variable_List = {VARIABLES}",
        *([f"    Exit_status = {job.exit}"] if job.exit is not None else []),
        "    etime = Thu Jan  1 00:00:00 1970",
    ]
    return "\n".join([*lines, "", ""])


def main() -> None:
    directory, slots, study, seconds = sys.argv[1:]
    stubs: Any = load(study, float(seconds))
    gc.collect()
    # What is never looked at by the collector is never written to: its pages stay shared.
    gc.freeze()
    Scheduler(Path(directory), int(slots), stubs).run()


if __name__ == "__main__":
    main()
