"""`storewise run`: call Snakemake, again after a failed trial, and end with the report."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path

from storewise.atomic import write_aside
from storewise.errors import StorewiseError
from storewise.layout import ANALYSIS, LIBRARY, LISTING, PUBLISH_LOG, REPORT, VERDICT
from storewise.processes import dies_with_parent
from storewise.publish.results import last_attempt, published_at
from storewise.run.retries import attempts, forget, give_up, given_up
from storewise.session.coordination.liveness import Process
from storewise.session.coordination.run_record import RUNNER_VARIABLE, measured_by
from storewise.ssearch.inputs.paths import list_inputs, sample_paths
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
DRY_RUN = {"-n", "--dry-run", "--dryrun"}


def workflow_home() -> Path:
    """The directory of the Snakefile: the working directory, else the checkout we run from."""
    for directory in (Path.cwd(), LIBRARY):
        if (directory / "Snakefile").is_file() and (directory / "rules").is_dir():
            return directory
    raise StorewiseError(
        f"there is no Storewise workflow in {Path.cwd()}, nor beside the package in {LIBRARY}: run "
        "this in a checkout of Storewise, or install Storewise from one with `make env`"
    )


def run_study(
    name: str,
    *,
    profile: str | None,
    scale: str | None,
    cores: int | None,
    retry_failed: bool,
    many: bool,
    extra: Sequence[str],
    say: Callable[[str], None],
    clock: Callable[[], float] = time.time,
    sleep: Callable[[float], None] = time.sleep,
) -> int:
    """Run a study to its report; returns the exit status for the shell.

    0: every trial was measured. 1: the report is there, but trials failed for good (named in
    it). 3 (`NOT_PUBLISHED`): the report is there, but the study's `publish` failed. 2 and others:
    Snakemake failed for another reason than a trial; it has said so. `clock` is Unix time.
    """
    home = workflow_home()
    study = load_study(name, scale=scale, root=home, many=many)
    results = Path("results") / study.name
    # Snakemake refuses it too, later and in its own words; a plan alone disturbs nobody.
    if not DRY_RUN.intersection(extra) and (other := measured_by(results)):
        raise StorewiseError(other)
    if not (results / LISTING).is_file():
        load_study(name, scale=scale, root=home, many=many, inputs_exist=True)
    if retry_failed:
        forget(study, results)
    command = _command(home, study, name, profile=profile, scale=scale, cores=cores, extra=extra)
    if many:
        command.append("many=true")
    started, published = clock(), last_attempt(results)
    while True:
        before = attempts(study, results, started)
        status = _snakemake(command)
        if status == 0 or status < 0 or status >= 128:
            break
        after = attempts(study, results, started)
        new = [t for t, tried in after.items() if len(tried) > len(before.get(t, []))]
        if not new:
            if last_attempt(results) in {None, published} or published_at(results):
                return 2
            say(
                f"the results are not published, {results / PUBLISH_LOG} says why; when that is "
                f"mended: storewise publish {name}"
            )
            status = NOT_PUBLISHED
            break
        for trial in new:
            tried = after[trial]
            if len(tried) > study.retries:
                give_up(study, results, trial, tried)
                say(f"trial {trial} failed {len(tried)} times and is left out: {tried[-1].reason}")
            else:
                say(f"trial {trial} failed ({tried[-1].reason}); it is tried again")
        until = max(after[trial][-1].until for trial in new)
        if until:
            try:
                _await_end(until + (NOTICED if profile is not None else 0.0), say, clock, sleep)
            except KeyboardInterrupt:
                return 128 + signal.SIGINT
    if status not in {0, NOT_PUBLISHED}:
        return status
    lost = given_up(study, results)
    if lost:
        say(
            f"{len(lost)} of {len(study.trials())} trials failed: {', '.join(lost)}; "
            "the report has their reasons, --retry-failed tries them again"
        )
    return status or (1 if lost else 0)


def results_of(name: str, scale: str | None) -> tuple[Path | None, str]:
    """The report of a study, None where there is none, and its main finding in one line."""
    study = load_study(name, scale=scale, root=workflow_home(), many=True)
    results = Path("results") / study.name
    report, verdict = results / REPORT, results / ANALYSIS / VERDICT
    if not report.is_file() or not verdict.is_file():
        return None, ""
    return report, str(json.loads(verdict.read_text(encoding="utf-8"))["finding"])


def renew_inputs(name: str) -> str:
    """List a study's inputs anew; returns what changed, in words."""
    study = load_study(name, root=workflow_home(), many=True)
    if study.inputs.search is not None:
        return f"study {study.name} searches FASTA files; Snakemake sees by itself when they change"
    listing = Path("results") / study.name / LISTING
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
    """Return when hosts that are taken back are gone: a scheduler gives jobs to them until then."""
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


def _command(
    home: Path,
    study: Study,
    name: str,
    *,
    profile: str | None,
    scale: str | None,
    cores: int | None,
    extra: Sequence[str],
) -> list[str]:
    command = [sys.executable, "-m", "snakemake", "--snakefile", str(home / "Snakefile")]
    if profile is None:
        command += ["--profile", str(home / "profiles" / "local")]
        command += ["--cores", str(cores or slots_needed(study))]
    else:
        local = home / "profiles" / profile
        command += ["--profile", str(local) if local.is_dir() else profile]
        if cores is not None:
            command += ["--cores", str(cores)]
    command += [*extra, "--config", f"study={name}"]
    if scale is not None:
        command.append(f"scale={scale}")
    return command


def _snakemake(command: Sequence[str]) -> int:
    # SIGTERM lets a Snakemake that lost us end its trials in order.
    # It records us, so that `storewise watch` knows that another pass may follow.
    runner = {RUNNER_VARIABLE: json.dumps(asdict(Process.current()))}
    child = subprocess.Popen(
        command,
        preexec_fn=dies_with_parent(signal.SIGTERM),
        env={**os.environ, **runner, **cache_environment(Path())},
    )
    while True:
        try:
            return child.wait()
        except KeyboardInterrupt:
            # The terminal sent it to Snakemake too, which ends its trials first.
            continue


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
