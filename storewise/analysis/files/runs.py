"""Attempts that failed (``failures/*.jsonl``)."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from storewise.layout import FAILURES


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


def read_attempts(directory: Path, measured: Collection[str]) -> list[FailedAttempt]:
    """The failed attempts of the trials in `measured`."""
    return sorted(
        attempt
        for path in (directory / FAILURES).glob("*.jsonl")
        if path.stem in measured
        for attempt in _attempts(path)
    )


def _attempts(path: Path) -> Iterator[FailedAttempt]:
    """The attempts of one file; truncated lines (full disk, crashed host) are skipped."""
    try:
        lines = path.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return
    for line in lines:
        try:
            one = json.loads(line)
            log_tail = str(one.get("log_tail") or "")
            yield FailedAttempt(path.stem, float(one["at"]), str(one["reason"]), log_tail)
        except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
            continue
