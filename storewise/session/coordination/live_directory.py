"""The live directories of a study's trials, and the runs that they belong to."""

from __future__ import annotations

from collections.abc import Collection
from contextlib import suppress
from pathlib import Path

from storewise.layout import LIVE
from storewise.session.coordination.liveness import OWNER, Session


def sessions(results: Path, without: Collection[str] = ()) -> list[tuple[Path, Session | None]]:
    """Live directories and their sessions (None where it has none or cannot be read)."""
    found: list[tuple[Path, Session | None]] = []
    for directory in sorted((results / LIVE).glob("*/")):
        if directory.name in without:
            continue
        try:
            found.append((directory, Session.read(directory / OWNER)))
        except (OSError, ValueError):
            found.append((directory, None))
    return found


def live_of(results: Path, run: str, without: Collection[str] = ()) -> list[Path]:
    """Live directories of a run's trials, but those `without`."""
    there = sessions(results, without)
    return [d for d, session in there if session is not None and session.run == run]


def run_of(directory: Path) -> str:
    """The run that has opened a live directory; empty if it cannot be read."""
    try:
        return Session.read(directory / OWNER).run
    except (OSError, ValueError):
        return ""


def remove_if_empty(*directories: Path) -> None:
    """Remove those directories that are empty."""
    for directory in directories:
        with suppress(OSError):  # something is in it, or another run has removed it
            directory.rmdir()
