"""The cluster jobs of a run: a registry on the shared file system, and cancelling what is in it.

An executor's own list of active jobs is empty while it polls, so a run that ends by Ctrl-C or an
error may leave jobs behind, and a killed run always does. So every submit command registers its
job here, and the run, or the next one, cancels what is still registered.

Layout, below the directory in which Snakemake works: ``.snakemake/storewise/jobs/<run>/<job id>``,
a JSON object ``{"id", "kind", "submitted", ...}`` each; names that begin with a dot are not jobs:
``.ended`` (the run has ended: whoever submits now cancels its job itself) and ``.cancel.log``.

Nothing here may be slow to import: submit and status commands start for each job.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from storewise.atomic import write_aside
from storewise.processes import library_environment

#: Environment variable that names the run.
RUN_VARIABLE = "STOREWISE_RUN"
#: Jobs that are submitted outside a run (by hand).
NO_RUN = "no-run"
REGISTRY = Path(".snakemake") / "storewise" / "jobs"
ENDED = ".ended"
CANCEL_LOG = ".cancel.log"
#: Seconds for which a cancelling process goes on trying.
CANCEL_FOR = 300.0
#: Seconds after a first accepted cancel before it is forced, where the scheduler can.
FORCE_AFTER = 45.0
COMMAND_TIMEOUT = 30.0
#: Ids on one command line.
BATCH = 200
#: Seconds for which the mark of an ended run is kept for submit commands that are still at work.
KEEP_ENDED = 3600.0


@dataclass(frozen=True, slots=True)
class ClusterJob:
    """A registered job. `submitted` is in seconds since the epoch, by the submitting host;
    `mark` is a file that the job writes its exit status to, empty where it does not."""

    id: str
    kind: str
    submitted: float
    mark: str = ""


def current_run() -> str:
    """The run that this process works for."""
    return os.environ.get(RUN_VARIABLE) or NO_RUN


def run_directory(root: Path, run: str) -> Path:
    """Where the jobs of a run are registered; `root` is the directory in which Snakemake works."""
    return root / REGISTRY / run


def register(root: Path, run: str, job_id: str, kind: str, mark: str = "") -> bool:
    """Register a submitted job of `kind` ``pbs`` or ``slurm``, or with ``slurm-run`` all jobs that
    have `job_id` as their name.

    Returns False if the run has ended meanwhile: the caller must cancel the job then.
    """
    _kind(kind)
    if not job_id or "/" in job_id or job_id.startswith("."):
        raise ValueError(f"{job_id!r} is not a job id")
    directory = run_directory(root, run)
    directory.mkdir(parents=True, exist_ok=True)
    entry = {"id": job_id, "kind": kind, "submitted": time.time(), "mark": mark}
    write_aside(directory / job_id, json.dumps(entry) + "\n")
    # In this order: cancel_all writes the mark first and lists the jobs then.
    return not (directory / ENDED).exists()


def forget(root: Path, run: str, job_ids: Iterable[str]) -> None:
    """Take jobs that have ended out of the registry."""
    for job_id in job_ids:
        (run_directory(root, run) / job_id).unlink(missing_ok=True)


def registered(root: Path, run: str) -> list[ClusterJob]:
    """The jobs of a run that are not known to have ended, oldest first."""
    found = []
    try:
        paths = [p for p in run_directory(root, run).iterdir() if not p.name.startswith(".")]
    except FileNotFoundError:
        return []
    for path in paths:
        try:
            found.append(ClusterJob(**json.loads(path.read_text(encoding="utf-8"))))
        except FileNotFoundError:
            continue  # it ended while we were reading
    return sorted(found, key=lambda job: (job.submitted, job.id))


def runs(root: Path) -> list[str]:
    """Runs that have a registry here: this one, and those that ended with jobs."""
    try:
        return sorted(path.name for path in (root / REGISTRY).iterdir() if path.is_dir())
    except FileNotFoundError:
        return []


def cancel_all(root: Path, run: str) -> int:
    """Cancel every registered job of a run that is at its end, in a process of its own.

    Returns at once the number of jobs that are being cancelled. Call it when a run ends (it costs
    nothing where no job is left) and for killed runs when the next one starts. A registry with no
    jobs left is removed an hour after its run ended.
    """
    directory = run_directory(root, run)
    if not directory.is_dir():
        return 0
    since = mark_ended(root, run)
    jobs = registered(root, run)
    if jobs:
        cancel_detached(root, run, [])
    elif time.time() - since > KEEP_ENDED:
        remove_registry(root, run)
    return len(jobs)


def mark_ended(root: Path, run: str) -> float:
    """Say that a run has ended: jobs that are submitted for it later are cancelled at once.

    Returns since when it is so, in seconds since the epoch.
    """
    path = run_directory(root, run) / ENDED
    path.parent.mkdir(parents=True, exist_ok=True)
    # The time of the first call stays.
    with contextlib.suppress(FileExistsError):
        path.touch(exist_ok=False)
    return path.stat().st_mtime


def remove_registry(root: Path, run: str) -> None:
    """Remove the registry of a run that has no jobs any more."""
    directory = run_directory(root, run)
    for path in directory.iterdir():
        path.unlink(missing_ok=True)
    directory.rmdir()


def cancel_detached(root: Path, run: str, jobs: Sequence[tuple[str, str]]) -> None:
    """Start a process that cancels the registered jobs of a run and the given (kind, id) pairs,
    and goes on until they are gone. It outlives the caller and its terminal."""
    directory = run_directory(root, run)
    directory.mkdir(parents=True, exist_ok=True)
    command = [sys.executable, "-m", "storewise.schedulers.job_registry", str(root.resolve()), run]
    with (directory / CANCEL_LOG).open("ab") as log:
        subprocess.Popen(
            [*command, *(f"{kind}:{job_id}" for kind, job_id in jobs)],
            cwd=root,
            env=library_environment(),
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
        )


@dataclass(frozen=True, slots=True)
class _Kind:
    cancel: tuple[str, ...]
    force: tuple[str, ...]
    present: Callable[[Sequence[str]], set[str] | None]
    """Those of the ids that are queued or running; None where the scheduler gave no answer."""
    names: bool = False
    """Ids are names that several jobs share, and more may come: one by one, in each round."""
    single: bool = False
    """One id on each command line."""


def _ask(command: Sequence[str]) -> subprocess.CompletedProcess[str] | None:
    try:
        return subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=COMMAND_TIMEOUT,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        _note(f"{command[0]}: {error}")
        return None


def _note(text: str) -> None:
    sys.stderr.write(f"{time.strftime('%Y-%m-%dT%H:%M:%S')} {text}\n")
    sys.stderr.flush()


#: States of PBS in which a job is over: F finished (history), X finished subjob, C (Torque).
_PBS_OVER = {"F", "X", "C"}
#: What qstat says of ids that it does not know (any more), in OpenPBS and in Torque.
PBS_UNKNOWN = ("unknown job", "job has finished", "does not exist")


def _pbs_present(ids: Sequence[str]) -> set[str] | None:
    # The short table: job id, name, user, time, state, queue; an id may be cut on its right side.
    answer = _ask(["qstat", *ids])
    if answer is None:
        return None
    errors = [line for line in answer.stderr.lower().splitlines() if line.strip()]
    if answer.returncode and not (
        errors and all(any(word in line for word in PBS_UNKNOWN) for line in errors)
    ):
        _note(f"qstat: {answer.stderr.strip()}")
        return None
    numbers = {job_id.partition(".")[0]: job_id for job_id in ids}
    found = set()
    for line in answer.stdout.splitlines():
        fields = line.split()
        job_id = numbers.get(fields[0].partition(".")[0]) if len(fields) >= 5 else None
        if job_id is not None and fields[-2] not in _PBS_OVER:
            found.add(job_id)
    return found


def _slurm_present(ids: Sequence[str]) -> set[str] | None:
    answer = _ask(["squeue", "--noheader", "--format=%i", "--jobs", ",".join(ids)])
    if answer is None:
        return None
    # A single id that squeue has forgotten is an error, several of them are an empty list.
    if answer.returncode and "invalid job id" not in answer.stderr.lower():
        _note(f"squeue: {answer.stderr.strip()}")
        return None
    return set(ids) & {line.split("_")[0].strip() for line in answer.stdout.splitlines()}


def _slurm_run_present(names: Sequence[str]) -> set[str] | None:
    answer = _ask(["squeue", "--noheader", "--format=%j", f"--name={','.join(names)}"])
    if answer is None:
        return None
    if answer.returncode:
        _note(f"squeue: {answer.stderr.strip()}")
        return None
    return set(names) & {line.strip() for line in answer.stdout.splitlines()}


_KINDS = {
    # `-W force` takes a job out of the server's books even where its host does not answer.
    # One id a call: a server of OpenPBS 23.06 without a job history dies of `qdel ID1 ID2` where
    # the first waits and the second has ended.
    "pbs": _Kind(("qdel",), ("qdel", "-W", "force"), _pbs_present, single=True),
    "slurm": _Kind(("scancel",), ("scancel", "--signal=KILL"), _slurm_present),
    # Each run of Snakemake's Slurm plugin names its jobs alike: one entry covers also those whose
    # ids nobody has seen.
    "slurm-run": _Kind(("scancel", "--name"), ("scancel", "--name"), _slurm_run_present, True),
}


def _kind(name: str) -> _Kind:
    if name not in _KINDS:
        raise ValueError(f"{name!r} is no kind of cluster job; expected {' or '.join(_KINDS)}")
    return _KINDS[name]


def cancel_until_gone(root: Path, run: str, extra: Sequence[tuple[str, str]]) -> list[str]:
    """Cancel the registered jobs of a run and `extra` (kind, id) pairs; wait until they are gone.

    Jobs that are registered meanwhile are cancelled too. Returns the ids that were still there
    after `CANCEL_FOR` seconds.
    """
    started = time.monotonic()
    attempts = _Attempts({}, set())
    gone: set[str] = set()
    pause = 0.5
    while True:
        known = {job.id: job.kind for job in registered(root, run)}
        if run == NO_RUN:
            known = {}  # jobs of nobody: only what was named
        wanted = {**known, **{job_id: kind for kind, job_id in extra if job_id not in gone}}
        for kind in sorted(set(wanted.values())):
            ids = [job_id for job_id, of in wanted.items() if of == kind]
            batch = 1 if _kind(kind).names else BATCH
            for first in range(0, len(ids), batch):
                over = _cancel_batch(_kind(kind), ids[first : first + batch], attempts)
                gone |= over
                forget(root, run, over)
        left = [job_id for job_id in wanted if job_id not in gone]
        if not left or time.monotonic() - started > CANCEL_FOR:
            return left
        # The scheduler needs time to end a job, and there is no event to wait for.
        time.sleep(pause)
        pause = min(pause * 1.5, 10.0)


@dataclass(slots=True)
class _Attempts:
    first: dict[str, float]
    """When a job's cancel was first asked for."""
    accepted: set[str]
    """Jobs whose cancel the scheduler has taken in."""


