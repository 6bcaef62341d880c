"""Every error that Storewise raises on purpose.

A user sees one of these as a single clear message; anything else is a defect and keeps its
traceback.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

#: What ends a line for some program, or moves a terminal's cursor; and bytes that are no UTF-8, as
#: Python keeps them in a name.
_NOT_PLAIN = re.compile("[\0-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]")


def is_plain(name: str) -> bool:
    """Whether a file name can stand in a list of lines, a table and a log as it is."""
    return _NOT_PLAIN.search(name) is None


def plain(name: str) -> str:
    """A file name for a message: line ends, other control characters and bytes that are no UTF-8
    are escaped as in a shell's ``$'...'``."""
    return _NOT_PLAIN.sub(_escaped, name)


def _escaped(match: re.Match[str]) -> str:
    data = match[0].encode(
        "utf-8", "surrogateescape" if "\udc80" <= match[0] <= "\udcff" else "surrogatepass"
    )
    return "".join(f"\\x{byte:02x}" for byte in data)


class StorewiseError(Exception):
    """Base of all errors whose message is written for the user."""


@contextmanager
def translate_errors(
    what: str = "", kind: type[StorewiseError] = StorewiseError, advice: str = ""
) -> Iterator[None]:
    """An OSError of the block becomes one message: "what: No space left on device; advice".

    Without `what` the message names the file of the error.
    """
    try:
        yield
    except OSError as error:
        what = what or str(error.filename or "a file")
        raise kind(f"{what}: {error.strerror or error}{advice and '; '}{advice}") from error


class ConfigError(StorewiseError):
    """A study that cannot be used as written; the message names the file and the key."""


class InputError(StorewiseError):
    """An input file that is not a complete SSEARCH ``-m 10`` output.

    ``line`` is 1-based and ``offset`` is the 0-based byte position of that line's first byte in
    the decompressed content; both are None where no position makes sense (a missing file).
    """

    def __init__(
        self,
        path: Path | str,
        reason: str,
        line: int | None = None,
        offset: int | None = None,
        expected: str | None = None,
        found: str | None = None,
    ) -> None:
        # All of them, so that it comes whole through a pool of processes.
        super().__init__(str(path), reason, line, offset, expected, found)
        self.path = plain(str(path))
        self.reason = reason
        self.line = line
        self.offset = offset
        self.expected = expected
        self.found = found

    def __str__(self) -> str:
        line = f", line {self.line}" if self.line is not None else ""
        offset = f" (byte {self.offset})" if self.offset is not None else ""
        expected = f"; expected {self.expected}" if self.expected is not None else ""
        found = f"; found {self.found}" if self.found is not None else ""
        return f"{self.path}{line}{offset}: {self.reason}{expected}{found}"


#: Ends every message about inputs that are not complete.
QUARANTINE_HINT = "(on_bad_input: quarantine in the study, or --quarantine, leaves such files out)"


class BadInputs(StorewiseError):
    """Raised for incomplete inputs; the message gives the first reason, their number and advice."""

    def __init__(self, reasons: Sequence[str], inputs: int) -> None:
        rest = f"; {len(reasons)} of {inputs} files are bad" if len(reasons) > 1 else ""
        super().__init__(f"{reasons[0]}{rest} {QUARANTINE_HINT}")


class EngineError(StorewiseError):
    """An engine that cannot do what was asked, or failed doing it."""


class SearchError(StorewiseError):
    """A run of ``ssearch36`` that did not give a complete output."""


class ResultError(StorewiseError):
    """A stored result that does not fit the result schema."""


class Aborted(StorewiseError):
    """The trial was ended from elsewhere; the message carries the first reason."""


class AnalysisError(StorewiseError):
    """Data of which the statistic that was asked for cannot be made."""


#: Whether a format shows where a file ends.
VISIBLE, NOT_VISIBLE = "visible", "not visible"
#: For users who have files whose end does not show.
END_NOT_VISIBLE = (
    "end not visible: a file of this format that was cut between two lines looks whole; BLAST's "
    "-outfmt 7 and FASTA's -m 8C show where a file ends"
)
