"""Checks and notes before anything of a plan starts.

Each check raises ConfigError, whose sentence says what to do, or returns a sentence for the user
(None where there is nothing to tell).
"""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from storewise.errors import ConfigError, StorewiseError
from storewise.estimate.estimate import estimate, money_text, refuse_above
from storewise.run.free_space import too_little
from storewise.s3.upload import check_writable as check_place
from storewise.s3.uri import parse
from storewise.session.coordination.private import (
    restrict_snakemake_directory,
    world_writable_parents,
)
from storewise.study.host_classes import NodeClass, class_named
from storewise.study.publication import tags_of
from storewise.study.study import Study
from storewise.study.trial import Trial, node_jobs

#: The schedulers that have a profile, by their command.
_SUBMIT = {"sbatch": "slurm", "qsub": "pbs"}


def check_whole(trial: str, wanted: Iterable[str], planned: Iterable[str]) -> None:
    """Refuse a plan that makes only some of a trial's results (`wanted` are all of them)."""
    missing = sorted(set(wanted) - set(planned))
    if missing:
        more = f" and {len(missing) - 3} more" if len(missing) > 3 else ""
        raise ConfigError(
            f"the targets ask for a part of trial {trial} only; a trial is measured whole (not "
            f"asked for: {', '.join(missing[:3])}{more}). Run snakemake without a target: it "
            "measures every trial that is not complete."
        )


def check_cores(
    trials: Sequence[Trial], study: Study, cores: int, threads: Mapping[str, int]
) -> None:
    """Refuse trials whose jobs cannot all run at once on this host. `threads`: those that a job of
    each trial takes, by its id."""
    live = _widest(trials, study)
    needed, each = _jobs(live, study), max(threads[trial.id] for trial in live)
    # Snakemake's local executor keeps five places beyond its cores for jobs without threads; one
    # of them may be taken by the next trial, which waits to be opened.
    slots = cores // each if each else cores + 4
    advice = f"use --cores {needed * each or max(1, needed - 4)} or more"
    if each:
        advice += ", or --profile profiles/local, where they take no core"
    _check_slots(live, study, slots, advice)


def check_jobs(trials: Sequence[Trial], study: Study, jobs: int) -> None:
    """Refuse trials whose jobs cannot all be in the scheduler's queue at once."""
    live = _widest(trials, study)
    _check_slots(live, study, jobs, f"use --jobs {_jobs(live, study)} or more")


def _workers_jobs(trial: Trial, study: Study) -> int:
    return len(range(0, trial.workers, study.workers_per_job))


def _jobs(trials: Iterable[Trial], study: Study) -> int:
    """The jobs that run together: all nodes, and the workers of a phase."""
    return sum(len(node_jobs(trial)) + _workers_jobs(trial, study) for trial in trials)


def _widest(trials: Sequence[Trial], study: Study) -> list[Trial]:
    """The trials with the most jobs, as many as are live at once: each holds slots that another one
    waits for."""
    return sorted(trials, key=lambda t: _jobs([t], study), reverse=True)[: study.live_sessions]


def _check_slots(live: Sequence[Trial], study: Study, slots: int, advice: str) -> None:
    """Refuse trials whose jobs would wait for each other without end."""
    needed, widest = _jobs(live, study), live[0]
    if slots >= needed:
        return
    nodes = f"{len(node_jobs(widest))} nodes and " if node_jobs(widest) else ""
    jobs = _workers_jobs(widest, study)
    shared = "" if jobs == widest.workers else f" in {jobs} jobs"
    others = f" ({needed} jobs with those of {len(live) - 1} more, by `live_sessions`)"
    raise ConfigError(
        f"trial {widest.id} has {nodes}{widest.workers} workers{shared} that run together"
        f"{others if live[1:] else ''}, but only {slots} jobs can run at once here: they would "
        f"wait for each other for ever; {advice}"
    )


def unused_scheduler(trials: Iterable[Trial]) -> str | None:
    """A note for a run without a scheduler, if this host has one and the trials have servers."""
    here = [program for program in _SUBMIT if shutil.which(program)]
    if not here or not any(map(node_jobs, trials)):
        return None
    return (
        f"all nodes and workers will run on this host, although it has {here[0]}; use "
        f"--profile profiles/{_SUBMIT[here[0]]} to give them hosts of their own"
    )


def check_groups(study: Study, groups: Mapping[str, str]) -> None:
    """Refuse groups (rule -> group, of the profile) of workers that share jobs: a group has one
    host, and these workers want one each."""
    if study.workers_per_job > 1 and {"load", "phase"} & groups.keys():
        raise ConfigError(
            f"`workers_per_job: {study.workers_per_job}` puts each worker on a host of its "
            "own, and the profile's `groups` puts the jobs of a trial on one host: use one of them"
        )


def check_host_classes(
    trials: Iterable[Trial], study: Study, classes: Mapping[str, NodeClass]
) -> None:
    """Refuse classes of hosts that the profile does not know."""
    for trial in trials:
        if node_jobs(trial) and ("node_class" in study.factors or classes):
            try:
                class_named(trial.node_class, classes)
            except ConfigError as error:
                raise ConfigError(
                    f"trial {trial.id}: {error}. The factor node_class needs a profile that maps "
                    "classes to partitions or queues, such as profiles/aws (docs/clusters.md)"
                ) from error


def check_cost(
    study: Study, trials: Sequence[Trial], classes: Mapping[str, NodeClass], results: Path
) -> str | None:
    """Refuse what would cost more than the study's `max_cost`."""
    if study.max_cost is None:
        return None
    cost = estimate(study, trials, classes, results)
    refuse_above(cost, study.max_cost)
    assert cost.money is not None, "else it was refused"
    return (
        f"measuring {'1 trial' if len(trials) == 1 else f'{len(trials)} trials'} costs about "
        f"{cost.money.text(money_text)} {cost.currency}; the study allows "
        f"{money_text(study.max_cost)}"
    )


def check_writable(results: Path) -> None:
    """Refuse a directory of results that cannot be written."""
    probe = results / f".writable.{os.getpid()}"
    try:
        probe.parent.mkdir(parents=True, exist_ok=True)
        probe.write_bytes(b"x" * 65536)
        probe.unlink()
    except OSError as error:
        if os.access(results, os.W_OK):
            probe.unlink(missing_ok=True)
        raise ConfigError(
            f"results cannot be written to {results.absolute()}: {error.strerror}; free space, "
            "change its rights, or run from another directory (--directory)"
        ) from error


def check_private_way(results: Path) -> None:
    """Refuse where every user could replace the files that direct a run."""
    restrict_snakemake_directory(Path())
    places = (Path(), results, *results.glob("*/"), *Path().glob(".snakemake/*/"))
    if open_to_all := world_writable_parents(places):
        raise ConfigError(
            f"every user may write to {', '.join(open_to_all)}, and so replace files of the run "
            "(scripts of jobs, passwords of servers); `chmod o-w` (or +t) there, or run in another "
            "directory (--directory)"
        )


def check_space(study: Study, results: Path) -> None:
    """Refuse a file system that a run would fill (`too_little`)."""
    if (full := too_little(study, results)) is not None:
        raise ConfigError(full)


def check_publishable(study: Study) -> None:
    """Refuse a place that cannot be published to, before hours of measuring."""
    if study.publish is None:
        return
    place = parse(study.publish.to).folder()
    try:
        check_place(place, tags_of(study.publish, study.name, time.time()))
    except StorewiseError as error:
        raise ConfigError(
            f"the results could not be published at the end of the run: {error}"
        ) from error
