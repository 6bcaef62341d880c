"""What the executor asks PBS for, with the ways around what servers cannot do."""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from snakemake_executor_plugin_pbs import nodes, qstat
from snakemake_executor_plugin_pbs.commands import (
    ASK_TIMEOUT,
    TAKE_TIMEOUT,
    Done,
    NoAnswer,
    NoProgram,
    run,
)
from snakemake_executor_plugin_pbs.dialects import OPENPBS, TORQUE, dialect_of
from snakemake_executor_plugin_pbs.request import first_words, passing

#: Seconds after which hosts are asked for again that the server did not tell.
ASK_AGAIN = 10.0
#: Ids of one qstat.
BATCH = 500
_ID = re.compile(r"\d+(\[\])?(\.\S+)?")
#: The server itself cannot be reached ("Server could not connect to MOM" is about a job's host).
_UNREACHABLE = re.compile(
    r"connect to (server|cluster)|connection refused|timed out", re.IGNORECASE
)


class Refused(Exception):
    """qsub took no job, and will not a little later; the message is in its words."""


@dataclass(slots=True)
class Answer:
    """States of the jobs that the server knows, by the ids that were asked for, and the ids it does
    not know. A job that is in neither was not spoken of."""

    states: dict[str, qstat.JobState] = field(default_factory=dict)
    unknown: set[str] = field(default_factory=set)


class Server:
    """The PBS server, as its commands show it. What one answer teaches (no job history, no JSON of
    several jobs) is kept."""

    def __init__(self, dialect: str, given_up: threading.Event | None = None) -> None:
        self.dialect = dialect
        self.history = True
        self.json = dialect != TORQUE
        self._given_up = given_up

    def _ask(self, command: Sequence[str]) -> Done:
        return run(command, ASK_TIMEOUT, self._given_up)

    def states(self, ids: Sequence[str]) -> Answer:
        """One look at many jobs. Tasks of arrays are asked for through their array. Raises NoAnswer
        where nothing useful came, NoProgram, GivenUp."""
        # Of an array, one question brings all tasks.
        wanted = list(dict.fromkeys(qstat.array_of(job_id) or job_id for job_id in ids))
        whole = Answer()
        for first in range(0, len(wanted), BATCH):
            part = self._states(wanted[first : first + BATCH])
            whole.states |= part.states
            whole.unknown |= part.unknown
        # Under the ids that were asked for; tasks of an unknown array are unknown.
        unknown = {
            job_id
            for job_id in ids
            if job_id in whole.unknown or qstat.array_of(job_id) in whole.unknown
        }
        states = qstat.matched(whole.states, ids)
        return Answer(states, unknown - set(states))

    def _states(self, wanted: list[str]) -> Answer:
        done = self._ask(self._query(wanted))
        if self.history and qstat.no_history(done.stderr):
            self.history = False
            done = self._ask(self._query(wanted))
        unknown = qstat.unknown_of(done.stderr, wanted)
        try:
            states = self._parsed(done.stdout)
        except ValueError as error:
            if not self.json:
                raise NoAnswer(f"{error}; qstat said: {done.words}") from None
            # Some versions write what is no JSON; the text is read then and from now on.
            self.json = False
            return self._states(wanted)
        missing = set(wanted) - set(qstat.matched(states, wanted)) - unknown
        if self.json and len(wanted) > 1 and missing and states:
            # OpenPBS since December 2023 prints the first job only (its issue 2672).
            self.json = False
            return self._states(wanted)
        if not states and not unknown:
            raise NoAnswer(f"qstat ended with {done.status}: {done.words}")
        return Answer(states, unknown)

    def _query(self, wanted: Sequence[str]) -> list[str]:
        return qstat.query(self.dialect, wanted, history=self.history, as_json=self.json)

    def _parsed(self, text: str) -> dict[str, qstat.JobState]:
        return qstat.parse_json(text or "{}") if self.json else qstat.parse_text(text)

    def submit(self, command: Sequence[str]) -> str:
        """Run qsub; returns the job's id. Raises Refused, NoProgram, and NoAnswer where the same
        command may be taken later (or has been taken already: see `find`)."""
        done = run(command, TAKE_TIMEOUT)
        lines = [line.strip() for line in done.stdout.splitlines() if line.strip()]
        if done.status == 0 and lines and _ID.fullmatch(lines[-1]):
            return lines[-1]
        words = first_words(done.stderr) or first_words(done.stdout) or "no message"
        if passing(words):
            raise NoAnswer(words)
        raise Refused(words)

    def find(self, name: str) -> list[str]:
        """The ids of the jobs of this name. Raises NoAnswer, NoProgram, GivenUp."""
        done = None
        # A short job may have ended meanwhile: -x lists those too, where there is a history.
        for words in [["-x"], []] if self.history and self.dialect != TORQUE else [[]]:
            done = self._ask(["qselect", *words, "-N", name])
            if not qstat.no_history(done.stderr):
                break
        if done is None or done.status != 0:
            raise NoAnswer(done.words if done else "qselect was not asked")
        return done.stdout.split()

    def delete(self, job_id: str, *, force: bool = False) -> str | None:
        """Ask for the end of a job, or of an array (``19[].server``). Returns None where it was
        accepted or the job is over, else the words of qdel; raises NoAnswer, NoProgram.

        `force` takes the job out of the server's books, also where its host does not answer. There
        is one id to a call: a server of OpenPBS 23.06 without a job history died of
        ``qdel ID1 ID2`` where the first waited and the second had ended.
        """
        how = (["-p"] if self.dialect == TORQUE else ["-W", "force"]) if force else []
        done = run(["qdel", *how, job_id], ASK_TIMEOUT)
        if done.status == 0 or any(word in done.stderr.lower() for word in qstat.UNKNOWN):
            return None
        if _UNREACHABLE.search(done.stderr):
            raise NoAnswer(done.words)
        return done.words

    def hosts(self) -> list[nodes.Host]:
        """The hosts of this PBS; none where users may not list them. Raises NoAnswer, NoProgram."""
        as_json = [["pbsnodes", "-a", "-F", "json"]] if self.dialect != TORQUE else []
        for command in [*as_json, ["pbsnodes", "-a"]]:
            done = self._ask(command)
            if done.status != 0:
                continue
            try:
                return nodes.hosts_of(done.stdout)
            except ValueError:
                continue  # an old PBS Pro has no -F, and some JSON is none
        return []

    def down(self) -> dict[str, str]:
        """Hosts that PBS cannot reach, and their states. Raises NoAnswer, NoProgram."""
        return nodes.down_of(self._ask(["pbsnodes", "-l"]).stdout)


