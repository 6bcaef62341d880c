"""Warnings about a study's results, with their remedies."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import astuple, dataclass

import pandas as pd


@dataclass(frozen=True, slots=True, order=True)
class StudyWarning:
    """One warning of a study.

    `code` is stable (``docs/report.md`` lists them all), `trial` names the trial it is about or
    is empty for the whole study, `remedy` says what to do.
    """

    code: str
    trial: str
    message: str
    remedy: str


#: Some cases happen by chance on a quiet machine, too. They are an alarm if there are at least
#: MIN_CASES and they are at least this share of all (measured by `benchmarks/alarms.py`).
MIN_CASES, MIN_SHARE = 3, 0.1


def often(cases: int, of: int) -> bool:
    """Whether `cases` of `of` are an alarm (MIN_CASES, MIN_SHARE); all of them always are."""
    return cases > 0 and cases >= min(of, max(MIN_CASES, MIN_SHARE * of))


COLUMNS = ["code", "trial", "message", "remedy"]


def warning_table(warnings: Iterable[StudyWarning]) -> pd.DataFrame:
    """The distinct warnings, sorted by code and trial."""
    return pd.DataFrame(map(astuple, sorted(set(warnings))), columns=COLUMNS)


@dataclass(frozen=True, slots=True)
class Remedy:
    """The advice for warnings of some codes: `do` in words, `how` as a command or study key."""

    do: str
    how: str
    codes: tuple[str, ...]


#: The last remedy is for every code that no other remedy lists.
REMEDIES = (
    Remedy(
        "Find out why a store did not hold what was written to it",
        "the trials' logs say what was missing",
        ("wrong_documents", "wrong_number"),
    ),
    Remedy(
        "Measure what failed or is missing",
        "`storewise run STUDY --retry-failed`",
        (
            *("failed_trial", "missing_trials", "missing_worker", "missing_node"),
            "operation_errors",
        ),
    ),
    Remedy(
        "Keep other work off the hosts, and measure again",
        "an `exclusive` allocation, or a quiet hour",
        ("busy_host", "unsteady_host", "mixed_hosts", "mixed_versions"),
    ),
    Remedy("Make phases longer", "`read: {seconds: 10}`", ("short_phase",)),
    Remedy("Repeat more often", "`repeats: 5`", ("few_repeats",)),
    Remedy(
        "Give more clients: the client was the limit",
        "`factors: {workers: [1, 2, 4]}`",
        ("client_bound",),
    ),
    Remedy(
        "Look at inputs that were left out",
        "`inputs/quarantine.tsv` beside this page",
        ("quarantined", "equal_files", "input_warning", "end_not_visible", "no_manifest"),
    ),
    Remedy(
        "Load more of the full corpus before you trust its extrapolated figures",
        "`volume`, or more inputs",
        ("extrapolated",),
    ),
    Remedy("Know this before you quote a figure", "each says what to do", ()),
)


@dataclass(frozen=True, slots=True)
class Group:
    """The warnings that one remedy is for."""

    remedy: Remedy
    warnings: Sequence[StudyWarning]

    @property
    def count(self) -> str:
        """The number of warnings, in words."""
        n = len(self.warnings)
        return f"{n} warning{'s' if n != 1 else ''}"


def grouped_warnings(warnings: Iterable[StudyWarning]) -> list[Group]:
    """Warnings by remedy, in the order of REMEDIES; a remedy without warnings is left out."""
    of_code = {code: remedy for remedy in REMEDIES for code in remedy.codes}
    by_remedy: dict[Remedy, list[StudyWarning]] = {}
    for warning in warnings:
        by_remedy.setdefault(of_code.get(warning.code, REMEDIES[-1]), []).append(warning)
    return [Group(one, by_remedy[one]) for one in REMEDIES if one in by_remedy]
