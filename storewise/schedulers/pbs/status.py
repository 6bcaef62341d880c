"""``storewise-pbs-status``: one word for a job, from one qstat for all jobs of the run.

Snakemake asks for one job after another, and ends the whole run if a call fails; so every call
answers, from a cache that one of them renews. A server that does not answer changes nothing: the
last known state stays.
"""

from __future__ import annotations

import fcntl
import json
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path

from storewise.atomic import holds, write_aside
from storewise.schedulers.job_registry import (
    ClusterJob,
    current_run,
    forget,
    registered,
    run_command,
    run_directory,
)
from storewise.schedulers.pbs.options import StatusOptions, status_options
from storewise.schedulers.pbs.qstat import (
    FAILED,
    RUNNING,
    SUCCESS,
    JobState,
    matched,
    no_history,
    parse,
    query,
    unknown_of,
)

CACHE = ".status.json"
LOCK = ".status.lock"
LOG = ".status.log"
#: Jobs of one qstat; a run with more asks several times in a row.
BATCH = 500


@dataclass(slots=True)
class Cache:
    """What the server said last. Times in seconds since the epoch."""

    renewed: float = 0.0
    states: dict[str, JobState] = field(default_factory=dict)
    unknown: dict[str, float] = field(default_factory=dict)
    """Jobs that the server does not know (any more), and since when."""
    history: bool = True
    """Whether the server has not yet said that it keeps no job history."""

    @classmethod
    def read(cls, path: Path) -> Cache:
        try:
            data = json.loads(path.read_text(encoding="utf-8"))
            data["states"] = {key: JobState(**value) for key, value in data["states"].items()}
            return cls(**data)
        except (FileNotFoundError, ValueError, KeyError, TypeError):
            # None yet, or of another version: it is only a cache.
            return cls()

    def write(self, path: Path) -> None:
        write_aside(path, json.dumps(asdict(self)))


def main() -> None:
    """Entry point; always prints one word and ends with 0, but for a wrong command line."""
    options, job_id = status_options(sys.argv[1:])
    try:
        word = status(job_id, options, Path.cwd(), current_run())
    except OSError as error:
        # A full or unreachable file system is no reason to give up a job.
        sys.stderr.write(f"storewise-pbs-status: {error}\n")
        word = RUNNING
    sys.stdout.write(f"{word}\n")


def status(job_id: str, options: StatusOptions, root: Path, run: str) -> str:
    """``running``, ``success`` or ``failed``; `root` is Snakemake's working directory."""
    directory = run_directory(root, run)
    directory.mkdir(parents=True, exist_ok=True)
    jobs = {job.id: job for job in registered(root, run)}
    job = jobs.setdefault(job_id, ClusterJob(job_id, "pbs", 0.0))
    cache = Cache.read(directory / CACHE)
    # Our clock may have been set back: a cache from the future is no fresh one.
    if not 0 <= time.time() - cache.renewed < options.every:
        with _locked(directory / LOCK) as mine:
            # Another call may be waiting for a slow server: its answer comes, ours must not wait.
            if mine:
                cache = Cache.read(directory / CACHE)
                if not 0 <= time.time() - cache.renewed < options.every:
                    renew(cache, jobs, options, directory)
                    cache.write(directory / CACHE)
    word = verdict(job, cache, options.grace)
    # A job that is unknown without a trace stays registered: the run cancels it at its end.
    if word != RUNNING and (job_id in cache.states or exit_mark(job.mark) is not None):
        forget(root, run, [job_id])
    return word


def verdict(job: ClusterJob, cache: Cache, grace: float) -> str:
    """What the cache says of a job; of one that the server has forgotten, what its mark says."""
    state = cache.states.get(job.id)
    if job.id not in cache.unknown:
        return state.verdict if state is not None else RUNNING
    code = exit_mark(job.mark)
    if code is not None:
        return SUCCESS if code == 0 else FAILED
    # The server may learn of a new job late, and a mark may be seen late on a network file system.
    since = max(job.submitted, cache.unknown[job.id])
    return RUNNING if time.time() - since < grace else FAILED


def exit_mark(mark: str) -> int | None:
    """The exit status that a job has written, None where there is none."""
    path = Path(mark)
    if not mark or not holds(path.parent, path.name):
        return None
    text = path.read_text(encoding="utf-8").strip()
    return int(text) if text.isdigit() else None


@contextmanager
def _locked(path: Path) -> Iterator[bool]:
    """Whether we hold the lock; without locks on this file system everybody does."""
    with path.open("a") as handle:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            yield False
            return
        except OSError:
            # The lock only saves calls of qstat.
            yield True
            return
        yield True


def renew(
    cache: Cache, jobs: Mapping[str, ClusterJob], options: StatusOptions, directory: Path
) -> None:
    """Ask the server for all jobs that are not known to be over."""
    over = {job_id for job_id, state in cache.states.items() if state.verdict != RUNNING}
    ids = sorted(job.id for job in jobs.values() if job.kind == "pbs" and job.id not in over)
    for first in range(0, len(ids), BATCH):
        batch = ids[first : first + BATCH]
        try:
            states, unknown = ask(batch, options, cache)
        except (OSError, subprocess.TimeoutExpired, ValueError) as error:
            with (directory / LOG).open("a", encoding="utf-8") as log:
                log.write(f"{time.strftime('%Y-%m-%dT%H:%M:%S')} {error}\n")
            continue
        cache.states.update(states)
        since = {job_id: cache.unknown.get(job_id, time.time()) for job_id in unknown}
        cache.unknown = {k: v for k, v in cache.unknown.items() if k not in batch} | since
    # A failed call counts too: a server in trouble is not helped by more of them.
    cache.renewed = time.time()


def ask(
    ids: list[str], options: StatusOptions, cache: Cache
) -> tuple[dict[str, JobState], set[str]]:
    """States and unknown ids of one qstat; jobs of which it says nothing are in neither.

    Raises ValueError, OSError or TimeoutExpired where there was no usable answer.
    """
    done = run_command(query(options.dialect, ids, cache.history), options.timeout)
    if cache.history and no_history(done.stderr):
        cache.history = False
        done = run_command(query(options.dialect, ids, history=False), options.timeout)
    unknown = unknown_of(done.stderr, ids)
    states = matched(parse(done.stdout), ids)
    if not states and not unknown:
        raise ValueError(f"qstat ended with {done.returncode}: {done.stderr.strip()}")
    return states, unknown - set(states)