def _cancel_batch(kind: _Kind, ids: Sequence[str], attempts: _Attempts) -> set[str]:
    """One round; returns the ids that are gone."""
    now = time.monotonic()
    for job_id in ids:
        attempts.first.setdefault(job_id, now)
    late = [job_id for job_id in ids if now - attempts.first[job_id] > FORCE_AFTER]
    done = set() if kind.names else attempts.accepted
    new = [job_id for job_id in ids if job_id not in done and job_id not in late]
    for command, some in ((kind.cancel, new), (kind.force, late)):
        size = 1 if kind.single else BATCH
        for first in range(0, len(some), size):
            part = some[first : first + size]
            answer = _ask([*command, *part])
            if answer is None:
                break  # no answer, or no program: the others would wait as long
            if answer.returncode == 0:
                attempts.accepted.update(part)
            else:
                _note(f"{' '.join(command)}: {answer.stderr.strip()}")
    present = kind.present(ids)
    return set() if present is None else set(ids) - present


def main(arguments: Sequence[str]) -> int:
    """``ROOT RUN [KIND:ID...]``: what `cancel_detached` starts."""
    root, run, *named = arguments
    # Ignored by the submit command that may have started us, and such things are inherited.
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    extra = [(kind, job_id) for kind, _, job_id in (text.partition(":") for text in named)]
    left = cancel_until_gone(Path(root), run, extra)
    if left:
        _note(f"still there after {CANCEL_FOR:.0f} s: {' '.join(left)}")
    return 1 if left else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
