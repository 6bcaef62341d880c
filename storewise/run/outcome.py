"""What a run ends with: the answer, where the page and the log are, and what to do next."""

from __future__ import annotations

import json
from pathlib import Path
from shlex import quote

from storewise.layout import ANALYSIS, LIBRARY, PUBLISH_LOG, PUBLISHED, REPORT, RUN_LOG, VERDICT
from storewise.study.study import Study

#: The directory of the inputs that come with Storewise.
_SAMPLE = LIBRARY / "resources"
#: Lines of an answer.
_LINES = 2


def outcome(study: Study, name: str, results: Path, *, logged: bool, failed: bool) -> list[str]:
    """The last lines of a run, none where it has made no report.

    `name` is the study as the user has called it; `logged` where the log of this run is kept,
    `failed` where it left trials out.
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
    """The verdict in a line or two."""
    known = verdict.get("answer")
    lines = known.get("lines") if isinstance(known, dict) else None
    return [str(line) for line in lines][:_LINES] if lines else [str(verdict.get("finding", ""))]


def _next(study: Study, name: str, *, failed: bool) -> str:
    if failed:
        return f"storewise run {quote(name)} --retry-failed"
    paths = [Path(path).absolute() for path in study.inputs.paths]
    if paths and all(path.resolve().is_relative_to(_SAMPLE) for path in paths):
        return "storewise init YOUR_OUTPUTS"
    return "open the page in a browser"


def published_at(results: Path) -> str | None:
    """Where the results were published; None where they were not, or have another report now."""
    try:
        if (results / PUBLISHED).stat().st_mtime < (results / REPORT).stat().st_mtime:
            return None
        return str(json.loads((results / PUBLISHED).read_text(encoding="utf-8"))["place"])
    except (OSError, ValueError, KeyError, TypeError):
        return None


def last_attempt(results: Path) -> int | None:
    """When the workflow last began to publish, in ns as the file system has it; None for never."""
    try:
        return (results / PUBLISH_LOG).stat().st_mtime_ns
    except FileNotFoundError:
        return None
