"""The output of Snakemake in a run: kept in a file, and read as it grows.

Only lines of Storewise (``storewise: ...``) and of the executor for PBS are read from it; what a
run does is read from the results directory (`storewise.watch`).
"""

from __future__ import annotations

import re
from pathlib import Path
from types import TracebackType
from typing import BinaryIO

from storewise.errors import StorewiseError
from storewise.schedulers import pbs

_OWN = "storewise: "
#: An error as Snakemake, Python and argparse print it: its class, where it was, and what it says.
_ERROR = re.compile(
    r"^(?:\S+: )?[A-Za-z.]*(?:[eE]rror|Exception)(?: in (?:file|rule) .*)?:[ \n]"
    r"(?P<text>.+(?:\n(?! *File \")\S.*)*)",
    re.M,
)
#: The end of a run of which a job has failed: it says nothing of why.
_NO_REASON = "At least one job did not complete successfully"
#: Lines of Python's tracebacks; a log has more before the first of them.
_FRAME = re.compile(
    r"(?: +File \"|.*Traceback \(most recent|    |\s*\^+\s*$|The above exception"
    r"|During handling of the above)"
)
#: Lines of a log that are shown with an error.
MAX_LINES = 5


class RunLog:
    """The log of a run. Raises StorewiseError where it cannot be written."""

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            self.written: BinaryIO = path.open("wb")
        except OSError as error:
            raise StorewiseError(
                f"results cannot be written to {path.parent.parent.absolute()}: {error.strerror}; "
                "free space, change its rights, or run from another directory"
            ) from error
        self._read = path.open("rb")
        self._rest = ""
        self.told = False
        """Whether a line of Storewise's own was read."""

    def __enter__(self) -> RunLog:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._read.close()
        self.written.close()

    def new_notes(self) -> list[str]:
        """Messages of Storewise and the executor for PBS to the user since the last call."""
        text = self._rest + self._read.read().decode("utf-8", "replace")
        *lines, self._rest = text.split("\n")
        self.told = self.told or any(line.startswith(_OWN) for line in lines)
        return [note for line in lines if (note := note_of(line))]

    def explanation(self) -> list[str]:
        """The error of Snakemake that Storewise has not reported yet."""
        return explanation(self.path.read_text(encoding="utf-8", errors="replace"))


def note_of(line: str) -> str | None:
    """A line's message to the user, None if it is Snakemake's own."""
    if line.startswith(_OWN):
        return line.removeprefix(_OWN)
    return line if line.startswith(pbs.NOTICE) else None


def explanation(text: str) -> list[str]:
    """The first error in what Snakemake has printed, without its frames; else the last lines."""
    for error in _ERROR.finditer(text):
        if _NO_REASON not in error["text"]:
            return [error["text"].strip()]
    return ["Snakemake has ended with an error", *plain_lines(text)]


def plain_lines(log: str) -> list[str]:
    """The last lines of a log without frames of a traceback."""
    lines = [line for line in log.splitlines() if line.strip() and not _FRAME.match(line)]
    return lines[-MAX_LINES:]
