"""What a server printed, as far as it explains its end."""

from __future__ import annotations

import re
from pathlib import Path

_TAIL_LINES, _TAIL_BYTES = 12, 32768
#: Some servers write lines of thousands of characters; what matters comes first.
_TAIL_WIDTH = 300
_THROWN_AT = re.compile(r"\s+(at [\w.$/@<>-]+\(.*\).*|\.\.\. \d+ (more|common frames omitted))")


def log_tail(path: Path, lines: int = _TAIL_LINES) -> str:
    """The last lines of a server's log, long ones cut; of Java's exceptions what they say, and not
    where they were thrown."""
    if not path.is_file():
        return ""
    with path.open("rb") as file:
        file.seek(max(0, path.stat().st_size - _TAIL_BYTES))
        every = file.read().decode(errors="replace").splitlines()
    last = [line for line in every if not _THROWN_AT.fullmatch(line)][-lines:]
    return "\n".join(
        line if len(line) <= _TAIL_WIDTH else f"{line[:_TAIL_WIDTH]} ..." for line in last
    )
