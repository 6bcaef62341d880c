"""All results of a study as the analysis has them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas as pd

from storewise.analysis.common.warnings import StudyWarning
from storewise.analysis.files.attempts import FailedAttempt
from storewise.analysis.files.inputs import FailedTrial, InputTotals, Quarantined
from storewise.analysis.files.parts import HdrLog, Part
from storewise.study.references import Reference

if TYPE_CHECKING:
    from storewise.analysis.measure.trials import Measured


@dataclass(frozen=True, slots=True)
class Results:
    """All results of a study.

    `measured` are the figures of all trials, reduced from their samples. `trials` has one row per
    trial with results: trial, repeat, factors, phases, host; a factor is typed as in the study (one
    whose name a column of the result schema has keeps its ``factor.`` prefix). Trials that failed
    for good are only in `failed`.
    """

    directory: Path
    study: Mapping[str, Any]
    measured: Measured
    trials: pd.DataFrame
    factors: tuple[str, ...]
    parts: Sequence[Part]
    logs: Sequence[HdrLog]
    failed: Sequence[FailedTrial]
    inputs: InputTotals | None
    quarantined: Sequence[Quarantined]
    warnings: Sequence[StudyWarning]
    references: Sequence[Reference] = ()
    attempts: Sequence[FailedAttempt] = ()
    """Those that failed of trials that were measured in the end."""
