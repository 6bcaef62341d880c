"""The PBS server, through its commands."""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass, field

from snakemake_executor_plugin_pbs import hosts, qstat
from snakemake_executor_plugin_pbs.commands import (
    QUERY_TIMEOUT,
    SUBMIT_TIMEOUT,
    Done,
    NoAnswer,
    NoProgram,
    run,
)
from snakemake_executor_plugin_pbs.request import temporary

#: Seconds for which the list of hosts is kept, and after which it is asked for again where the
#: server did not answer.
HOSTS_FRESH = 600.0
HOSTS_RETRY = 10.0
#: Ids of one qstat.
BATCH = 500
_ID = re.compile(r"\d+(\.\S+)?")
#: The server itself cannot be reached ("Server could not connect to MOM" is about a job's host).
_UNREACHABLE = re.compile(
    r"connect to (server|cluster)|connection refused|timed out", re.IGNORECASE
)


class Refused(Exception):
    """qsub refused a job, and will again; the message is its own."""


@dataclass(slots=True)
class Answer:
    """States of the jobs that the server knows, by the ids that were asked for, and the ids it does
    not know. It has said nothing of a job that is in neither."""

    states: dict[str, qstat.JobState] = field(default_factory=dict)
    unknown: set[str] = field(default_factory=set)


class Server:
    """The commands of PBS. A query raises NoProgram, NoAnswer where nothing useful came, and
    Stopped when `stopped` is set."""

    def __init__(self, stopped: threading.Event | None = None) -> None:
        self.history = True
        self._stopped = stopped
        self._hosts: list[hosts.Host] = []
        self._ask_hosts_at = float("-inf")

    def _ask(self, command: Sequence[str]) -> Done:
        return run(command, QUERY_TIMEOUT, self._stopped)

    def _ask_history(self, program: str, *arguments: str) -> Done:
        """Also of finished jobs (``-x``), which a server without a job history refuses."""
        if self.history:
            done = self._ask([program, "-x", *arguments])
            if qstat.NO_HISTORY not in done.stderr.lower():
                return done
            self.history = False
        return self._ask([program, *arguments])

    def states(self, ids: Sequence[str]) -> Answer:
        """The states of many jobs."""
        answer = Answer()
        for first in range(0, len(ids), BATCH):
            part = self._states(ids[first : first + BATCH])
            answer.states |= part.states
            answer.unknown |= part.unknown
        return answer

    def _states(self, ids: Sequence[str]) -> Answer:
        done = self._ask_history("qstat", "-f", *ids)
        unknown = qstat.unknown_ids(done.stderr, ids)
        try:
            states = qstat.matched(qstat.parse(done.stdout), ids)
        except ValueError as error:
            raise NoAnswer(f"{error}; qstat printed: {done.error}") from None
        if not states and not unknown:
            raise NoAnswer(f"qstat ended with {done.status}: {done.error}")
        return Answer(states, unknown - states.keys())

    def submit(self, command: Sequence[str]) -> str:
        """Run qsub; returns the job's id. Raises Refused, NoProgram, and NoAnswer where the same
        command may be accepted later (or was accepted already: see `find`)."""
        done = run(command, SUBMIT_TIMEOUT)
        lines = done.stdout.split()
        if done.status == 0 and lines and _ID.fullmatch(lines[-1]):
            return lines[-1]
        raise (NoAnswer if temporary(done.error) else Refused)(done.error)

    def find(self, name: str) -> list[str]:
        """The ids of the jobs of this name, also of those that have ended where the server has a
        job history."""
        done = self._ask_history("qselect", "-N", name)
        if done.status != 0:
            raise NoAnswer(done.error)
        return done.stdout.split()

    def delete(self, job_id: str, *, force: bool = False) -> str | None:
        """Delete a job. Returns None where PBS accepts it or the job is over, else the error
        message of qdel; raises NoAnswer, NoProgram.

        `force` removes the job from the server, also where its host does not answer. One id a call:
        a server of OpenPBS 23.06 without a job history died of ``qdel ID1 ID2`` where the first
        waited and the second had ended.
        """
        done = run(["qdel", *(["-W", "force"] if force else []), job_id], QUERY_TIMEOUT)
        if done.status == 0 or any(text in done.stderr.lower() for text in qstat.UNKNOWN):
            return None
        if _UNREACHABLE.search(done.stderr):
            raise NoAnswer(done.error)
        return done.error

    def hosts(self) -> list[hosts.Host]:
        """The hosts, at most `HOSTS_FRESH` seconds old; none where the server does not say. They
        only save a job from waiting for ever, so no answer is no error."""
        now = time.monotonic()
        if now >= self._ask_hosts_at:
            try:
                done = self._ask(["pbsnodes", "-a"])
            except (NoAnswer, NoProgram):
                self._ask_hosts_at = now + HOSTS_RETRY
            else:
                self._hosts = hosts.hosts_of(done.stdout) if done.status == 0 else []
                self._ask_hosts_at = now + HOSTS_FRESH
        return self._hosts

    def down(self) -> dict[str, str]:
        """Hosts that PBS cannot reach, and their states."""
        return hosts.down_of(self._ask(["pbsnodes", "-l"]).stdout)