def detect() -> tuple[str, str | None]:
    """The dialect of the PBS on PATH, and a warning where it had to be guessed."""
    try:
        done = run(["qstat", "--version"], ASK_TIMEOUT)
    except (NoProgram, NoAnswer) as error:
        return OPENPBS, f"{error}; this is taken for OpenPBS. --pbs-dialect says what it is."
    found = dialect_of(f"{done.stdout}\n{done.stderr}")
    if found is None:
        return OPENPBS, (
            f"`qstat --version` says {done.words!r}, which names no PBS that is known; this is "
            "taken for OpenPBS. --pbs-dialect says what it is."
        )
    return found, None


class Hosts:
    """The hosts, asked for at most once in `fresh` seconds; an old answer is better than none."""

    def __init__(
        self,
        server: Server,
        fresh: float = 600.0,
        *,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._server = server
        self._fresh = fresh
        self._clock = clock
        self._known: list[nodes.Host] = []
        self._not_before = self._answered = float("-inf")

    def get(self, fresh: float | None = None) -> list[nodes.Host]:
        """The hosts as of the last `fresh` seconds; none where PBS does not say."""
        limit = self._fresh if fresh is None else fresh
        now = self._clock()
        if now >= self._not_before and now - self._answered >= limit:
            try:
                self._known = self._server.hosts()
            except (NoAnswer, NoProgram):
                # It only saves a job from waiting for ever; qsub itself tells what is wrong. A
                # server that is back soon is asked again soon.
                self._not_before = now + ASK_AGAIN
                return self._known
            self._answered = now
        return self._known
