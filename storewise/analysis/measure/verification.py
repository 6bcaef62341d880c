"""Results of the verification: documents expected, counted, read back, lost and wrong."""

from __future__ import annotations

import pandas as pd

from storewise.analysis.common.warnings import StudyWarning
from storewise.analysis.files.parts import VERIFY
from storewise.analysis.measure.reduction import Reduction

_COUNTS = ["expected", "counted", "checked", "lost", "wrong"]


def verification(samples: Reduction) -> pd.DataFrame:
    """One row per trial and kind; a number that was not measured is nan."""
    return samples.table("FROM verification ORDER BY trial, kind")


def wrong_trials(table: pd.DataFrame) -> set[str]:
    """Trials with lost or wrong documents."""
    bad = (table["lost"].fillna(0) > 0) | (table["wrong"].fillna(0) > 0)
    surplus = table["counted"].fillna(table["expected"]) > table["expected"]
    return set(table.loc[bad | surplus, "trial"])


def verification_warnings(table: pd.DataFrame) -> list[StudyWarning]:
    """One warning per trial with lost or wrong documents."""
    sums = table.groupby("trial")[_COUNTS].sum().astype(int)
    return [
        StudyWarning(
            "wrong_documents",
            str(trial),
            f"of {row['expected']} documents {row['lost']} were lost, {row['wrong']} of "
            f"{row['checked']} read back were wrong "
            f"(phase {VERIFY}); its engine is not recommended at this level",
            "see the trial's log; use a durable consistency level",
        )
        for trial, row in sums.loc[sorted(wrong_trials(table))].iterrows()
    ]
