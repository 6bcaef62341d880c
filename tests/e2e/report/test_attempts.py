"""Attempts that failed of trials that were measured in the end: warnings and the page."""

from __future__ import annotations

import json
from pathlib import Path

from support.results import synthetic

from storewise.report.page import make_report

TAKEN = "EC2 takes back host data-dy-1 (spot interruption at 2026-03-01T08:22:00Z)"


def fail(directory: Path, trial: str, *reasons: str, broken: str = "") -> None:
    (directory / "failures").mkdir(exist_ok=True)
    with (directory / "failures" / f"{trial}.jsonl").open("a") as file:
        for i, reason in enumerate(reasons):
            told = {"trial": trial, "reason": reason, "log_tail": f"tail {i}", "run": "r"}
            file.write(json.dumps({**told, "at": 1_772_353_320.0 + i}) + "\n")
        file.write(broken)


def test_the_page_names_them(tmp_path: Path) -> None:
    study = tmp_path / "s"
    synthetic.make_study(study, engines=["sqlite"], workers=[1], repeats=1)
    (trial,) = (path.name for path in (study / "trials").iterdir())
    fail(study, trial, TAKEN)
    text = make_report(study).path.read_text()
    assert '<a href="#attempts">Failed attempts (1)</a>' in text
    section = text[text.index('<section id="attempts"') :]
    section = section[: section.index("</section>")]
    for words in (trial, TAKEN, "2026-03-01 08:22:00 UTC", "tail 0", "measured in the end"):
        assert words in section
    assert "failed_attempt" in (study / "analysis" / "warnings.csv").read_text()
