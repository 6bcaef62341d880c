"""Pass or fail a comparison against a limit: `--fail-if-slower 10%`."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass

import numpy as np
import pandas as pd
from scipy import stats

from storewise.analysis.decision.compare import DAYS
from storewise.analysis.stats.intervals import holm_adjusted
from storewise.compare.compare import Comparison
from storewise.compare.figures import RATE, SIZE
from storewise.errors import ResultError

#: Chance of a false failure, and of a false pass.
ONE_SIDED = 0.025
DIFFERENT_DAYS = "different days: the machine may be the reason"


@dataclass(frozen=True, slots=True)
class Gate:
    """The rates and times of a comparison, tested against a limit. `slower`: significantly worse by
    more than the limit; `unsure`: inconclusive (column `reason`); `held`: number of those
    significantly within the limit."""

    limit: float
    slower: pd.DataFrame
    unsure: pd.DataFrame
    held: int

    def fails(self, *, strict: bool) -> bool:
        """Whether new fails; with `strict` it also fails if the test is inconclusive."""
        return len(self.slower) > 0 or (strict and len(self.unsure) > 0)


def parse_limit(text: str) -> float:
    """`10%` as 0.1; raises ResultError unless it is a percentage between 0 and 100."""
    number = re.fullmatch(r"\s*(\d+(?:\.\d*)?|\.\d+)\s*%\s*", text)
    value = float(number.group(1)) if number else math.nan
    if not 0 <= value < 100:
        raise ResultError(
            f"--fail-if-slower {text!r}: expected a percentage from 0% to below 100%, such as 10%"
        )
    return value / 100


def gate(comparison: Comparison, limit: float) -> Gate:
    """Test the rates and times of a comparison against a limit (a share: 0.1 for 10 %).

    A rate is slower where new over old lies below 1 - limit, a time where it lies above 1 + limit.
    That is shown where p (Student's t, one-sided, adjusted over all of them by Holm's method) is
    below 2.5 %. Of the opposite p needs no adjustment: new passes only if all of them are shown
    (Berger, Technometrics 24(4), 1982). What old has only cannot be told.

    Raises ResultError where the comparison has no rate and no time.
    """
    rows = comparison.figures[comparison.figures["kind"] != SIZE]
    lost = comparison.only[(comparison.only["side"] == "old") & (comparison.only["kind"] != SIZE)]
    if rows.empty:
        raise ResultError("--fail-if-slower: no rate and no time is on both sides")
    sign = np.where(rows["kind"] == RATE, 1, -1)
    bound = np.where(rows["kind"] == RATE, math.log(1 - limit), -math.log(1 + limit))
    # How far new is above the limit, in standard errors.
    t = (sign * np.log(rows["ratio"]) - bound) / rows["error"]
    slower = holm_adjusted(stats.t.cdf(t, rows["freedom"])) < ONE_SIDED
    held = stats.t.sf(t, rows["freedom"]) < ONE_SIDED
    reasons = np.where(t.isna(), "a single round has no error", "its error is too large")
    reasons = np.where(rows["basis"] == DAYS, DIFFERENT_DAYS, reasons)
    rows = rows.assign(reason=reasons)
    lost = lost.assign(reason="old has it only")
    unsure = [frame for frame in (rows[~slower & ~held], lost) if len(frame)]
    return Gate(
        limit,
        rows[slower],
        pd.concat(unsure, ignore_index=True) if unsure else rows.iloc[:0],
        int(held.sum()),
    )
