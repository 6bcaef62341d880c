"""User settings: ``--pbs-...`` on the command line, ``pbs-...:`` in a profile.

Snakemake makes options of the annotations of `ExecutorSettings`: they must be plain types or
`Optional`, and no strings, so there is no ``from __future__ import annotations`` here.
"""

# ruff: noqa: UP045, RUF009

import shlex
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Optional

from snakemake_interface_common.exceptions import WorkflowError
from snakemake_interface_executor_plugins.settings import ExecutorSettingsBase


def _option(help: str, default: Any = None) -> Any:
    return field(default=default, metadata={"help": help, "env_var": False, "required": False})


@dataclass
class ExecutorSettings(ExecutorSettingsBase):
    """Settings of the executor. `queue`, `account`, `select`, `place` and `extra` are defaults for
    jobs whose rule does not set the resource `pbs_queue` and so on."""

    queue: Optional[str] = _option("Queue of the jobs (qsub -q). Resource of a rule: pbs_queue.")
    account: Optional[str] = _option("Account (qsub -A). Resource of a rule: pbs_account.")
    select: Optional[str] = _option(
        "Added to each chunk of `-l select`, as host_type=bigmem:ngpus=0. "
        "Resource of a rule: pbs_select."
    )
    place: Optional[str] = _option(
        "How chunks are placed on hosts (qsub -l place), as free, excl, scatter:excl or pack. "
        "Without it: scatter for a job with the resource nodes above 1, else free. "
        "Resource of a rule: pbs_place."
    )
    extra: Optional[str] = _option(
        "More arguments of qsub, quoted as for a shell. Resource of a rule: pbs_extra."
    )
    logdir: Optional[Path] = _option(
        "Directory of the jobs' logs, with a subdirectory for each run. All hosts must see it. "
        "Default: .snakemake/pbs_logs."
    )
    keep_successful_logs: bool = _option(
        "Keep the logs of successful jobs; without it they are deleted.", False
    )
    status_interval: float = _option(
        "Seconds between two calls of qstat for all jobs. Default: 10.", 10.0
    )
    lost_after: float = _option(
        "Seconds after which a job is given up whose host PBS reports down. Default: 60.", 60.0
    )

    def __post_init__(self) -> None:
        """Raises WorkflowError for a time below 1 s or `extra` that a shell could not split."""
        for name in ("status_interval", "lost_after"):
            if getattr(self, name) < 1:
                raise WorkflowError(f"--pbs-{name.replace('_', '-')} must be at least 1")
        try:
            shlex.split(self.extra or "")
        except ValueError as error:
            raise WorkflowError(f"--pbs-extra: {error} in {self.extra!r}") from None
