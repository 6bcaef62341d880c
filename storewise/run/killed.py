"""Clean up after runs that were killed: the first thing a new run does."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from storewise.schedulers.jobs import cancel_jobs
from storewise.schedulers.queue import present
from storewise.session.coordination.run import remove_dead_runs


def clean_up_killed_runs(results: Path, say: Callable[[str], None]) -> None:
    """Cancel the cluster jobs of killed runs of a study, and remove what they left in its results.

    Waits until each run is alive or certainly dead. ConfigError if another user owns a file that
    says what to remove. The current directory must be Snakemake's working directory.
    """
    remove_dead_runs(results, say, present, cancel_jobs)
