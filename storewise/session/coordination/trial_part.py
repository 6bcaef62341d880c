"""The result part of a job of a trial.

Apart from `trial_job`: opening a session writes no part, and starts faster without pyarrow.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from storewise.metrics.host import facts, host_name
from storewise.metrics.schema import Sample, write_part
from storewise.study.trial import Trial


def write_trial_part(
    path: Path, samples: Iterable[Sample], trial: Trial, phase: str, **conditions: Any
) -> None:
    """Write the result part of a job of a trial: its samples, and the `conditions` of the trial
    and its host."""
    write_part(
        path,
        samples,
        trial=trial.id,
        repeat=trial.repeat,
        host=host_name(),
        factors=trial.factors,
        conditions={
            **conditions,
            "trial": trial.model_dump(mode="json"),
            "phase": phase,
            "seed": trial.seed,
            "host": facts(),
        },
    )
