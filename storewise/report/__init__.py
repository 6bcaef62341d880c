"""The HTML page; ``make_report(study_dir)`` makes everything a reader takes away."""

from __future__ import annotations

from typing import Any


def __getattr__(name: str) -> Any:
    if name != "make_report":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from storewise.report.page.page import make_report

    return make_report
