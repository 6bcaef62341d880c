"""``storewise-pbs-cancel ID...``: ends jobs of PBS in a process of its own.

Snakemake gives the command two seconds, and calls it only when a run ends; so within a run all
jobs of that run are cancelled, also those that Snakemake has lost sight of.
"""

from __future__ import annotations

import sys
from pathlib import Path

from storewise.schedulers.job_registry import NO_RUN, cancel_detached, current_run, mark_ended


def main() -> None:
    """Entry point; returns at once."""
    ids = [word for word in sys.argv[1:] if word[:1].isdigit()]
    wrong = [word for word in sys.argv[1:] if not word[:1].isdigit()]
    if wrong or not ids:
        sys.stderr.write(
            "usage: storewise-pbs-cancel ID...\n" + "".join(f"not a job id: {w}\n" for w in wrong)
        )
    if not ids:
        sys.exit(2)
    root, run = Path.cwd(), current_run()
    if run != NO_RUN:
        mark_ended(root, run)
    cancel_detached(root, run, [("pbs", job_id) for job_id in ids])
