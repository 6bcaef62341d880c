"""What is judged from the measured tables: one module per question, one line per module here.

A judge takes the tables and gives one table more (or some that one work makes), with warnings where
its reader should doubt it.
Judges read tables, never samples or files, so that each can be used on stored CSV files too. They
take `Judged` from ``storewise.analysis.model.judged``, for this module imports them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from storewise.analysis.judge import anova as variance_study
from storewise.analysis.judge import bottlenecks as limits
from storewise.analysis.judge import capacity, cost, differences, knee, noise
from storewise.analysis.judge import usl as uslstudy
from storewise.analysis.model.judged import Judged as Judged
from storewise.analysis.model.tables import Tables
from storewise.analysis.verdict import export as verdictdata

#: Table name -> its judge; later ones may read the tables of earlier ones in `Tables.judged`.
JUDGES: dict[str, Callable[[Tables], Judged]] = {
    "variance": variance_study.variance,
    "usl": uslstudy.usl,
    "noise": noise.noise,
    "differences": differences.differences,
    "knees": knee.knees,
    "response": knee.response,
    "costs": cost.costs,
    "limits": limits.limits,
    "capacity": capacity.capacity,
    # Of all the others.
    "verdict": verdictdata.verdict_table,
}


def judge(tables: Tables) -> Tables:
    """The tables with all judged ones and their warnings."""
    for name, make in JUDGES.items():
        found = make(tables)
        tables = replace(
            tables,
            judged={**tables.judged, name: found.table, **found.beside},
            warnings=sorted({*tables.warnings, *found.warnings}),
        )
    return tables
