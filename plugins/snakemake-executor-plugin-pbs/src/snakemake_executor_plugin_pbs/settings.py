"""What a user may set: ``--pbs-...`` on the command line, ``pbs-...:`` in a profile.

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

from snakemake_executor_plugin_pbs.dialects import DIALECTS

#: Rules of all names, in the setting `arrays`.
ALL = "all"


def _option(help: str, default: Any = None, **metadata: Any) -> Any:
    return field(
        default=default, metadata={"help": help, "env_var": False, "required": False, **metadata}
    )


@dataclass
class ExecutorSettings(ExecutorSettingsBase):
    """Settings of the executor. `queue`, `account`, `select`, `place` and `extra` are what jobs get
    whose rule does not say `pbs_queue` and so on in its resources."""

    queue: Optional[str] = _option("Queue of the jobs (qsub -q). Resource of a rule: pbs_queue.")
    account: Optional[str] = _option("Account (qsub -A). Resource of a rule: pbs_account.")
    select: Optional[str] = _option(
        "More words for each chunk of `-l select`, as host_type=bigmem:ngpus=0; with Torque for "
        "`-l nodes`. Resource of a rule: pbs_select."
    )
    place: Optional[str] = _option(
        "How chunks are placed on hosts (qsub -l place), as free, excl, scatter:excl or pack. "
        "Without it: scatter for a job with the resource nodes above 1, else free. "
        "Resource of a rule: pbs_place."
    )
    extra: Optional[str] = _option(
        "More words for qsub, quoted as for a shell. Resource of a rule: pbs_extra."
    )
    logdir: Optional[Path] = _option(
        "Directory of the jobs' logs, with a subdirectory for each run. All hosts must see it. "
        "Default: .snakemake/pbs_logs."
    )
    keep_successful_logs: bool = _option(
        "Keep the logs of jobs that ended well; without it they are deleted.", False
    )
    dialect: Optional[str] = _option(
        "Which PBS this is: " + ", ".join(DIALECTS) + ". Without it `qstat --version` tells.",
        choices=list(DIALECTS),
    )
    status_interval: float = _option(
        "Seconds between two calls of qstat for all jobs. Default: 10.", 10.0
    )
    arrays: Optional[str] = _option(
        "Rules whose ready jobs are submitted together as a job array: names with commas between "
        "them, or 'all'."
    )
    array_limit: int = _option("Most jobs of an array. Default: 1000.", 1000)
    lost_after: float = _option(
        "Seconds after which a job is given up whose host PBS says is down. Default: 60.", 60.0
    )

    def __post_init__(self) -> None:
        """Raises WorkflowError where a value can mean nothing."""
        if self.dialect is not None and self.dialect not in DIALECTS:
            raise WorkflowError(
                f"--pbs-dialect {self.dialect} is not known; expected {' or '.join(DIALECTS)}"
            )
        for name, least in (("status_interval", 1), ("array_limit", 2), ("lost_after", 1)):
            if getattr(self, name) < least:
                option = name.replace("_", "-")
                raise WorkflowError(f"--pbs-{option} must not be less than {least}")
        try:
            shlex.split(self.extra or "")
        except ValueError as error:
            raise WorkflowError(f"--pbs-extra: {error} in {self.extra!r}") from None

    @property
    def array_rules(self) -> frozenset[str]:
        """Names of the rules whose jobs become arrays; `ALL` stands for every rule."""
        words = (self.arrays or "").replace(",", " ").split()
        return frozenset(words)
