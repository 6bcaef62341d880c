"""Whether a comparison lets B pass: `--fail-if-slower 10%`."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pandas as pd

from storewise.analysis.common.frames import records
from storewise.analysis.stats.intervals import LEVEL, Estimate, holm_adjusted, p_value
from storewise.compare.compare import NOT_COMPARABLE, Comparison
from storewise.compare.sides import RATE, SIZE
from storewise.errors import ResultError

#: Chance of a false failure: that of one end of a 95 % interval.
ONE_SIDED = (1 - LEVEL) / 2


@dataclass(frozen=True, slots=True)
class Gate:
    """The rates and times of a comparison against a limit.

    `slower` are those shown to be worse by more than the limit, `unsure` those of which that
    cannot be told (a column `reason` says why), `held` the number of those shown not to be.
    """

    limit: float
    slower: pd.DataFrame
    unsure: pd.DataFrame
    held: int

    def fails(self, *, strict: bool) -> bool:
        """Whether B is refused; `strict` refuses also what cannot be told."""
        return len(self.slower) > 0 or (strict and len(self.unsure) > 0)


def parse_limit(text: str) -> float:
    """`10%` as 0.1; raises ResultError for what is no percentage between 0 and 100."""
    number = re.fullmatch(r"\s*(\d+(?:\.\d*)?|\.\d+)\s*%\s*", text)
    value = float(number.group(1)) if number else math.nan
    if not 0 <= value < 100:
        raise ResultError(
            f"--fail-if-slower {text!r}: expected a percentage from 0% to below 100%, such as 10%"
        )
    return value / 100


def gate(comparison: Comparison, limit: float) -> Gate:
    """Hold the rates and times of a comparison to a limit (a share: 0.1 for 10 %).

    A rate is slower where B/A lies below 1 - limit, a time where it lies above 1 + limit. Shown is
    that where p of the opposite, one-sided and adjusted over all of them by Holm's method, is below
    2.5 %: the end of the 95 % interval, corrected. What is in A only cannot be told.

    Raises ResultError where the comparison has no rate and no time.
    """
    rows = comparison.figures[comparison.figures["kind"] != SIZE]
    missing = comparison.only[(comparison.only["side"] == "A") & (comparison.only["kind"] != SIZE)]
    if rows.empty:
        raise ResultError(
            "--fail-if-slower: no rate and no time is in both; leave out --measure or --phase, or "
            "name those of rates and times"
        )
    p_slower = [p_value(*_oriented(row, limit), "less") for row in records(rows)]
    verdicts, reasons = [], []
    for row, p in zip(records(rows), holm_adjusted(p_slower), strict=True):
        worse, bound = _oriented(row, limit)
        if p < ONE_SIDED:
            verdict, reason = "slower", ""
        elif row["verdict"] == NOT_COMPARABLE or math.isnan(p):
            verdict, reason = "unsure", str(row["why"])
        elif worse.low >= bound:
            verdict, reason = "held", ""
        else:
            verdict, reason = "unsure", "its interval does not lie on one side of the limit"
            if worse.high < bound:
                reason = (
                    f"its interval alone would say so, not after correction for {len(rows)} figures"
                )
        verdicts.append(verdict)
        reasons.append(reason)
    rows = rows.assign(gate=verdicts, reason=reasons)
    only = missing.assign(reason=[why or "it is in A only" for why in missing["why"]])
    unsure = [frame for frame in (rows[rows["gate"] == "unsure"], only) if len(frame)]
    return Gate(
        limit,
        rows[rows["gate"] == "slower"],
        pd.concat(unsure, ignore_index=True) if unsure else rows.iloc[:0],
        int((rows["gate"] == "held").sum()),
    )


def _oriented(row: Mapping[str, Any], limit: float) -> tuple[Estimate, float]:
    """A figure as a ratio that is below a bound where B is slower: of a time that of A/B."""
    if row["verdict"] == NOT_COMPARABLE or math.isnan(row["p"]):
        return Estimate.unknown(0, row["ratio"]), 1 - limit
    ends = row["ratio"], row["ratio_low"], row["ratio_high"]
    ratio = Estimate(0, *ends, "repeats", row["error"], row["freedom"])
    return (ratio, 1 - limit) if row["kind"] == RATE else (ratio.under(1.0), 1 / (1 + limit))
