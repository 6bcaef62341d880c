"""Failed attempts at a trial, in ``failures/<trial>.jsonl``."""

from __future__ import annotations

import json
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path

from storewise.atomic import write_aside
from storewise.layout import FAILURES


@dataclass(frozen=True, slots=True)
class Failure:
    """One failed attempt at a trial."""

    trial: str
    reason: str
    log_tail: str
    """The end of the log of the job that failed."""
    run: str
    at: float
    """Unix time."""
    until: float = 0.0
    """See `Abort`."""


def failures(results: Path, trial: str) -> list[Failure]:
    """Failed attempts at a trial, oldest first."""
    path = _path(results, trial)
    if not path.is_file():
        return []
    attempts = []
    for line in path.read_text(encoding="utf-8", errors="replace").splitlines():
        with suppress(ValueError, TypeError):  # the disk was full, or a host crashed
            attempts.append(Failure(**json.loads(line)))
    return attempts


def record_failure(results: Path, failure: Failure) -> None:
    """Append a failed attempt."""
    path = _path(results, failure.trial)
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a", encoding="utf-8") as file:
        file.write(_line(failure))


def replace_failures(results: Path, trial: str, attempts: Iterable[Failure]) -> None:
    """Replace the failed attempts at a trial."""
    write_aside(_path(results, trial), "".join(map(_line, attempts)))


def _path(results: Path, trial: str) -> Path:
    return results / FAILURES / f"{trial}.jsonl"


def _line(failure: Failure) -> str:
    return json.dumps(asdict(failure)) + "\n"


def add_detail(reason: str, detail: str) -> str:
    """The reason with a detail that became known later."""
    return f"{reason} {detail}" if reason.endswith("?") else f"{reason.removesuffix('.')}; {detail}"


def last_lines(log: str) -> str:
    """The last 30 lines of a log file; empty where there is none."""
    if not log or not Path(log).is_file():
        return ""
    text = Path(log).read_text(encoding="utf-8", errors="replace")
    return "\n".join(text.splitlines()[-30:])
