"""All results of a study in memory."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd

from storewise.analysis.common.warnings import StudyWarning
from storewise.analysis.files.inputs import FailedTrial, InputTotals, Quarantined
from storewise.analysis.files.parts import HdrLog, Part
from storewise.analysis.files.runs import FailedAttempt
from storewise.study.references import Reference

Key = tuple[str, str, int, str, str, str]
"""Trial, phase, step, operation, node that owns the documents (empty: all nodes), time."""


@dataclass(frozen=True, slots=True)
class OfTrials:
    """Tables of trials that are published without further processing."""

    series: pd.DataFrame
    host: pd.DataFrame
    cpu: pd.DataFrame
    per_node: pd.DataFrame
    crashes: pd.DataFrame
    nodes: pd.DataFrame
    verification: pd.DataFrame


@dataclass(frozen=True, slots=True)
class Measured(OfTrials):
    """Figures of trials; the functions that make the tables describe their columns.

    `trials` has trial, repeat, phases, host; the parameters of steps are in
    `parameters` and `conditions`, not in `measures`.
    """

    trials: pd.DataFrame
    measures: pd.DataFrame
    parameters: pd.DataFrame
    conditions: pd.DataFrame
    warnings: Sequence[StudyWarning]


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
    lacking: int = 0
    """The number of trials of the study without results."""
    references: Sequence[Reference] = ()
    attempts: Sequence[FailedAttempt] = ()
    """Failed attempts of trials that were measured later."""
