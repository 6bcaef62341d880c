"""Before a run: remove what killed runs left, and refuse a second run of the same study."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from storewise.errors import ConfigError
from storewise.schedulers.jobs import cancel_jobs
from storewise.schedulers.queue import present
from storewise.session.coordination.cleanup import remove_dead_runs
from storewise.session.coordination.run_record import measuring_run
from storewise.study.shares import lost_indexes


def clean_up_killed_runs(results: Path, say: Callable[[str], None]) -> None:
    """Cancel the cluster jobs of killed runs of a study, and remove what they left in its results.

    Waits until each run is alive or certainly dead. ConfigError if another user owns a file that
    says what to remove. The current directory must be Snakemake's working directory.
    """
    remove_dead_runs(results, say, present, cancel_jobs)
    for index in lost_indexes(results):
        say(f"{index} names a result that is not there: it is made anew")
        index.unlink()


def refuse_second_run(results: Path, run: str | None = None) -> None:
    """ConfigError that names a run other than `run` which measures the study now."""
    if other := measuring_run(results, run):
        raise ConfigError(other)
