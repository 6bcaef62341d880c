"""What a reader should know before trusting a figure, as values."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import astuple, dataclass

import pandas as pd


@dataclass(frozen=True, slots=True, order=True)
class StudyWarning:
    """One warning of a study.

    `code` is stable (``docs/analysis.md`` lists them all), `trial` names the trial it is about or
    is empty for the whole study, `remedy` says what to do.
    """

    code: str
    trial: str
    message: str
    remedy: str


COLUMNS = ["code", "trial", "message", "remedy"]


def warning_table(warnings: Iterable[StudyWarning]) -> pd.DataFrame:
    """The warnings, each once, sorted by code and trial."""
    return pd.DataFrame(map(astuple, sorted(set(warnings))), columns=COLUMNS)
