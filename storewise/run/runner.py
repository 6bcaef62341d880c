"""`storewise run`: start Snakemake, show what it does, and end with the answer.

All that a run means is in the workflow, so plain `snakemake` does the same (docs/snakemake.md).
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from pathlib import Path
from shlex import quote
from types import FrameType

from storewise.errors import StorewiseError
from storewise.layout import LIBRARY, LISTING, PUBLISH_LOG, REPORT, RUN_LOG
from storewise.processes import dies_with_parent
from storewise.run.follower import Follower
from storewise.run.free_space import too_little
from storewise.run.killed import clean_up_killed_runs, refuse_second_run
from storewise.run.live_view import View
from storewise.run.outcome import last_attempt, published_at
from storewise.run.plan import plan_line
from storewise.run.retries import (
    SINCE_VARIABLE,
    forget,
    given_up,
    kept,
    lost_trials,
    nothing_measured,
    read_mark,
)
from storewise.run.run_log import RunLog, explanation, note_of, plain_lines
from storewise.ssearch.inputs.paths import write_listing
from storewise.study.checks import too_few_repeats
from storewise.study.load import find_study, load_study
from storewise.study.study import Study
from storewise.study.trial import node_jobs
from storewise.watch.render import head_line

#: Exit status: the report is there, but publishing it has failed.
NOT_PUBLISHED = 3
#: The variable of the XDG Base Directory Specification for a cache elsewhere than ``~/.cache``.
CACHE_VARIABLE = "XDG_CACHE_HOME"
#: In a plan of Snakemake, the message of rule `open_session`.
_PLANNED = re.compile(r"^(?:local)?[jJ]ob \d+: Trial (\S+)$", re.M)


def workflow_home() -> Path:
    """The directory of the Snakefile: the working directory, else the checkout we run from."""
    for directory in (Path.cwd(), LIBRARY):
        if (directory / "Snakefile").is_file() and (directory / "rules").is_dir():
            return directory
    raise StorewiseError(
        f"there is no Storewise workflow in {Path.cwd()}, nor beside the package in {LIBRARY}: run "
        "this in a checkout of Storewise, or install Storewise from one with `make env`"
    )


@dataclass(frozen=True, slots=True)
class Request:
    """A request to `storewise run`."""

    name: str
    """The study: a name below config/studies, or a YAML file."""
    profile: str | None = None
    scale: str | None = None
    cores: int | None = None
    many: bool = False
    """More trials than are taken for meant."""
    arguments: Sequence[str] = ()
    """Further arguments for Snakemake."""

    def study(self) -> Study:
        """The study. ConfigError also if its inputs are missing and were never listed."""
        home = workflow_home()
        study = load_study(self.name, scale=self.scale, root=home, many=self.many)
        if (results_of(study) / LISTING).is_file():
            return study
        return load_study(self.name, scale=self.scale, root=home, many=self.many, inputs_exist=True)

    def command(self, study: Study, *more: str) -> list[str]:
        """Snakemake with its arguments."""
        home = workflow_home()
        command = [sys.executable, "-m", "snakemake", "--snakefile", str(home / "Snakefile")]
        if self.profile is None:
            command += ["--profile", str(home / "profiles" / "local")]
            command += ["--cores", str(self.cores or slots_needed(study))]
        else:
            local = home / "profiles" / self.profile
            command += ["--profile", str(local) if local.is_dir() else self.profile]
            if self.cores is not None:
                command += ["--cores", str(self.cores)]
        # Snakemake would make a number of a name such as 1e3.
        name = self.name if self.name[:1].isalpha() else find_study(self.name, home)
        command += [*more, *self.arguments, "--config", f"study={name}"]
        if self.scale is not None:
            command.append(f"scale={self.scale}")
        return [*command, "many=true"] if self.many else command


@dataclass(frozen=True, slots=True)
class Stopped:
    """The way in which the user ended a run: Ctrl-C or SIGTERM."""

    signal: int


def run_study(
    request: Request, view: View, *, retry_failed: bool = False, verbose: bool = False
) -> int:
    """Run a study to its report; returns the exit status for the shell.

    0: every trial was measured. 1: trials failed for good; the report is there and names them, or,
    where no trial was ever measured, the view was told their reasons. 3 (`NOT_PUBLISHED`): the
    report is there, but the study's `publish` failed. 2: another error, which the view was told.
    128 and more: the user has stopped it. `verbose` leaves Snakemake's log where it is printed.
    """
    # A shell script's background jobs ignore SIGINT. Obey one that is sent to this process.
    if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    study = request.study()
    results = results_of(study)
    # Snakemake does both, too; but its log would be written over that of the run that goes on.
    clean_up_killed_runs(results, view.note)
    refuse_second_run(results)
    if retry_failed:
        forget(study, results)
    before = _made(results), last_attempt(results)
    since = time.time()
    with ExitStack() as stack:
        log = follower = None
        if not verbose:
            log = stack.enter_context(RunLog(results / RUN_LOG))
            follower = Follower(study, results, log, view)
        status = _snakemake(request.command(study), log, follower)
        if isinstance(status, Stopped):
            view.note(f"stopped: {kept(study, results)}; run again to go on")
            return 128 + status.signal
        lost = given_up(study, results, since)
        _tell_lost(results, lost, since, view)
        if 0 < status < 128 and last_attempt(results) != before[1] and not published_at(results):
            status = NOT_PUBLISHED
            view.note(
                f"the results are not published, {results / PUBLISH_LOG} says why; when that is "
                f"mended: storewise publish {quote(request.name)}"
            )
        elif status and not (lost and _made(results) != before[0]):
            _tell_error(study, results, log, view)
            if 0 < status < 128:
                return 1 if nothing_measured(study, results, since) else 2
            return status
    if sentence := lost_trials(study, results, since):
        view.note(sentence)
    return status or (1 if lost else 0)


def _made(results: Path) -> int | None:
    """The time of the report, ns; None if there is none."""
    report = results / REPORT
    return report.stat().st_mtime_ns if report.exists() else None


def _tell_lost(results: Path, lost: Sequence[str], since: float, view: View) -> None:
    """Show the last log lines of trials in `lost` that were given up after `since` (Unix time)."""
    for trial in lost:
        mark = read_mark(results, trial)
        if mark["at"] >= since:
            view.line(f"{trial}:")
            for line in plain_lines(mark["log_tail"]):
                view.line(f"     | {line}")


def _tell_error(study: Study, results: Path, log: RunLog | None, view: View) -> None:
    """Show Snakemake's error, if the run failed for another reason than a failed trial."""
    if log is None:
        return  # the user has seen it
    if not log.told:
        sentence, *lines = log.explanation()
        view.note(sentence)
        for line in lines:
            view.line(f"     | {line}")
    # A failure is not on record where the disk was full then.
    if too_little(study, results):
        view.note(f"a disk is full: {kept(study, results)}. Make room and run again to go on")
    view.note(f"Snakemake's log: {log.path}")


