"""The first screen's columns: how long one answer takes, how long the load, and what it all takes
on disk.

Each is a criterion in seconds or bytes, which does not count itself: rates do, and what a study
weighs (`storewise.analysis.verdict.criteria`). A question's time is the median service time of its
first step, where the load is least, with the fewest clients that most engines were asked by.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pandas as pd

from storewise.analysis.common.engines import BASELINE
from storewise.analysis.judge.comparable_steps import loads
from storewise.analysis.measure.throughput import FINISH
from storewise.analysis.model.columns import ALL
from storewise.analysis.model.tables import Tables
from storewise.analysis.verdict.criteria import KINDS, client_threads, of_measure, of_rows, rows_of
from storewise.analysis.verdict.criterion import Criterion, figures

#: Operation -> what it is called over a column, and what it asks.
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
#: What is asked by the file: reading the SSEARCH outputs again takes as long however many they are.
OF_ONE_FILE = frozenset({"get", "scan"})
#: Inserts of a phase that reads, too, are no question.
_NO_QUESTIONS = (ALL, FINISH, "add")


def asked(tables: Tables) -> list[Criterion]:
    """The questions in the order in which the study asks them, then load and size."""
    if "engine" not in tables.results.factors:
        return []
    size = _column(SIZE, of_measure(tables, "store_bytes"), "size", "B", "on disk")
    every = [*_questions(tables), _load(tables), size]
    return [one for one in every if len(one.values)]


def counted_by(one: Criterion, criteria: Sequence[Criterion]) -> float:
    """The weight of the criterion that a column of this page belongs to."""
    kinds = [kind for kind, operations in KINDS.items() if one.name in operations]
    known = {LOAD: "load", SIZE: "disk"}.get(one.name)
    phases = {f"phase {phase}" for phase in one.values["phase"]}
    names = {known} if known else {*kinds, "query", *phases}
    return max((c.weight for c in criteria if c.name in names), default=0.0)


def least_load(rows: pd.DataFrame) -> pd.DataFrame:
    """For each phase the first step with the fewest clients that most engines have; for an engine
    without these its own fewest."""
    if rows.empty:
        return rows
    rows = rows[rows["step"] == rows.groupby("phase", observed=True)["step"].transform("min")]
    clients = client_threads(rows)
    engines = rows.groupby(clients)["engine"].nunique()
    common = min(engines.index, key=lambda count: (-engines[count], count))
    has = rows["engine"].isin(rows.loc[clients == common, "engine"])
    fewest = clients.groupby(rows["engine"], observed=True).transform("min")
    return rows[clients == fewest.mask(has, common)]


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
                title, about = QUESTIONS.get(name, (name, f"phase {phase}"))
                columns[name] = _column(name, of_rows(tables, rows), title, "s", about)
    return list(columns.values())


def _load(tables: Tables) -> Criterion:
    """The time of the first load."""
    rows = rows_of(tables, "duration")
    rows = rows[rows["phase"].isin(loads(tables.throughput)) & (rows["engine"] != BASELINE)]
    rows = rows[rows["phase"].isin(tables.phases_of(rows)[:1])]
    return _column(LOAD, of_rows(tables, rows), "load", "s", "everything, once")


def _column(name: str, values: pd.DataFrame, title: str, unit: str, about: str) -> Criterion:
    return Criterion(name, title, unit, False, figures(values), about=about)
