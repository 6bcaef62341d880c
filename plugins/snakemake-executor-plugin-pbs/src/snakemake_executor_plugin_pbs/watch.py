"""Sees how jobs are: from the marks that they write, and from what PBS says of them."""

from __future__ import annotations

import os
import threading
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Protocol

from snakemake_executor_plugin_pbs import messages, reasons
from snakemake_executor_plugin_pbs.commands import GivenUp, NoAnswer, NoProgram, Pace
from snakemake_executor_plugin_pbs.jobs import JobTable, PbsJob
from snakemake_executor_plugin_pbs.nodes import names_of, short
from snakemake_executor_plugin_pbs.qstat import JobState, array_of
from snakemake_executor_plugin_pbs.script import exit_mark, start_mark
from snakemake_executor_plugin_pbs.server import Server

#: Seconds for which PBS is asked why a job failed that has said itself that it did.
REASON_FOR = 5.0
#: Seconds after which a job is given up that the server does not know: it may learn of a new job
#: late, and marks may be seen late on a network file system.
GRACE = 60.0
#: The same for a task that PBS says is over without saying how.
TASK_GRACE = 10.0
#: Looks in a row in which PBS must say that a job can never run.
NEVER = 3
#: Seconds that a job waits before the user is told why, and between two such lines.
TELL_AFTER = 30.0
TELL_EVERY = 60.0
#: Bytes at the end of a log in which the words of PBS are looked for.
TAIL = 8192
NOT_STARTED = "had not started when the run was stopped, and was deleted"


@dataclass(frozen=True, slots=True)
class Ended:
    """A job that is over; `what` is None where it ended well."""

    job: PbsJob
    what: str | None


class Delete(Protocol):
    """A function that starts the deletion of jobs and returns at once. `force` is
    ``qdel -W force``: PBS forgets the jobs even if their host does not answer."""

    def __call__(self, ids: Sequence[str], /, *, force: bool = False) -> object: ...


