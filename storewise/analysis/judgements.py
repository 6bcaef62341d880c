"""What is judged from the measured tables: one module per question, one line per module here.

A judge takes the tables and gives one table more, with warnings where its reader should doubt it.
Judges read tables, never samples or files, so that each can be used on stored CSV files too.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import pandas as pd

from storewise.analysis.warning import StudyWarning

if TYPE_CHECKING:
    from storewise.analysis.tables import Tables


@dataclass(frozen=True, slots=True)
class Judged:
    """A table and what is doubtful about it."""

    table: pd.DataFrame
    warnings: Sequence[StudyWarning] = ()


#: Table name -> its judge; later ones may read the tables of earlier ones in `Tables.judged`.
JUDGES: dict[str, Callable[[Tables], Judged]] = {}


def judge(tables: Tables) -> Tables:
    """The tables with all judged ones and their warnings."""
    for name, make in JUDGES.items():
        found = make(tables)
        tables = replace(
            tables,
            judged={**tables.judged, name: found.table},
            warnings=sorted({*tables.warnings, *found.warnings}),
        )
    return tables