def plan_study(request: Request, view: View, *, verbose: bool = False) -> int:
    """Tell what a run would measure and how long that takes; nothing is started.

    Returns the exit status for the shell: 2 where Snakemake makes no plan. `verbose` shows its own.
    """
    study = request.study()
    view.show(head_line(study.name, None, None, None, "planning the jobs"))
    done = subprocess.run(
        request.command(study, "--dry-run"),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        env={**os.environ, **cache_environment(Path())},
        text=True,
        errors="replace",
        check=False,
    )
    if verbose:
        view.line(done.stdout.rstrip())
    for line in done.stdout.splitlines():
        if note := note_of(line):
            view.note(note)
    if done.returncode:
        view.note(explanation(done.stdout)[0])
        return 2
    planned = set(_PLANNED.findall(done.stdout))
    trials = [trial for trial in study.trials() if trial.id in planned]
    if trials and (few := too_few_repeats(study)):
        view.note(few)
    here = request.profile in (None, "local")
    view.line(plan_line(study, trials, results_of(study), here=here))
    return 0


def results_of(study: Study) -> Path:
    """The directory of a study's results."""
    return Path("results") / study.name


def renew_inputs(name: str) -> str:
    """List a study's inputs anew; returns what changed, in words."""
    study = load_study(name, root=workflow_home(), many=True)
    if study.inputs.search is not None:
        return f"study {study.name} searches FASTA files; Snakemake sees by itself when they change"
    listing, sample = results_of(study) / LISTING, study.inputs.sample
    before = set(listing.read_text(encoding="utf-8").split("\n")) if listing.is_file() else {""}
    chosen = None if sample is None else sample.model_dump()
    paths = write_listing(study.inputs.paths, chosen, listing)
    if before == {*paths, ""}:
        return f"{listing}: nothing new, {len(paths)} files"
    added, removed = len(set(paths) - before), len(before - {*paths, ""})
    return f"{listing}: {len(paths)} files, {added} added, {removed} removed"


