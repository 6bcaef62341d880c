"""What the verification found: documents expected, counted, read back, lost and wrong."""

from __future__ import annotations

import pandas as pd

from storewise.analysis.common.warnings import StudyWarning
from storewise.analysis.files.parts import VERIFY

#: Metric -> column.
_METRICS = {f"{n}_documents": n for n in ("expected", "counted", "checked", "lost", "wrong")}
COLUMNS = ["trial", "kind", *_METRICS.values()]


def verification(samples: pd.DataFrame) -> pd.DataFrame:
    """One row per trial and kind; a number that was not taken is nan."""
    rows = samples[samples["metric"].isin(_METRICS) & samples["operation"].notna()]
    if rows.empty:
        return pd.DataFrame(columns=COLUMNS)
    rows = rows.astype({"trial": str, "operation": str, "metric": str})
    table = rows.pivot_table(
        index=["trial", "operation"], columns="metric", values="value", aggfunc="sum"
    )
    table = table.reindex(columns=list(_METRICS)).rename(columns=_METRICS).reset_index()
    table = table.rename(columns={"operation": "kind"})
    # Without a count of its own, what is missing is what was looked up and not found.
    difference = (table["expected"] - table["counted"]).clip(lower=0)
    table["lost"] = table["lost"].fillna(difference)
    table.columns.name = None
    return table[COLUMNS]


def wrong_trials(table: pd.DataFrame) -> set[str]:
    """Trials whose store did not hold what was written to it."""
    bad = (table["lost"].fillna(0) > 0) | (table["wrong"].fillna(0) > 0)
    surplus = table["counted"].fillna(table["expected"]) > table["expected"]
    return set(table.loc[bad | surplus, "trial"])


def verification_warnings(table: pd.DataFrame) -> list[StudyWarning]:
    """One warning per trial whose store did not hold what was written to it."""
    sums = table.groupby("trial")[list(_METRICS.values())].sum().astype(int)
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
