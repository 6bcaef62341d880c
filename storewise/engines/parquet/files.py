"""The files of a Parquet store: their names, and how they reach the disk."""

from __future__ import annotations

import os
from pathlib import Path

from storewise.documents import Kind


def final_file(store: Path, kind: Kind) -> Path:
    """The one file of a kind after `finish`."""
    return store / f"{kind.table}.parquet"


def parts_directory(store: Path, kind: Kind) -> Path:
    """Where the parts of a kind are while it is loaded."""
    return store / f"{kind.table}.parts"


def part_files(store: Path, kind: Kind) -> list[Path]:
    """The parts of a kind, oldest first."""
    return sorted(parts_directory(store, kind).glob("*.parquet"))


def last_part(store: Path, kind: Kind) -> int:
    """The number of the newest part; 0 where there is none."""
    parts = part_files(store, kind)
    return int(parts[-1].stem) if parts else 0


def sync(path: Path) -> None:
    """Force a file or directory to disk."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def remove(path: Path) -> None:
    """Delete a file that may be there."""
    path.unlink(missing_ok=True)
