"""``storewise-pbs-submit``: a Snakemake jobscript to PBS; prints the job's id and nothing else."""

from __future__ import annotations

import os
import re
import secrets
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from storewise.atomic import write_aside
from storewise.schedulers.job_registry import (
    cancel_detached,
    current_run,
    register,
    run_command,
    run_directory,
)
from storewise.schedulers.pbs.options import SubmitOptions, submit_options
from storewise.schedulers.pbs.qstat import no_history
from storewise.schedulers.pbs.request import (
    Host,
    Job,
    RequestError,
    clean_name,
    exported,
    first_words,
    hosts_of,
    passing,
    qsub_words,
    read_job,
    refused,
    too_large,
    wrapped,
)

LOGS = Path(".snakemake") / "storewise" / "logs"
FIRST_PAUSE = 1.0
NODES_CACHE = ".nodes.json"
NODES_TIMEOUT = 10.0
NODES_FRESH = 600.0


def main() -> None:
    """Entry point: exit status 1 and one message where PBS did not take the job."""
    # Ctrl-C reaches us with Snakemake: a job that PBS has just taken must be registered first.
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    options, jobscript = submit_options(sys.argv[1:])
    try:
        sys.stdout.write(submit(Path(jobscript), options, Path.cwd(), current_run()) + "\n")
    except (RequestError, OSError) as error:
        # Not to stderr: Snakemake hands on what the command prints here, and shows it.
        sys.stdout.write(f"storewise: {error}\n")
        sys.exit(1)


def submit(
    jobscript: Path,
    options: SubmitOptions,
    root: Path,
    run: str,
    *,
    sleep: Callable[[float], None] = time.sleep,
) -> str:
    """Submit, register, and return the job's id. `root` is Snakemake's working directory.

    Raises RequestError where PBS refuses, or the run has ended meanwhile (the job is cancelled).
    """
    job = read_job(jobscript, options.classes)
    directory = run_directory(root, run).resolve()
    directory.mkdir(parents=True, exist_ok=True)
    if options.check_size:
        too_much = too_large(job, _hosts(directory, options))
        if too_much is not None:
            raise RequestError(too_much)
    token = secrets.token_hex(3)
    name = clean_name(job.name, token, options.dialect)
    log = (root / LOGS / run).resolve() / f"{name}.log"
    log.parent.mkdir(parents=True, exist_ok=True)
    mark = directory / f".{name}.exit"
    script = jobscript.with_name(f"{jobscript.name}.{token}.pbs")
    script.write_text(
        wrapped(
            jobscript.read_text(encoding="utf-8", errors="surrogateescape"),
            mark,
            exported(os.environ, options.export),
        ),
        encoding="utf-8",
        errors="surrogateescape",
    )
    words = qsub_words(job, options, name, log, script.resolve())
    job_id = _qsub(words, job, name, options, sleep)
    if not register(root, run, job_id, "pbs", str(mark)):
        cancel_detached(root, run, [("pbs", job_id)])
        raise RequestError(f"the run ended while {job.name} was submitted; {job_id} is cancelled")
    return job_id


def _qsub(
    command: Sequence[str],
    job: Job,
    name: str,
    options: SubmitOptions,
    sleep: Callable[[float], None],
) -> str:
    pause = FIRST_PAUSE
    message = ""
    for attempt in range(options.attempts):
        if attempt:
            sleep(pause)
            pause *= 2
            # An answer that was lost may stand for a job that was taken.
            taken = _find(name, options.dialect)
            if taken is not None:
                return taken
        try:
            done = run_command(command, options.timeout)
        except FileNotFoundError:
            raise RequestError(
                "qsub is not on PATH: run on a host from which jobs are submitted to PBS, or with "
                "--profile profiles/local on this machine alone"
            ) from None
        except subprocess.TimeoutExpired:
            message = f"no answer within {options.timeout:.0f} s (connection timed out)"
            continue
        lines = [line.strip() for line in done.stdout.splitlines() if line.strip()]
        if done.returncode == 0 and lines and re.match(r"\d", lines[-1]):
            return lines[-1]
        message = first_words(done.stderr) or first_words(done.stdout) or "no message"
        if not passing(message):
            break
    taken = _find(name, options.dialect) if passing(message) else None
    if taken is not None:
        return taken
    raise RequestError(refused(job, message, command, options.walltime))


def _find(name: str, dialect: str) -> str | None:
    """The id of the job of this name, None where there is none or the server does not answer."""
    done = None
    # A short job may have ended meanwhile: -x lists those too, where there is a history.
    for words in [["-x"], []] if dialect == "openpbs" else [[]]:
        try:
            done = run_command(["qselect", *words, "-N", name], NODES_TIMEOUT)
        except (OSError, subprocess.TimeoutExpired):
            return None
        if not no_history(done.stderr):
            break
    ids = done.stdout.split() if done is not None and done.returncode == 0 else []
    return ids[0] if len(ids) == 1 else None


def _hosts(directory: Path, options: SubmitOptions) -> list[Host]:
    """The nodes of the server, asked once in ten minutes; none where it does not say."""
    if options.dialect != "openpbs":
        return []
    cache = directory / NODES_CACHE
    try:
        if time.time() - cache.stat().st_mtime < NODES_FRESH:
            return hosts_of(cache.read_text(encoding="utf-8"))
    except (FileNotFoundError, ValueError):
        cache.unlink(missing_ok=True)
    try:
        done = run_command(["pbsnodes", "-a", "-F", "json"], NODES_TIMEOUT)
        text = done.stdout if done.returncode == 0 else "{}"
        hosts = hosts_of(text)
    except (OSError, subprocess.TimeoutExpired, ValueError):
        # Users may not list nodes everywhere; PBS itself then says what it cannot run.
        text, hosts = "{}", []
    write_aside(cache, text)
    return hosts
