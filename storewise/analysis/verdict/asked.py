"""The columns of the first screen: the time of one answer, the time of the load, the size on disk.

Each column is a criterion in seconds or bytes. It does not count in the scores: rates and the
study's weights do (`storewise.analysis.verdict.criteria`). The time of a question is the median
service time in its first step, which has the least load, with the smallest number of clients that
most engines have.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pandas as pd

from storewise.analysis.common.engines import BASELINE
from storewise.analysis.judge.comparable_steps import loads
from storewise.analysis.measure.throughput import FINISH
from storewise.analysis.model.columns import ALL
from storewise.analysis.model.tables import Tables
from storewise.analysis.verdict.criteria import (
    KINDS,
    OF_QUESTIONS,
    client_threads,
    of_measure,
    of_rows,
    rows_of,
)
from storewise.analysis.verdict.criterion import Criterion, figures

#: Operation -> the heading of its column, and a description of its result.
QUESTIONS: Mapping[str, tuple[str, str]] = {
    "get": ("look up", "one document by its id"),
    "best_hits": ("best hits", "of a query, by e-value"),
    "gene_hits": ("hits of a gene", "all, by chromosome"),
    "strong_hits": ("strong hits", "low e-value and high identity"),
    "top_genes": ("top genes", "those with most hits"),
    "bits_histogram": ("bit scores", "their histogram"),
    "read": ("look up", "one record by its key"),
    "q1": ("look up", "one reading by its key"),
    "q2": ("scan", "readings above a value"),
    "q3": ("count", "readings above a value"),
}
LOAD, SIZE = "load time", "size"
#: Questions about one file: the time to read it again does not depend on the number of files.
OF_ONE_FILE = frozenset({"get", "scan"})
#: Operations that are no questions; `add` inserts during a phase that also reads.
_NO_QUESTIONS = (ALL, FINISH, "add")


def asked(tables: Tables) -> list[Criterion]:
    """The columns: the questions in the study's order, then load time and size."""
    if "engine" not in tables.results.factors:
        return []
    size = _column(SIZE, of_measure(tables, "store_bytes"), "size", "B", "on disk")
    columns = [*_questions(tables), _load(tables), size]
    return [column for column in columns if len(column.values)]


def counted_by(column: Criterion, criteria: Sequence[Criterion]) -> float:
    """The weight of the criterion that measures the same as a column of the first screen."""
    kinds = [kind for kind, operations in KINDS.items() if column.name in operations]
    same = {LOAD: "load", SIZE: "disk"}.get(column.name)
    phases = {f"phase {phase}" for phase in column.values["phase"]}
    names = {same} if same else {*kinds, "query", *phases}
    return max((c.weight for c in criteria if c.name in names), default=0.0)


def least_load(rows: pd.DataFrame) -> pd.DataFrame:
    """The rows of each phase's first step, with the smallest number of clients that most engines
    have; for an engine without that number, with its own smallest."""
    if rows.empty:
        return rows
    rows = rows[rows["step"] == rows.groupby("phase", observed=True)["step"].transform("min")]
    clients = client_threads(rows)
    engines = rows.groupby(clients)["engine"].nunique()
    common = min(engines.index, key=lambda count: (-engines[count], count))
    has_common = rows["engine"].isin(rows.loc[clients == common, "engine"])
    fewest = clients.groupby(rows["engine"], observed=True).transform("min")
    return rows[clients == fewest.mask(has_common, common)]


def _questions(tables: Tables) -> list[Criterion]:
    times = rows_of(tables, "service_p50")
    times = times[
        ~times["phase"].isin(loads(tables.throughput)) & ~times["operation"].isin(_NO_QUESTIONS)
    ]
    columns: dict[str, Criterion] = {}
    for phase in tables.phases_of(times):
        of_phase = times[times["phase"] == phase]
        order = [name for name in QUESTIONS if name in set(of_phase["operation"])]
        for name in dict.fromkeys([*order, *map(str, of_phase["operation"])]):
            if name not in columns:
                rows = least_load(of_phase[of_phase["operation"] == name])
                about = "your question" if phase == OF_QUESTIONS else f"phase {phase}"
                title, about = QUESTIONS.get(name, (name.replace("_", " "), about))
                columns[name] = _column(name, of_rows(tables, rows), title, "s", about)
    return list(columns.values())


def _load(tables: Tables) -> Criterion:
    """The wall time in s of the first phase that loads."""
    rows = rows_of(tables, "duration")
    rows = rows[rows["phase"].isin(loads(tables.throughput)) & (rows["engine"] != BASELINE)]
    rows = rows[rows["phase"].isin(tables.phases_of(rows)[:1])]
    return _column(LOAD, of_rows(tables, rows), "load", "s", "everything, once")


def _column(name: str, values: pd.DataFrame, title: str, unit: str, about: str) -> Criterion:
    return Criterion(name, title, unit, False, figures(values), about=about)
