"""`storewise run`: call Snakemake, again after a failed trial, and end with the report."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from shlex import quote
from types import FrameType

from storewise.atomic import write_aside
from storewise.errors import StorewiseError
from storewise.layout import LIBRARY, LISTING, LOGS, PUBLISH_LOG, RUN_LOG, TRIALS, VERIFIED
from storewise.processes import dies_with_parent
from storewise.publish.results import last_attempt, published_at
from storewise.run.follower import Follower
from storewise.run.free_space import too_little
from storewise.run.killed import clean_up_killed_runs
from storewise.run.live_view import Moment, View
from storewise.run.plan import plan_line
from storewise.run.retries import attempts, forget, give_up, given_up
from storewise.run.run_log import RunLog, explanation, note_of, opened_trials, plain_lines
from storewise.run.trial_line import failed_line
from storewise.session.coordination.ending import NO_SPACE, host_fault
from storewise.session.coordination.liveness import Process
from storewise.session.coordination.run import Failure
from storewise.session.coordination.run_record import RUNNER_VARIABLE, measuring_run
from storewise.ssearch.inputs.paths import list_inputs, sample_paths
from storewise.study.checks import too_few_repeats
from storewise.study.load import load_study
from storewise.study.study import Study
from storewise.study.trial import node_jobs

#: Seconds from the end of a host until the scheduler knows of it: ParallelCluster's daemon looks at
#: EC2 each minute, and what it finds takes effect with its next look.
NOTICED = 120.0
#: Exit status: the report is there, but publishing it has failed.
NOT_PUBLISHED = 3
#: The variable of the XDG Base Directory Specification for a cache elsewhere than ``~/.cache``.
CACHE_VARIABLE = "XDG_CACHE_HOME"


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
    """What the user asks `storewise run` for."""

    name: str
    """The study: a name below config/studies, or a YAML file."""
    profile: str | None = None
    scale: str | None = None
    cores: int | None = None
    many: bool = False
    """More trials than are taken for meant."""
    arguments: Sequence[str] = ()
    """For Snakemake."""

    def study(self) -> Study:
        """The study. Raises ConfigError, too where its inputs are not there and were not listed."""
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
        command += [*more, *self.arguments, "--config", f"study={self.name}"]
        if self.scale is not None:
            command.append(f"scale={self.scale}")
        return [*command, "many=true"] if self.many else command


@dataclass(frozen=True, slots=True)
class Stopped:
    """How the user has ended a run."""

    signal: int


def run_study(
    request: Request,
    view: View,
    *,
    retry_failed: bool = False,
    verbose: bool = False,
    clock: Callable[[], float] = time.time,
    sleep: Callable[[float], None] = time.sleep,
) -> int:
    """Run a study to its report; returns the exit status for the shell.

    0: every trial was measured. 1: the report is there, but trials failed for good (named in
    it). 3 (`NOT_PUBLISHED`): the report is there, but the study's `publish` failed. 2: another
    error, which the view was told. 128 and more: the user has stopped it. `verbose` leaves
    Snakemake's log where it is printed. `clock` is Unix time.
    """
    # A shell script's background jobs ignore SIGINT. Obey one that is sent to this process.
    if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    study = request.study()
    results = results_of(study)
    clean_up_killed_runs(results, view.note)
    # Snakemake refuses it too, later and in its own words.
    if other := measuring_run(results):
        raise StorewiseError(other)
    forget(study, results, every=retry_failed)
    with ExitStack() as stack:
        log = follower = None
        if not verbose:
            log = stack.enter_context(RunLog(results / RUN_LOG))
            follower = Follower(study, results, log, view)
        passes = _Passes(request, study, results, log, follower, view, clock, sleep)
        status = passes.run()
    lost = given_up(study, results) if status in {0, NOT_PUBLISHED} else []
    if lost:
        view.note(
            f"{len(lost)} of {len(study.trials())} trials failed: {', '.join(lost)}; "
            "the report has their reasons, --retry-failed tries them again"
        )
    return status or (1 if lost else 0)


@dataclass
class _Passes:
    """The calls of Snakemake of one run, until no trial is left to be tried again."""

    request: Request
    study: Study
    results: Path
    log: RunLog | None
    follower: Follower | None
    view: View
    clock: Callable[[], float]
    sleep: Callable[[float], None]

    def run(self) -> int:
        """The exit status, but for trials that were given up."""
        command = self.request.command(self.study)
        started, published = self.clock(), last_attempt(self.results)
        while True:
            if (full := too_little(self.study, self.results)) is not None:
                raise StorewiseError(full)
            before = attempts(self.study, self.results, started)
            if self.log is not None:
                self.log.begin_pass()
            status = _snakemake(command, self.log, self.follower)
            if isinstance(status, Stopped):
                return self._stopped(status.signal)
            if status == 0:
                return 0
            after = attempts(self.study, self.results, started)
            new = [t for t, tried in after.items() if len(tried) > len(before.get(t, []))]
            if status < 0 or status >= 128 or not new:
                return self._other_error(status, published)
            if self._failed({trial: after[trial] for trial in new}):
                return 2
            until = max(after[trial][-1].until for trial in new)
            if until:
                until += NOTICED if self.request.profile is not None else 0.0
                try:
                    _await_end(until, self.view.note, self.clock, self.sleep)
                except KeyboardInterrupt:
                    return self._stopped(signal.SIGINT)

    def _stopped(self, number: int) -> int:
        self.view.note(f"stopped: {self._kept()}; run again to go on")
        return 128 + number

    def _failed(self, new: Mapping[str, Sequence[Failure]]) -> bool:
        """Tell of trials that have failed in a pass, and give up those that have often enough; true
        where the run is to end."""
        trials = {trial.id: trial for trial in self.study.trials()}
        full = [t for t, tried in new.items() if NO_SPACE.search(tried[-1].reason)]
        for trial, tried in new.items():
            logs = self.results / LOGS / trial
            self.view.line(failed_line(self.study, trials[trial], tried[-1].reason), "red")
            if full:
                continue
            if len(tried) <= self.study.retries:
                self.view.note(f"trial {trial} is tried again; its logs: {logs}")
                continue
            give_up(self.study, self.results, trial, tried)
            for line in plain_lines(tried[-1].log_tail):
                self.view.line(f"     | {line}")
            times = "once" if len(tried) == 1 else f"{len(tried)} times"
            until = " until the next run" if host_fault(tried[-1].reason) else ""
            self.view.note(f"trial {trial} failed {times} and is left out{until}; its logs: {logs}")
        if full:
            self.view.note(
                f"a disk is full, and the run has stopped: {self._kept()}. Make room and run again "
                f"to go on; logs: {self.results / LOGS / full[0]}"
            )
        return bool(full)

    def _other_error(self, status: int, published: object) -> int:
        """Say why Snakemake has ended, where that is no trial."""
        if 0 < status < 128 and not (
            last_attempt(self.results) in {None, published} or published_at(self.results)
        ):
            self.view.note(
                f"the results are not published, {self.results / PUBLISH_LOG} says why; when that "
                f"is mended: storewise publish {quote(self.request.name)}"
            )
            return NOT_PUBLISHED
        if self.log is not None:  # else the user has seen it
            text = self.log.of_pass()
            why = explanation(text)
            self.view.note(why.sentence)
            for line in why.lines:
                self.view.line(f"     | {line}")
            # A trial's failure is not on record where the disk was full then.
            if NO_SPACE.search(text) or too_little(self.study, self.results):
                self.view.note(f"a disk is full: {self._kept()}. Make room and run again to go on")
            self.view.note(f"Snakemake's log: {self.log.path}")
        return 2 if 0 < status < 128 else status

    def _kept(self) -> str:
        """How many trials need not be measured again, in words."""
        trials = self.study.trials()
        kept = sum((self.results / TRIALS / trial.id / VERIFIED).exists() for trial in trials)
        return f"{kept} of {len(trials)} trials kept"


def plan_study(request: Request, view: View, *, verbose: bool = False) -> int:
    """Tell what a run would measure and how long that takes; nothing is started.

    Returns the exit status for the shell: 2 where Snakemake makes no plan. `verbose` shows its own.
    """
    study = request.study()
    view.show(Moment(study.name, "planning the jobs"))
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
    if done.returncode:
        view.note(explanation(done.stdout).sentence)
        return 2
    for line in done.stdout.splitlines():
        if note := note_of(line):
            view.note(note)
    planned = set(opened_trials(done.stdout))
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
    listing = results_of(study) / LISTING
    paths = list_inputs(study.inputs.paths)
    if study.inputs.sample is not None:
        paths = sample_paths(paths, **study.inputs.sample.model_dump())
    before = set(listing.read_text(encoding="utf-8").split("\n")) if listing.is_file() else set()
    new = "".join(f"{path}\n" for path in paths)
    if before and set(new.split("\n")) == before:
        return f"{listing}: nothing new, {len(paths)} files"
    listing.parent.mkdir(parents=True, exist_ok=True)
    write_aside(listing, new)
    added, removed = len(set(paths) - before), len(before - {""} - set(paths))
    return f"{listing}: {len(paths)} files, {added} added, {removed} removed"


def _await_end(
    until: float,
    say: Callable[[str], None],
    clock: Callable[[], float],
    sleep: Callable[[float], None],
) -> None:
    """Wait until hosts that EC2 takes back are gone: until then a scheduler gives jobs to them."""
    left = until - clock()
    if left > 0:
        say(f"waiting {left:.0f} s, until the host that is taken back is gone")
    while (left := until - clock()) > 0:
        sleep(min(left, 1.0))


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
    """Run Snakemake once; returns its exit status, or the signal that stopped it."""
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
    try:
        # If this process is killed, SIGTERM makes Snakemake end its trials in order. Snakemake
        # records this process, so that `storewise watch` knows that another pass may follow.
        runner = {RUNNER_VARIABLE: json.dumps(asdict(Process.current()))}
        child = subprocess.Popen(
            command,
            stdout=None if log is None else log.written,
            stderr=None if log is None else subprocess.STDOUT,
            preexec_fn=dies_with_parent(signal.SIGTERM),
            env={**os.environ, **runner, **cache_environment(Path())},
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
    """Wait for Snakemake and return its exit status; `follower` follows its log meanwhile."""
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
