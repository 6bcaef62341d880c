"""Attempts that failed of trials that were measured in the end."""

import json

from storewise.analysis.files.runs import FailedAttempt, read_attempts


def fail(directory, trial, *reasons, broken=""):
    (directory / "failures").mkdir(exist_ok=True)
    with (directory / "failures" / f"{trial}.jsonl").open("a") as file:
        for i, reason in enumerate(reasons):
            message = {"trial": trial, "reason": reason, "log_tail": f"tail {i}", "run": "r"}
            file.write(json.dumps({**message, "at": 1_772_353_320.0 + i}) + "\n")
        file.write(broken)


def test_attempts_are_read_by_trial_and_broken_lines_passed_over(tmp_path):
    assert read_attempts(tmp_path, {"a"}) == []
    fail(tmp_path, "a", "first", "second", broken='{"trial": "a", "rea\n[]\n{"at": "x"}\n')
    fail(tmp_path, "given-up", "never measured")
    fail(tmp_path, "b", "spot")
    result = read_attempts(tmp_path, {"a", "b"})
    assert result == [
        FailedAttempt("a", 1_772_353_320.0, "first", "tail 0"),
        FailedAttempt("a", 1_772_353_321.0, "second", "tail 1"),
        FailedAttempt("b", 1_772_353_320.0, "spot", "tail 0"),
    ]
    assert result[0].when == "2026-03-01 08:22:00 UTC"
