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
from dataclasses import asdict, dataclass
from functools import partial
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
    if not job_id or "/" in job_id or job_id.startswith("."):
        raise ValueError(f"{job_id!r} is not a job id")
    directory = run_directory(root, run)
    directory.mkdir(parents=True, exist_ok=True)
    job = ClusterJob(job_id, kind, time.time(), mark)
    write_aside(directory / job_id, json.dumps(asdict(job)) + "\n")
    # In this order: cancel_all writes the mark first and lists the jobs then.
    return not (directory / ENDED).exists()


def forget(root: Path, run: str, job_ids: Iterable[str]) -> None:
    """Take jobs that have ended out of the registry."""
    for job_id in job_ids:
        (run_directory(root, run) / job_id).unlink(missing_ok=True)


def registered(root: Path, run: str) -> list[ClusterJob]:
    """The jobs of a run that are not known to have ended, oldest first."""
    jobs = []
    for path in run_directory(root, run).glob("[!.]*"):
        with contextlib.suppress(FileNotFoundError):  # it ended while we were reading
            jobs.append(ClusterJob(**json.loads(path.read_text(encoding="utf-8"))))
    return sorted(jobs, key=lambda job: (job.submitted, job.id))


def runs(root: Path) -> list[str]:
    """Runs that have a registry here: this one, and those that ended with jobs."""
    return sorted(path.name for path in (root / REGISTRY).glob("*/"))


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


def run_command(command: Sequence[str], timeout: float) -> subprocess.CompletedProcess[str]:
    """A command of a scheduler, and what it printed. Raises OSError where there is no such program,
    TimeoutExpired after `timeout` seconds."""
    return subprocess.run(
        command,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        errors="replace",
        timeout=timeout,
    )


def _ask(command: Sequence[str]) -> subprocess.CompletedProcess[str] | None:
    try:
        return run_command(command, COMMAND_TIMEOUT)
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
    present = set()
    for line in answer.stdout.splitlines():
        fields = line.split()
        job_id = numbers.get(fields[0].partition(".")[0]) if len(fields) >= 5 else None
        if job_id is not None and fields[-2] not in _PBS_OVER:
            present.add(job_id)
    return present


def _squeue_present(option: str, column: str, ids: Sequence[str]) -> set[str] | None:
    answer = _ask(["squeue", "--noheader", f"--format={column}", f"--{option}={','.join(ids)}"])
    if answer is None:
        return None
    # A single id that squeue has forgotten is an error, several of them are an empty list.
    if answer.returncode and "invalid job id" not in answer.stderr.lower():
        _note(f"squeue: {answer.stderr.strip()}")
        return None
    lines = [line.strip() for line in answer.stdout.splitlines()]
    # Of a job array's tasks the id of the array.
    return set(ids) & {*lines, *(line.split("_")[0] for line in lines)}


_KINDS = {
    # `-W force` takes a job out of the server's books even where its host does not answer.
    # One id a call: a server of OpenPBS 23.06 without a job history dies of `qdel ID1 ID2` where
    # the first waits and the second has ended.
    "pbs": _Kind(("qdel",), ("qdel", "-W", "force"), _pbs_present, single=True),
    "slurm": _Kind(
        ("scancel",), ("scancel", "--signal=KILL"), partial(_squeue_present, "jobs", "%i")
    ),
    # Each run of Snakemake's Slurm plugin names its jobs alike: one entry covers also those whose
    # ids nobody has seen.
    "slurm-run": _Kind(
        *(("scancel", "--name"), ("scancel", "--name"), partial(_squeue_present, "name", "%j")),
        names=True,
    ),
}


def cancel_until_gone(root: Path, run: str, extra: Sequence[tuple[str, str]]) -> list[str]:
    """Cancel the registered jobs of a run and `extra` (kind, id) pairs; wait until they are gone.

    Jobs that are registered meanwhile are cancelled too. Returns the ids that were still there
    after `CANCEL_FOR` seconds.
    """
    started = time.monotonic()
    #: When a job's cancel was first asked for.
    cancelled_at: dict[str, float] = {}
    accepted: set[str] = set()
    gone: set[str] = set()
    pause = 0.5
    while True:
        # Without a run these are jobs of nobody: only what was named is cancelled.
        known = {} if run == NO_RUN else {job.id: job.kind for job in registered(root, run)}
        wanted = {**known, **{job_id: kind for kind, job_id in extra if job_id not in gone}}
        for name in sorted(set(wanted.values())):
            kind = _KINDS[name]
            ids = [job_id for job_id, of in wanted.items() if of == name]
            for batch in _batches(ids, 1 if kind.names else BATCH):
                _cancel(kind, batch, cancelled_at, accepted)
                present = kind.present(batch)
                over = set() if present is None else set(batch) - present
                gone |= over
                forget(root, run, over)
        left = [job_id for job_id in wanted if job_id not in gone]
        if not left or time.monotonic() - started > CANCEL_FOR:
            return left
        # The scheduler needs time to end a job, and there is no event to wait for.
        time.sleep(pause)
        pause = min(pause * 1.5, 10.0)


def _batches(ids: Sequence[str], size: int) -> list[Sequence[str]]:
    return [ids[first : first + size] for first in range(0, len(ids), size)]


def _cancel(
    kind: _Kind, ids: Sequence[str], cancelled_at: dict[str, float], accepted: set[str]
) -> None:
    """Ask once more for what is late, by force, and for what the scheduler has not accepted yet."""
    now = time.monotonic()
    late = [job_id for job_id in ids if now - cancelled_at.setdefault(job_id, now) > FORCE_AFTER]
    done = set() if kind.names else accepted
    new = [job_id for job_id in ids if job_id not in done and job_id not in late]
    for command, some in ((kind.cancel, new), (kind.force, late)):
        for part in _batches(some, 1 if kind.single else BATCH):
            answer = _ask([*command, *part])
            if answer is None:
                break  # no answer, or no program: the others would wait as long
            if answer.returncode == 0:
                accepted.update(part)
            else:
                _note(f"{' '.join(command)}: {answer.stderr.strip()}")


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
