"""Attempts that failed although their trial was measured in the end (``failures/*.jsonl``)."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from storewise.analysis.common.text import all_of
from storewise.analysis.common.warnings import StudyWarning

#: Where a run keeps them, below a study's directory (`storewise.session.coordination.run`).
FAILURES = "failures"


@dataclass(frozen=True, slots=True, order=True)
class FailedAttempt:
    """One attempt: its trial, when it failed (Unix time), why, and the end of the log."""

    trial: str
    at: float
    reason: str
    log_tail: str = ""

    @property
    def when(self) -> str:
        """The time in UTC, to the second."""
        return f"{datetime.fromtimestamp(self.at, UTC):%Y-%m-%d %H:%M:%S} UTC"


def read_attempts(
    directory: Path, measured: Collection[str]
) -> tuple[list[FailedAttempt], list[StudyWarning]]:
    """Failed attempts at the trials that were `measured`, and a warning for each of these."""
    found = sorted(
        attempt
        for path in (directory / FAILURES).glob("*.jsonl")
        if path.stem in measured
        for attempt in _attempts(path)
    )
    warnings = []
    for trial in dict.fromkeys(one.trial for one in found):
        reasons = [one.reason for one in found if one.trial == trial]
        number, told = "1 attempt", reasons[0]
        if len(reasons) > 1:
            number = f"{len(reasons)} attempts"
            told = all_of([f"({i}) {reason}" for i, reason in enumerate(reasons, 1)])
        warnings.append(
            StudyWarning(
                "failed_attempt",
                trial,
                f"{number} failed before it was measured: {told}",
                "its figures are those of the attempt that succeeded; where many trials fail so, "
                "look for the cause before you trust their rates",
            )
        )
    return found, warnings


def _attempts(path: Path) -> Iterator[FailedAttempt]:
    """The attempts of one file; a line that was cut (full disk, crashed host) is passed over."""
    try:
        lines = path.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return
    for line in lines:
        try:
            told = json.loads(line)
            yield FailedAttempt(
                path.stem,
                float(told["at"]),
                str(told["reason"]),
                str(told.get("log_tail") or ""),
            )
        except (ValueError, TypeError, KeyError, AttributeError):
            continue
