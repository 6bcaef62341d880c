"""Clean up after runs that were killed: the first thing a new run does."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from storewise.schedulers.job_registry import cancel_all, runs
from storewise.schedulers.queue import present
from storewise.session.coordination.run import remove_dead_runs


def clean_up_killed_runs(results: Path, say: Callable[[str], None]) -> None:
    """Remove what killed runs left in a study's results, and cancel their cluster jobs.

    Waits until each run is alive or certainly dead. ConfigError if another user owns a file that
    says what to remove. The current directory must be Snakemake's working directory.
    """
    for run in remove_dead_runs(results, say, present):
        if run in runs(Path()):
            cancel_jobs(run, say)


def cancel_jobs(run: str, say: Callable[[str], None]) -> None:
    """Cancel the cluster jobs of a run that Snakemake has not cancelled itself."""
    if cancel_all(Path(), run):
        say(f"cancelling the cluster jobs of run {run} that may be left")