class Watch:
    """Looks at the jobs of a table. Times in seconds of one clock, handed in.

    `info` and `warn` say lines to the user. `lost` are the hosts that this run has lost.
    """

    def __init__(
        self,
        server: Server,
        table: JobTable,
        marks: Path,
        interval: float,
        lost_after: float,
        delete: Delete,
        info: Callable[[str], object],
        warn: Callable[[str], object],
    ) -> None:
        self._server = server
        self._table = table
        self._marks = marks
        self._lost_after = lost_after
        self._delete = delete
        self._info, self._warn = info, warn
        self._pace = Pace(interval)
        self._pace_lock = threading.Lock()
        self._down: dict[str, tuple[float, str]] = {}
        """Hosts that PBS cannot reach: since when, and in which state."""
        self._to_delete: dict[bool, list[str]] = {False: [], True: []}
        """Ids of jobs to be deleted, without and by force."""
        self._last_told = float("-inf")
        self._stopping = False
        self.lost: frozenset[str] = frozenset()

    # What the server's silence means to everybody who asks it.

    def answered(self, now: float) -> None:
        with self._pace_lock:
            again = self._pace.answered(now)
        if again:
            self._info(messages.ANSWERS_AGAIN)

    def unanswered(self, words: str, now: float) -> None:
        with self._pace_lock:
            first = self._pace.unanswered(now)
            pause = self._pace.pause
        if first:
            self._warn(messages.silent(words, pause))

    def look(self, now: float, stopping: bool) -> Iterator[Ended]:
        """One look at all jobs: the marks each time, PBS when it is its turn. Yields the jobs that
        are over; they are out of the table then.

        With `stopping`, jobs that have not started are deleted.
        """
        if stopping and not self._stopping:
            self._pace.hurry()
        self._stopping = stopping
        yield from self._read_marks(now)
        if self._table.announced() and self._pace.due(now):
            yield from self._ask(now)
        for job in self._table.announced():
            if self._explained(job, now):
                yield self._failed(job)
        if stopping:
            yield from self._drop_waiting()
        for force, ids in self._to_delete.items():
            if ids:
                self._delete(self._table.whole_arrays(ids), force=force)
                self._table.mark_handed_over(ids, ())
                ids.clear()
        self._tell_waiting(now)

    def _delete_later(self, jobs: Iterable[PbsJob], *, force: bool = False) -> None:
        """Mark jobs for deletion. The next `look` deletes them together; at the end of the run
        they are deleted with all other jobs."""
        ids = [job.id for job in jobs]
        self._table.add_unneeded(ids)
        self._to_delete[force] += ids

    def _read_marks(self, now: float) -> Iterator[Ended]:
        jobs = self._table.announced()
        if not jobs:
            return
        # Listing opens the directory anew: on NFS a file that was asked for too early may seem
        # absent for long.
        try:
            with os.scandir(self._marks) as entries:
                there = {entry.name for entry in entries}
        except OSError:
            return  # out of reach for now; PBS is asked in any case
        for job in jobs:
            job.began = job.began or start_mark(self._marks, job.key).name in there
            if job.exit_mark is not None or exit_mark(self._marks, job.key).name not in there:
                continue
            job.exit_mark = _status_in(exit_mark(self._marks, job.key))
            if job.exit_mark == 0:
                yield self._over(job, None)
            elif job.exit_mark is not None:
                job.failed_since = now
                self._pace.hurry()

    def _ask(self, now: float) -> Iterator[Ended]:
        jobs = self._table.announced()
        try:
            answer = self._server.states([job.id for job in jobs])
        except GivenUp:
            return
        except (NoAnswer, NoProgram) as error:
            self.unanswered(str(error), now)
            return
        self.answered(now)
        for job in jobs:
            state = answer.states.get(job.id)
            if state is not None:
                ended = self._judge(job, state, now)
            elif job.id in answer.unknown:
                ended = self._unknown(job, now)
            else:
                ended = None
            if ended is not None:
                yield ended
            elif job.failed_since is not None:
                self._pace.hurry()
        yield from self._see_hosts(now)

    def _judge(self, job: PbsJob, state: JobState, now: float) -> Ended | None:
        before, job.state = job.state, state
        if state.over:
            unclear = array_of(job.id) is not None and not state.exec_host
            if job.exit_mark is not None or (state.exit_status is not None and not unclear):
                well = job.exit_mark is None and state.exit_status == 0
                return self._over(job, None) if well else self._failed(job)
            if not unclear:
                return self._failed(job)
            # Of tasks that are over, a server without a history does not say how.
            return self._failed(job) if now - _since(job, now) > TASK_GRACE else None
        job.unknown_since = None
        if array_of(job.id) is not None and job.began and state.letter in "QHW":
            return self._sent_back(job, before)
        job.never = job.never + 1 if reasons.never(state.comment) and not state.started else 0
        if job.never >= NEVER:
            self._delete_later([job])
            return self._over(job, f"would never start: {state.comment}")
        return None

    def _unknown(self, job: PbsJob, now: float) -> Ended | None:
        """A job that the server does not know: it has forgotten it, or not learned of it yet."""
        since = _since(job, now)
        hosts = names_of(job.state.exec_host) if job.state else ()
        down = next((host for host in hosts if short(host) in self._down), None)
        known = job.exit_mark is not None or reasons.killed_of(self._tail(job)) is not None
        if down is not None and not known:
            return self._over(job, messages.lost_host(down, "it is down, and PBS gave up the job"))
        if not known and now - since <= GRACE:
            return None
        what = reasons.ending(None, job.exit_mark, self._tail(job), self._server.dialect)
        return self._over(job, what)

    def _sent_back(self, job: PbsJob, before: JobState | None) -> Ended:
        """PBS has put a job back into its queue that had begun (a task of an array: OpenPBS takes
        none that may not run again)."""
        self._delete_later([job])
        host = next(iter(names_of(before.exec_host)), None) if before is not None else None
        words = "PBS sent the job back to its queue"
        return self._over(job, messages.lost_host(host, words) if host else f"was stopped: {words}")

    def _see_hosts(self, now: float) -> Iterator[Ended]:
        """Gives up jobs on hosts that are down for long."""
        at = {job: hosts for job in self._table.announced() if (hosts := _hosts_of(job))}
        if not at:
            self._down.clear()
            return
        try:
            states = self._server.down()
        except (NoAnswer, NoProgram, GivenUp):
            return  # the next qstat tells the user
        down = {short(host): state for host, state in states.items()}
        self._down = {
            host: (self._down[host][0] if host in self._down else now, state)
            for host, state in down.items()
        }
        lost: dict[PbsJob, str] = {}
        for job, hosts in at.items():
            for host in hosts:
                since, state = self._down.get(short(host), (now, ""))
                if state and now - since >= self._lost_after:
                    words = f"PBS reports it {state} for {now - since:.0f} s"
                    lost[job] = messages.lost_host(host, words)
                    break
        self._delete_later(lost, force=True)
        for job, what in lost.items():
            yield self._over(job, what)

    def _drop_waiting(self) -> Iterator[Ended]:
        """Deletes what has not started: a run that ends must not wait for a full queue."""
        waiting = [
            job
            for job in self._table.announced()
            if not (job.state is None or job.state.started)
            and not (job.began or job.exit_mark is not None)
            # It may have started since PBS was asked.
            and not start_mark(self._marks, job.key).exists()
        ]
        self._delete_later(waiting)
        for job in waiting:
            yield self._over(job, NOT_STARTED)

    def _tell_waiting(self, now: float) -> None:
        """Why jobs wait: one line at a time, for the reason that most jobs share."""
        if now - self._last_told < TELL_EVERY:
            return
        news: dict[PbsJob, str] = {}
        for job in self._table.announced():
            state = job.state
            if state is None or state.started or state.over or now - job.submitted < TELL_AFTER:
                continue
            comment = reasons.waits(state)
            if comment and reasons.essence(comment) != job.told:
                news[job] = comment
        if not news:
            return
        most, number = Counter(reasons.essence(text) for text in news.values()).most_common(1)[0]
        same = [job for job, text in news.items() if reasons.essence(text) == most]
        for job in same:
            job.told = most
        others = f" (and {number - 1} more jobs)" if number > 2 else " (and 1 more job)"
        first = same[0]
        self._warn(
            messages.waiting(first.id, first.name, news[first] + (others if number > 1 else ""))
        )
        self._last_told = now

    def _failed(self, job: PbsJob) -> Ended:
        state = job.state
        if state is not None and job.began and not state.started:
            # It has run, and PBS does not say so: of a task without a history, or not yet.
            over = replace(state, exec_host="?", exit_status=job.exit_mark)
            state = over if state.over else None
        what = reasons.ending(state, job.exit_mark, self._tail(job), self._server.dialect)
        return self._over(job, what)

    def _explained(self, job: PbsJob, now: float) -> bool:
        """Whether no more can be learned of a job that has said itself that it failed."""
        if job.failed_since is None:
            return False
        if now - job.failed_since > REASON_FOR:
            return True
        by = reasons.deleted_by(job.state) if job.state is not None else None
        return by is not None or reasons.killed_of(self._tail(job)) is not None

    def _over(self, job: PbsJob, what: str | None) -> Ended:
        self._table.remove(job)
        lost = messages.lost_host_of(what) if what is not None else None
        if lost is not None:
            self.lost = self.lost | {short(lost.host)}
        return Ended(job, what)

    def _tail(self, job: PbsJob) -> str:
        """The end of a job's log, as far as it can be read."""
        try:
            with job.log.open("rb") as log:
                log.seek(0, os.SEEK_END)
                log.seek(max(0, log.tell() - TAIL))
                return log.read().decode(errors="replace")
        except OSError:
            return ""


def _status_in(mark: Path) -> int | None:
    """The exit status in a mark, None where it cannot be read yet."""
    try:
        text = mark.read_text(encoding="ascii").strip()
    except (OSError, UnicodeDecodeError):
        return None
    return int(text) if text.isdigit() else None


def _since(job: PbsJob, now: float) -> float:
    """Since when PBS has known nothing of a job, or not how it ended."""
    if job.unknown_since is None:
        job.unknown_since = now
    return job.unknown_since


def _hosts_of(job: PbsJob) -> tuple[str, ...]:
    """The hosts that a job runs on, or the one that it was sent to and waits for."""
    if job.state is None or job.state.over:
        return ()
    if job.state.exec_host:
        return names_of(job.state.exec_host)
    return (job.host,) if job.host else ()
