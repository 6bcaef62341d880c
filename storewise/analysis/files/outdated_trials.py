"""Stored trials compared with the trials that the study has now."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import Any

from storewise.analysis.common.engines import title
from storewise.analysis.common.text import some_of
from storewise.analysis.common.warnings import StudyWarning
from storewise.study.study import Study

#: Trial id -> the trial as plain data.
Trials = Mapping[str, Mapping[str, Any]]


def expected_trials(study: Mapping[str, Any]) -> Trials | None:
    """The trials of a stored study (``study.json``) as plain data by id.

    None if the study cannot be read, for example because another version of Storewise wrote it.
    """
    known = {key: value for key, value in study.items() if key in Study.model_fields}
    try:
        trials = Study.model_validate(known).trials()
    except ValueError:
        return None
    return {trial.id: trial.model_dump(mode="json") for trial in trials}


def read_left_out(path: Path) -> dict[str, str]:
    """Engine -> why the study left it out (not installed on the host)."""
    try:
        return {str(k): str(v) for k, v in json.loads(path.read_bytes()).items()}
    except (OSError, ValueError, AttributeError, RecursionError):
        return {}


def trials_of(engines: Collection[str], expected: Trials) -> set[str]:
    """The trials of some engines."""
    return {name for name, trial in expected.items() if trial.get("engine") in engines}


def no_study(problem: str) -> StudyWarning:
    """The warning that the study's own file is unusable."""
    return StudyWarning(
        "no_study",
        "",
        f"{problem}; trials cannot be checked against the study",
        "run `snakemake report` with the study's file, which writes it again",
    )


def left_out_warnings(
    engines: Mapping[str, str], expected: Trials, stored: Collection[str]
) -> list[StudyWarning]:
    """A warning for each engine whose trials were left out."""
    return [
        StudyWarning(
            "engine_left_out",
            "",
            f"{title(engine)} was not measured: {reason}",
            "install it and run the study again: it measures what is missing",
        )
        for engine, reason in engines.items()
        if trials_of({engine}, expected) - set(stored)
    ]


def stale_warnings(
    expected: Trials, stored: Trials, failed: Collection[str]
) -> Iterator[StudyWarning]:
    """Warnings about trials that left the study, have no results, or ran with another config.

    `stored` maps each trial with results to the conditions of one of its parts.
    """
    for trial in sorted(set(stored) - set(expected)):
        yield StudyWarning(
            "other_config",
            trial,
            "the study no longer has this trial; it is still in the figures",
            "delete its directory under trials/ to leave it out",
        )
    missing = sorted(set(expected) - set(stored) - set(failed))
    if missing:
        yield StudyWarning(
            "missing_trials",
            "",
            f"{len(missing)} of {len(expected)} trials have no results yet: {some_of(missing, 6)}",
            "run the study again: it measures what is missing",
        )
    for trial in sorted(set(stored) & set(expected)):
        measured = stored[trial].get("trial") or expected[trial]
        if changed := ", ".join(_differences(measured, expected[trial])):
            yield StudyWarning(
                "older_config",
                trial,
                f"measured with another config; it differs in {changed}",
                "delete its directory under trials/ and run the study to measure it again",
            )


def _differences(old: Mapping[str, Any], new: Mapping[str, Any], place: str = "") -> Iterator[str]:
    for key in sorted({*old, *new}):
        before, after = old.get(key), new.get(key)
        if isinstance(before, Mapping) and isinstance(after, Mapping):
            yield from _differences(before, after, f"{place}{key}.")
        elif before != after:
            yield f"{place}{key}"
