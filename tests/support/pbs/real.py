"""A real PBS as the tests of profiles/pbs see it, with the names of `pbs_standin.Pbs`.

They take it where ``STOREWISE_PBS=1`` is set, by an ordinary user who may submit jobs and reach the
hosts with ssh (or by the command of ``STOREWISE_ON_HOST``), in a directory that all hosts see::

    STOREWISE_PBS=1 python -m pytest --basetemp=$HOME/pbs-tests tests/faults/pbs

The queue must be otherwise empty enough for two nodes of their own and two workers. What only an
administrator may do to a PBS is done by the program that ``STOREWISE_PBS_ADMIN`` names, called with
``lose HOST``, ``return HOST``, ``stop-queue``, ``start-queue``, ``stop-server`` or
``start-server``; without it the tests that need that are left out.
"""

from __future__ import annotations

import getpass
import os
import subprocess
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from support.pbs.answers import states_of
from support.slurm.on_host import ask

WANTED = os.environ.get("STOREWISE_PBS") == "1"
ADMIN = os.environ.get("STOREWISE_PBS_ADMIN", "")


class RealPbs:
    """Jobs whose output goes below `directory`. Without a job history the server forgets those that
    have ended, so a thread looks once a second."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.hosts = [line for line in _said("pbsnodes", "-a").splitlines() if line[:1].strip()]
        self.history = "job_history_enable = True" in _said("qstat", "-B", "-f")
        #: Where $TMPDIR of jobs is, as far as it was seen.
        self.scratch: set[str] = set()
        self._seen: dict[str, dict[str, Any]] = {}
        self._lost: set[str] = set()
        #: Jobs of the same user elsewhere: each one more in a question makes its answer slower.
        self._others: set[str] = set()
        self._lock = threading.Lock()
        self._ended = threading.Event()
        threading.Thread(target=self._watch, daemon=True).start()

    def end(self) -> None:
        self._ended.set()

    def lose(self, host: str) -> None:
        """The host is gone with all of its processes."""
        self._lost.add(host)
        administer("lose", host)

    def bring_back(self) -> None:
        """Lost hosts are there again."""
        for host in self._lost:
            administer("return", host)
        self._lost.clear()

    def shorten(self, job_id: str) -> None:
        """The wall time of a running job is over soon."""
        subprocess.run(["qalter", "-l", "walltime=00:00:05", job_id], check=True)

    def stop_queue(self, stopped: bool) -> None:
        administer("stop-queue" if stopped else "start-queue")

    def stop_server(self, stopped: bool) -> None:
        administer("stop-server" if stopped else "start-server")

    def _watch(self) -> None:
        while not self._ended.wait(1):
            self.jobs()

    def jobs(self) -> dict[str, dict[str, Any]]:
        with self._lock:
            here = {}
            ids = _said("qselect", *(["-x"] if self.history else []), "-u", getpass.getuser())
            old = {key for key, job in self._seen.items() if job["state"] == "F"} | self._others
            request = [job_id for job_id in ids.split() if job_id not in old]
            if request:
                text = _said("qstat", *(["-x"] if self.history else []), "-f", *request)
                here = states_of(text.replace("\n\t", ""))
            for job_id, job in self._seen.items():
                if job_id not in here:
                    job["state"] = "F"
            for job_id, text_of in here.items():
                job = _job(job_id, text_of)
                if Path(job["output"]).is_relative_to(self.directory):
                    self._seen[job_id] = job
                else:
                    self._others.add(job_id)
            # In the order of their submission.
            number = {job_id: int(job_id.partition(".")[0]) for job_id in self._seen}
            return {
                job_id: self._seen[job_id] for job_id in sorted(self._seen, key=number.__getitem__)
            }

    def alive(self) -> list[str]:
        return [job_id for job_id, job in self.jobs().items() if job["state"] != "F"]

    def left(self) -> list[str]:
        """Processes of the tests and $TMPDIR of jobs that have not gone from the hosts yet."""
        jobs = list(self._seen.values())

        def on(host: str) -> list[str]:
            ran = [job["id"] for job in jobs if job["host"] == host]
            scratch = [f"{root}/pbs.{job_id}" for root in self.scratch for job_id in ran]
            if host in self._lost:
                return []
            running = ask(host, "below", str(self.directory), *scratch)
            return [
                *(f"process {pid} on {host}" for pid in running),
                *(f"{path} on {host}" for path in ask(host, "exist", *scratch)),
            ]

        # All at once: one after another, a look at eight hosts took up to half of what is allowed.
        with ThreadPoolExecutor(max_workers=8) as pool:
            return [line for lines in pool.map(on, self.hosts) for line in lines]


def _job(job_id: str, output: dict[str, str]) -> dict[str, Any]:
    return {
        "id": job_id,
        "name": output["Job_Name"],
        "state": output["job_state"],
        "exit": int(output["Exit_status"]) if "Exit_status" in output else None,
        "resources": {
            key: output.get(f"Resource_List.{key}") for key in ("select", "place", "walltime")
        },
        "output": output["Output_Path"].partition(":")[2],
        "host": output.get("exec_host", "").partition("/")[0],
        "group": output.get("session_id"),
    }


def administer(*words: str) -> None:
    subprocess.run([ADMIN, *words], check=True, timeout=300)


def _said(*command: str) -> str:
    return subprocess.run(
        command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=300
    ).stdout
