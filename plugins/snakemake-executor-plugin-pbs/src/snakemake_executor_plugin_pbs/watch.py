"""Follows jobs: by the marks that they write, and by what PBS reports of them."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from snakemake_executor_plugin_pbs import reasons
from snakemake_executor_plugin_pbs.commands import NoAnswer, NoProgram, Stopped
from snakemake_executor_plugin_pbs.events import Ending, lost_host
from snakemake_executor_plugin_pbs.hosts import names_of, short
from snakemake_executor_plugin_pbs.jobs import JobTable, PbsJob
from snakemake_executor_plugin_pbs.qstat import JobState
from snakemake_executor_plugin_pbs.script import exit_mark, start_mark
from snakemake_executor_plugin_pbs.server import Server
from snakemake_executor_plugin_pbs.status import ServerStatus

#: Seconds for which PBS is asked why a job failed, after the job's exit mark.
REASON_SECONDS = 5.0
#: Seconds after which a job is given up that the server does not know: it may learn of a new job
#: late, and marks may be seen late on a network file system.
UNKNOWN_SECONDS = 60.0
#: Polls in a row in which PBS must say that a job can never run.
NEVER_POLLS = 3
#: Seconds that a job waits before the user is told why, and between two such lines.
TELL_AFTER = 30.0
TELL_EVERY = 60.0
#: Bytes at the end of a log in which messages of PBS are looked for.
TAIL_BYTES = 8192
NOT_STARTED = Ending("had not started when the run was stopped, and was deleted")


#: A job that is over; None where it ended well.
Ended = tuple[PbsJob, Ending | None]


class Watch:
    """Polls the jobs of a table. Times in seconds of one clock, passed in.

    `lost_after` are the seconds after which a host that is down is lost. `delete` starts to delete
    jobs, by ``qdel -W force`` where its second argument is true: PBS forgets the jobs even if their
    host does not answer. `tell_waiting` gets a job that waits, with the reason.
    """

    def __init__(
        self,
        server: Server,
        status: ServerStatus,
        table: JobTable,
        marks: Path,
        lost_after: float,
        delete: Callable[[Sequence[str], bool], object],
        tell_waiting: Callable[[PbsJob, str], object],
    ) -> None:
        self._server, self._status, self._table, self._marks = server, status, table, marks
        self._lost_after = lost_after
        self._delete = delete
        self._tell = tell_waiting
        self._down: dict[str, tuple[float, str]] = {}
        """Hosts that PBS cannot reach: since when, and in which state."""
        self._to_delete: dict[bool, list[str]] = {False: [], True: []}
        """Ids of jobs to be deleted, without and by force."""
        self._last_told = float("-inf")
        self._stopping = False

    def poll(self, now: float, stopping: bool) -> Iterator[Ended]:
        """Read all marks, and query PBS when that is due. Yields the jobs that have ended,
        and removes them from the table. With `stopping`, jobs that have not started are deleted."""
        if stopping and not self._stopping:
            self._status.hurry()
        self._stopping = stopping
        yield from self._read_marks(now)
        if self._table.announced() and self._status.due():
            yield from self._query(now)
        for job in self._table.announced():
            if self._explained(job, now):
                yield self._failed(job)
        if stopping:
            yield from self._drop_waiting()
        for force, ids in self._to_delete.items():
            if ids:
                self._delete(ids[:], force)
                self._table.hand_over(ids)
                ids.clear()
        self._tell_waiting(now)

    def _delete_later(self, jobs: Iterable[PbsJob], *, force: bool = False) -> None:
        """Mark jobs for deletion: `poll` deletes them together at its end; a run that ends before
        that deletes them with all other jobs."""
        ids = [job.id for job in jobs]
        self._table.add_unneeded(ids)
        self._to_delete[force] += ids

    def _read_marks(self, now: float) -> Iterator[Ended]:
        # Listing opens the directory anew: on NFS a file that was looked for too early may seem
        # absent for long.
        try:
            marks = {path.name for path in self._marks.iterdir()}
        except OSError:
            return  # out of reach for now; PBS is queried in any case
        for job in self._table.announced():
            if start_mark(self._marks, job.name).name in marks:
                job.began = True
            mark = exit_mark(self._marks, job.name)
            if job.exit_mark is not None or mark.name not in marks:
                continue
            job.exit_mark = _status_in(mark)
            if job.exit_mark == 0:
                yield self._over(job)
            elif job.exit_mark is not None:
                job.failed_since = now
                self._status.hurry()

    def _query(self, now: float) -> Iterator[Ended]:
        jobs = self._table.announced()
        try:
            answer = self._server.states([job.id for job in jobs])
        except Stopped:
            return
        except (NoAnswer, NoProgram) as error:
            self._status.unanswered(str(error))
            return
        self._status.answered()
        for job in jobs:
            ended = None
            if state := answer.states.get(job.id):
                ended = self._known(job, state)
            elif job.id in answer.unknown:
                ended = self._unknown(job, now)
            if ended is not None:
                yield ended
            elif job.failed_since is not None:
                self._status.hurry()
        yield from self._check_hosts(now)

    def _known(self, job: PbsJob, state: JobState) -> Ended | None:
        """A job of which the server reports a state."""
        job.state = state
        if state.over:
            well = job.exit_mark is None and state.exit_status == 0
            return self._over(job) if well else self._failed(job)
        job.unknown_since = None
        never = reasons.can_never_run(state.comment) and not state.started
        job.never = job.never + 1 if never else 0
        if job.never >= NEVER_POLLS:
            self._delete_later([job])
            return self._over(job, Ending(f"would never start: {state.comment}"))
        return None

    def _unknown(self, job: PbsJob, now: float) -> Ended | None:
        """A job that the server does not know: it has forgotten it, or not learned of it yet."""
        waited = now - _unknown_since(job, now)
        explained = job.exit_mark is not None or reasons.kill_reason(self._tail(job)) is not None
        down = next((host for host in _hosts_of(job) if short(host) in self._down), None)
        if down is not None and not explained:
            return self._over(job, lost_host(down, "it is down, and PBS gave up the job"))
        if not explained and waited <= UNKNOWN_SECONDS:
            return None
        return self._over(job, reasons.ending(None, job.exit_mark, self._tail(job)))

    def _check_hosts(self, now: float) -> Iterator[Ended]:
        """Give up jobs on hosts that have been down for long."""
        hosts_of = {job: hosts for job in self._table.announced() if (hosts := _hosts_of(job))}
        if not hosts_of:
            self._down.clear()
            return
        try:
            states = self._server.down()
        except (NoAnswer, NoProgram, Stopped):
            return  # the next qstat tells the user
        self._down = {
            name: (self._down.get(name, (now,))[0], state)
            for name, state in ((short(host), state) for host, state in states.items())
        }
        lost: dict[PbsJob, Ending] = {}
        for job, hosts in hosts_of.items():
            for host in hosts:
                since, state = self._down.get(short(host), (now, ""))
                if now - since >= self._lost_after:
                    lost[job] = lost_host(host, f"PBS reports it {state} for {now - since:.0f} s")
                    break
        self._delete_later(lost, force=True)
        for job, ending in lost.items():
            yield self._over(job, ending)

    def _drop_waiting(self) -> Iterator[Ended]:
        """Delete what has not started: a run that ends must not wait for a full queue."""
        waiting = [
            job
            for job in self._table.announced()
            if job.state is not None
            and not (job.state.started or job.began or job.exit_mark is not None)
            # It may have started since PBS was queried.
            and not start_mark(self._marks, job.name).exists()
        ]
        self._delete_later(waiting)
        for job in waiting:
            yield self._over(job, NOT_STARTED)

    def _tell_waiting(self, now: float) -> None:
        """Say why jobs wait: one line at a time, for the reason that most jobs share."""
        if now - self._last_told < TELL_EVERY:
            return
        by_reason: dict[str, list[PbsJob]] = {}
        for job in self._table.announced():
            state = job.state
            if state is None or state.started or state.over or now - job.submitted < TELL_AFTER:
                continue
            reason = reasons.without_numbers(reasons.waits(state))
            if reason and reason != job.told:
                by_reason.setdefault(reason, []).append(job)
        if not by_reason:
            return
        reason, jobs = max(by_reason.items(), key=lambda item: len(item[1]))
        for job in jobs:
            job.told = reason
        others = f" (and {len(jobs) - 1} more)" if len(jobs) > 1 else ""
        assert jobs[0].state is not None
        self._tell(jobs[0], reasons.waits(jobs[0].state) + others)
        self._last_told = now

    def _failed(self, job: PbsJob) -> Ended:
        state = job.state
        if state is not None and job.began and not state.started:
            # It has run, and PBS does not say so yet.
            over = replace(state, exec_host="?", exit_status=job.exit_mark)
            state = over if state.over else None
        return self._over(job, reasons.ending(state, job.exit_mark, self._tail(job)))

    def _explained(self, job: PbsJob, now: float) -> bool:
        """Whether no more can be learned of a job whose exit mark shows a failure."""
        if job.failed_since is None:
            return False
        if now - job.failed_since > REASON_SECONDS:
            return True
        by = reasons.deleted_by(job.state) if job.state is not None else None
        return by is not None or reasons.kill_reason(self._tail(job)) is not None

    def _over(self, job: PbsJob, ending: Ending | None = None) -> Ended:
        self._table.remove(job)
        return job, ending

    def _tail(self, job: PbsJob) -> str:
        """The end of a job's log, as far as it can be read."""
        try:
            with job.log.open("rb") as log:
                log.seek(0, os.SEEK_END)
                log.seek(max(0, log.tell() - TAIL_BYTES))
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


def _unknown_since(job: PbsJob, now: float) -> float:
    if job.unknown_since is None:
        job.unknown_since = now
    return job.unknown_since


def _hosts_of(job: PbsJob) -> tuple[str, ...]:
    """The hosts that a job runs on."""
    return names_of(job.state.exec_host) if job.state is not None and not job.state.over else ()
