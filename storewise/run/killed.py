"""What a run does first: forget runs that were killed, with their jobs."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from storewise.schedulers.job_registry import cancel_all, runs
from storewise.schedulers.queue import present
from storewise.session.coordination.run import sweep_dead


def forget_killed_runs(results: Path, say: Callable[[str], None]) -> None:
    """Remove what killed runs left in a study's results, and cancel their jobs.

    Waits until it is sure of their end. ConfigError where another user has made what it would go
    by. Snakemake works in the current directory.
    """
    for run in sweep_dead(results, say, present):
        if run in runs(Path()):
            cancel_jobs(run, say)


def cancel_jobs(run: str, say: Callable[[str], None]) -> None:
    """Cancel what a run has submitted and Snakemake has not cancelled itself."""
    if cancel_all(Path(), run):
        say(f"cancelling the cluster jobs of run {run} that may be left")
