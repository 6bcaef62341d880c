"""The last lines of a run: the answer, the paths of page and log, and the next command."""

from __future__ import annotations

import json
from pathlib import Path
from shlex import quote

from storewise.layout import ANALYSIS, LIBRARY, PUBLISH_LOG, PUBLISHED, REPORT, RUN_LOG, VERDICT
from storewise.study.study import Study

#: The directory of the inputs that come with Storewise.
_SAMPLE = LIBRARY / "resources"
_MAX_ANSWER_LINES = 2


def outcome(study: Study, name: str, results: Path, *, logged: bool, failed: bool) -> list[str]:
    """The last lines of a run; none where there is no report.

    `name` is the study as the user has given it, `logged` whether this run has a log file, and
    `failed` whether trials were given up.
    """
    report, verdict = results / REPORT, results / ANALYSIS / VERDICT
    if not report.is_file() or not verdict.is_file():
        return []
    lines = [*answer(json.loads(verdict.read_text(encoding="utf-8"))), f"Page: {report}"]
    if logged:
        lines.append(f"Log: {results / RUN_LOG}")
    if place := published_at(results):
        lines.append(f"Published: {place}")
    return [*lines, f"Next: {_next(study, name, failed=failed)}"]


def answer(verdict: dict[str, object]) -> list[str]:
    """The verdict in at most two lines."""
    known = verdict.get("answer")
    lines = known.get("lines") if isinstance(known, dict) else None
    return (
        [str(line) for line in lines][:_MAX_ANSWER_LINES]
        if lines
        else [str(verdict.get("finding", ""))]
    )


def _next(study: Study, name: str, *, failed: bool) -> str:
    if failed:
        return f"storewise run {quote(name)} --retry-failed"
    paths = [Path(path).absolute() for path in study.inputs.paths]
    if paths and all(path.resolve().is_relative_to(_SAMPLE) for path in paths):
        return "storewise init YOUR_OUTPUTS"
    return "open the page in a browser"


def published_at(results: Path) -> str | None:
    """Place of the published results; None if not published, or if the report has changed since."""
    try:
        if (results / PUBLISHED).stat().st_mtime < (results / REPORT).stat().st_mtime:
            return None
        return str(json.loads((results / PUBLISHED).read_text(encoding="utf-8"))["place"])
    except (OSError, ValueError, KeyError, TypeError):
        return None


def last_attempt(results: Path) -> int | None:
    """The time of the last attempt to publish, ns since 1970 by the file system; None for never."""
    try:
        return (results / PUBLISH_LOG).stat().st_mtime_ns
    except FileNotFoundError:
        return None
