"""What Snakemake says in a run: kept in a file, followed as it grows, and the sentence in it that
explains an error."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import BinaryIO

from storewise.errors import StorewiseError
from storewise.schedulers import pbs

#: A job that starts, with its rule's message.
_JOB = re.compile(r"(?:local)?[jJ]ob \d+: (?P<message>.+)")
_OPENED = re.compile(r"Trial (?P<trial>[^\s:]+)")
#: What the workflow and its jobs tell the user.
_NOTE = "storewise: "
#: What jobs of a trial say when it fails: the run tells it once, with the trial's name.
_OF_TRIAL = re.compile(
    r"^storewise: (?:trial \S+ (?:ended|was not opened)"
    r"|(?:[a-z][a-z0-9_]*\.\d+|[a-z]+\d+|form|close|verify)(?: ended)?): "
    r"(?P<reason>.+)",
    re.M,
)
_FAILED_JOB = re.compile(r"^Error in (?:group )?rule (?P<rule>\w+):\n(?P<rest>(?: {4}.*\n)*)", re.M)
_ITS_MESSAGE = re.compile(r"^ {4}message: (?P<message>.+)", re.M)
_ITS_LOG = re.compile(r"^ {4}log: (?P<log>.+?)(?:, | \(check |$)", re.M)
#: An exception as Snakemake and Python print it: its class, where it was, and what it says.
_EXCEPTION = re.compile(
    r"^[A-Za-z.]*(?:Error|Exception)(?: in (?:file|rule) .*)?:[ \n]"
    r"(?P<text>.+(?:\n(?! *File \").+)*)",
    re.M,
)
_REFUSED = re.compile(r"^(?:\S+: )?[eE]rror: (?P<text>.+)", re.M)
#: The end of a pass of which a job has failed: it says nothing of why.
_NO_REASON = "At least one job did not complete successfully"
#: Lines of a log that are shown with an error.
LINES = 5
_FRAME = re.compile(
    r"(?: +File \"|Traceback \(|    |\s*\^+\s*$|The above exception|During handling of the above)"
)


class RunLog:
    """The log of a run with all its passes. Raises StorewiseError where it cannot be written."""

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            self._written = path.open("wb")
        except OSError as error:
            raise StorewiseError(
                f"results cannot be written to {path.parent.parent.absolute()}: {error.strerror}; "
                "free space, change its rights, or run from another directory"
            ) from error
        self._read = path.open("rb")
        self._pass = 0
        self._rest = ""

    def __enter__(self) -> RunLog:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._read.close()
        self._written.close()

    @property
    def written(self) -> BinaryIO:
        """For a process that writes it."""
        return self._written

    def begin_pass(self) -> None:
        """What is read from here on is of another pass of Snakemake."""
        self._pass = self._read.tell()

    def new_lines(self) -> list[str]:
        """Whole lines that were written since the last call."""
        text = self._rest + self._read.read().decode("utf-8", "replace")
        *lines, self._rest = text.split("\n")
        return lines

    def of_pass(self) -> str:
        """All that this pass has said."""
        with self.path.open("rb") as file:
            file.seek(self._pass)
            return file.read().decode("utf-8", "replace")


def step_of(line: str) -> str | None:
    """What a line of Snakemake says that the run does now, in words; None where it says nothing of
    that, empty where it is a trial's job."""
    if line.startswith("Building DAG of jobs"):
        return "planning the jobs"
    job = _JOB.match(line)
    if job is None:
        return None
    message = job["message"]
    return "" if _OPENED.match(message) else message[0].lower() + message[1:]


def note_of(line: str) -> str | None:
    """What a line tells the user, None where it is Snakemake's own."""
    if waiting := pbs.notice(line):
        return waiting
    if not line.startswith(_NOTE) or _OF_TRIAL.match(line):
        return None
    return line.removeprefix(_NOTE)


def opened_trials(text: str) -> list[str]:
    """The trials that a plan of Snakemake opens, in its order."""
    jobs = filter(None, map(_JOB.match, text.splitlines()))
    opened = filter(None, (_OPENED.fullmatch(job["message"]) for job in jobs))
    return list(dict.fromkeys(one["trial"] for one in opened))


@dataclass(frozen=True, slots=True)
class Explanation:
    """Why Snakemake has ended with an error: a sentence, and lines of a log that belong to it."""

    sentence: str
    lines: Sequence[str] = ()


def explanation(text: str) -> Explanation:
    """What explains an error of Snakemake, from all that it has said; nothing of its own frames."""
    if trial := _OF_TRIAL.search(text):
        return Explanation(trial["reason"])
    if failed := _FAILED_JOB.search(text):
        message = _ITS_MESSAGE.search(failed["rest"])
        said = message["message"] if message else ""
        if words := pbs.refusal(said):
            return Explanation(f"the job `{failed['rule']}` was refused: {words}")
        in_pbs = pbs.failed_job(said)
        if in_pbs and in_pbs.cause:
            return Explanation(
                f"the job `{failed['rule']}` failed; {in_pbs.cause}; its log is {in_pbs.log}"
            )
        log = _ITS_LOG.search(failed["rest"])
        where = f"; its log is {log['log']}" if log else ""
        sentence = f"the job `{failed['rule']}` failed{where}"
        if any(note_of(line) for line in text.splitlines()):
            return Explanation(sentence)  # it has said why
        shown = text.partition(f"Logfile {log['log']}:")[2].split("=" * 80) if log else []
        return Explanation(sentence, plain_lines(shown[1]) if len(shown) > 1 else ())
    for error in _EXCEPTION.finditer(text):
        if _NO_REASON not in error["text"]:
            return Explanation(error["text"].strip())
    if refused := _REFUSED.search(text):
        return Explanation(refused["text"])
    return Explanation("Snakemake has ended with an error", plain_lines(text))


def plain_lines(log: str) -> list[str]:
    """The last lines of a log without frames of a traceback."""
    lines = [line for line in log.splitlines() if line.strip() and not _FRAME.match(line)]
    return lines[-LINES:]
