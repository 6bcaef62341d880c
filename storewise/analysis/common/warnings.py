"""What a reader should know before trusting a figure, as values."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import astuple, dataclass

import pandas as pd


@dataclass(frozen=True, slots=True, order=True)
class StudyWarning:
    """One warning of a study.

    `code` is stable (``docs/report.md`` lists them all), `trial` names the trial it is about or
    is empty for the whole study, `remedy` says what to do.
    """

    code: str
    trial: str
    message: str
    remedy: str


#: Cases that happen by chance now and then, also on a quiet machine, are an alarm from so many on,
#: and where they are so large a share: `benchmarks/alarms.py`.
FEWEST, LEAST_SHARE = 3, 0.1


def often(cases: int, of: int) -> bool:
    """Whether so many cases are an alarm; all that there are always are."""
    return cases > 0 and cases >= min(of, max(FEWEST, LEAST_SHARE * of))


COLUMNS = ["code", "trial", "message", "remedy"]


def warning_table(warnings: Iterable[StudyWarning]) -> pd.DataFrame:
    """The warnings, each once, sorted by code and trial."""
    return pd.DataFrame(map(astuple, sorted(set(warnings))), columns=COLUMNS)
