"""What a server printed, as far as it explains its end."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

from storewise.session.coordination.ending import NO_SPACE

_TAIL_LINES, _TAIL_BYTES = 12, 32768
#: Some servers write lines of thousands of characters; what matters comes first.
_TAIL_WIDTH = 300
_THROWN_AT = re.compile(r"\s+(at [\w.$/@<>-]+\(.*\).*|\.\.\. \d+ (more|common frames omitted))")
#: The end of a Java machine that wrote to a file in memory (Cassandra's commit log), and the file
#: system had no page for it: a signal, which does not say why.
_MAPPED_WRITE = re.compile(r"\bSIGBUS \(0x7\)")
#: Below this a file system is taken for full where such a signal came: nobody knows how much the
#: end of the server has freed, B.
_FULL_BELOW = 64 << 20


def log_tail(path: Path, lines: int = _TAIL_LINES) -> str:
    """The last lines of a server's log, long ones cut; of Java's exceptions what they say, and not
    where they were thrown."""
    return "\n".join(map(_cut, _last_lines(path)[-lines:]))


def no_space(path: Path) -> str:
    """The first line of a log's end that tells of a full disk, cut; empty where none does."""
    return next((_cut(line) for line in _last_lines(path) if NO_SPACE.search(line)), "")


def mapped_write(path: Path, directory: Path) -> str:
    """The line of a log's end that tells of a failed access to a mapped file, where the file system
    of `directory` is full; else empty, since a broken disk has the same signal."""
    line = next((_cut(line) for line in _last_lines(path) if _MAPPED_WRITE.search(line)), "")
    try:
        return line if line and shutil.disk_usage(directory).free < _FULL_BELOW else ""
    except OSError:
        return ""


def _last_lines(path: Path) -> list[str]:
    if not path.is_file():
        return []
    with path.open("rb") as file:
        file.seek(max(0, path.stat().st_size - _TAIL_BYTES))
        every = file.read().decode(errors="replace").splitlines()
    return [line for line in every if not _THROWN_AT.fullmatch(line)]


def _cut(line: str) -> str:
    return line if len(line) <= _TAIL_WIDTH else f"{line[:_TAIL_WIDTH]} ..."