def slots_needed(study: Study) -> int:
    """Cores to name to Snakemake's local executor so that the trials fit that are live at once.

    The widest ones count. It runs jobs that take no core in five places beyond its cores; one of
    them is for the next trial, which waits to be opened.
    """
    widths = sorted((len(node_jobs(t)) + t.workers for t in study.trials()), reverse=True)
    return max(os.cpu_count() or 1, sum(widths[: study.live_sessions]) - 4)


def _snakemake(
    command: Sequence[str], log: RunLog | None, follower: Follower | None
) -> int | Stopped:
    """Run Snakemake; returns its exit status, or the signal that stopped it."""
    child: subprocess.Popen[bytes] | None = None
    stopped: list[int] = []

    def pass_on(number: int) -> None:
        if child is None:
            return  # not started yet; passed on after the start
        if number == signal.SIGTERM:
            child.terminate()
            return
        # Send it to the process group (Snakemake and its jobs), as a terminal does.
        with suppress(ProcessLookupError):
            os.killpg(child.pid, number)

    def stop(number: int, _: FrameType | None) -> None:
        stopped.append(number)
        pass_on(number)
        if follower is not None:
            follower.stopping = True

    before = {number: signal.signal(number, stop) for number in (signal.SIGINT, signal.SIGTERM)}
    environment = {**os.environ, **cache_environment(Path())}
    environment.pop(SINCE_VARIABLE, None)
    try:
        child = subprocess.Popen(
            command,
            stdout=None if log is None else log.written,
            stderr=None if log is None else subprocess.STDOUT,
            # If this process is killed, SIGTERM makes Snakemake end its trials in order.
            preexec_fn=dies_with_parent(signal.SIGTERM),
            env=environment,
            # A Ctrl-C then reaches only this process, which passes it on once.
            process_group=0,
        )
        for number in stopped:
            pass_on(number)
        status = _wait(child, follower)
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
    return Stopped(stopped[0]) if stopped and status else status


def _wait(child: subprocess.Popen[bytes], follower: Follower | None) -> int:
    """Wait for Snakemake and return its exit status; `follower` shows meanwhile what it does."""
    if follower is None:
        return child.wait()
    while True:
        stopping = follower.stopping
        pause = follower.look()
        # Wait in short slices, so that the view soon shows that the run is being stopped.
        while pause > 0 and follower.stopping == stopping:
            try:
                status = child.wait(min(pause, 1.0))
            except subprocess.TimeoutExpired:
                pause -= 1.0
                continue
            follower.look()
            return status


def cache_environment(directory: Path) -> dict[str, str]:
    """Variables that name a cache below `directory`, or none where the user's own will do.

    Snakemake and matplotlib use ``~/.cache``; Snakemake ends with a traceback without it.
    """
    try:
        cache = Path(os.environ.get(CACHE_VARIABLE) or Path.home() / ".cache")
        cache.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=cache):
            return {}
    except (OSError, RuntimeError):  # there may be no home at all
        return {CACHE_VARIABLE: str((directory / ".snakemake" / "cache").absolute())}
