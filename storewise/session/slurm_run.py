"""Which jobs in Slurm belong to a run of Snakemake."""

from __future__ import annotations

import re

#: The kind under which a run's name is registered in `storewise.session.cluster_jobs`.
KIND = "slurm-run"
#: What snakemake-executor-plugin-slurm 2.8 says when it starts, before it submits anything
#: (``Executor.__post_init__``). The id is the ``--job-name`` of all its jobs.
_RUN_ID = re.compile(r"SLURM run ID: (?P<name>[\w-]+)")


def run_name(message: str) -> str | None:
    """The name that all Slurm jobs of a run share, if this message of the plugin tells it."""
    found = _RUN_ID.fullmatch(message.strip())
    return found["name"] if found else None
