"""What the verification found, up to the verdict: who lost, changed or made up documents."""

import math
from dataclasses import replace

from support.results.made import GROUP, SCALED, only
from support.results.tables import samples_of

from storewise.analysis.measure.verification import (
    verification,
    verification_warnings,
    wrong_trials,
)
from storewise.analysis.verdict.decision import verdict
from storewise.metrics.schema import Sample

pytestmark = GROUP
#: Name -> (expected, counted, checked, lost, wrong) of the kind `align`; None was not recorded.
CASES = {
    "right": (100, 100, 20, 0, 0),
    "lost": (100, 99, 20, 1, 0),
    "wrong": (100, 100, 20, 0, 1),
    "too many": (100, 101, 20, 0, 0),
    "exchanged": (100, 100, 20, 1, 0),
    "lost, told by the count alone": (100, 97, None, None, None),
    "too many, told by the count alone": (100, 103, None, None, None),
    "right, not counted": (100, None, 20, 0, 0),
    "lost, not counted": (100, None, 20, 2, 0),
}
GOOD = {"right", "right, not counted"}
NAMES = ["expected", "counted", "checked", "lost", "wrong"]


def samples(cases):
    """Rows of result parts: each trial has a kind as in `cases`, and one that is right."""
    rows = [
        (trial, Sample("verify", f"{name}_documents", value, "1", operation=kind))
        for trial, numbers in cases.items()
        for kind, values in (("align", numbers), ("rna", (7, 7, 7, 0, 0)))
        for name, value in zip(NAMES, values, strict=True)
        if value is not None
    ]
    # What is no part of a verification does not count: as a worker's own rows.
    rows.append(("lost", Sample("write", "documents", 5.0, "1", operation="insert")))
    rows.append(("lost", Sample("verify", "lost_documents", 9.0, "1")))
    return samples_of([row for _, row in rows], [trial for trial, _ in rows])


def test_a_trial_is_wrong_that_lost_changed_or_made_up_documents():
    table = verification(samples(CASES))
    assert list(table) == ["trial", "kind", *NAMES]
    assert len(table) == 2 * len(CASES)
    assert wrong_trials(table) == set(CASES) - GOOD
    rows = table[table["kind"] == "align"].set_index("trial")
    row = rows.loc["lost, told by the count alone"]
    assert row["lost"] == 3 and math.isnan(row["checked"])
    assert rows.loc["too many, told by the count alone", "lost"] == 0
    nothing = verification(samples_of([]))
    assert nothing.empty and wrong_trials(nothing) == set()
    # Each wrong trial is one warning with its sums.
    warnings = verification_warnings(table)
    assert [warning.trial for warning in warnings] == sorted(set(CASES) - GOOD)
    assert {warning.code for warning in warnings} == {"wrong_documents"}
    texts = {warning.trial: warning.message for warning in warnings}
    assert texts["lost"].startswith("of 107 documents 1 were lost, 0 of 27 read back were wrong")
    assert texts["wrong"].startswith("of 107 documents 0 were lost, 1 of 27 read back were wrong")


def test_no_such_store_is_recommended(made):
    """The one that would have been, if one of its trials is wrong."""
    tables = only(made.tables(**SCALED), workers=1)
    trials = tables.results.trials

    def found(engine, case):
        trial = trials.loc[trials["engine"] == engine, "trial"].iloc[0]
        return verdict(replace(tables, verification=verification(samples({trial: CASES[case]}))))

    right = found("sqlite", "right")
    best = right.decision.table.index[0]
    assert right.set_aside == []
    result = found({"SQLite": "sqlite", "PostgreSQL": "postgres"}[best], "too many")
    assert best not in result.decision.table.index
    assert result.set_aside == [(best, "its store did not hold all that was written to it")]
    assert all(s.label != best for c in result.criteria for s in c.standings)
