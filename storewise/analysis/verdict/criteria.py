"""The criteria that a study measured, with the figures of each trial.

A criterion takes some rows of `summary`, those at which the stores are alike, and the figures of
their trials (`of_rows`). Which phase it is measured in follows from the operations that
the phase has, not from its name. The null engine and steps at rates that the study set are left
out, but for latency.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd

from storewise.analysis.common.engines import BASELINE, CEILING, embedded
from storewise.analysis.common.frames import records
from storewise.analysis.common.text import all_of, rows_as_text
from storewise.analysis.judge.comparable_steps import (
    WITH,
    clients_in_words,
    closed_steps,
    headline_rates,
    loads,
)
from storewise.analysis.judge.corpus import files_of_corpus
from storewise.analysis.measure.throughput import FINISH
from storewise.analysis.model.columns import (
    ALL,
    EFFICIENCY,
    HIGHEST,
    HOSTS,
    HOURS,
    KEYS,
    MONEY,
    OTHER,
    SETUP,
    SLOWED,
)
from storewise.analysis.model.tables import Tables
from storewise.analysis.verdict.criterion import FINISHED, SOURCE_ROW, Criterion, figures
from storewise.study.criteria import BY_KEY, CriterionName
from storewise.study.criteria import KEYS as ORDER
from storewise.study.prices import Prices

#: Operations by what they ask of a store: `read` one document by its key, `scan` those of a range
#: of keys or with a field's value or range, `aggregate` counts and histograms.
KINDS = {
    "read": frozenset({"get", "read", "q1"}),
    "scan": frozenset({"scan", "q2", "best_hits", "gene_hits", "strong_hits"}),
    "aggregate": frozenset({"q3", "top_genes", "bits_histogram"}),
}
_QUESTIONS = KINDS["scan"] | KINDS["aggregate"]
#: The phase that asks them, and a study's own.
OF_QUESTIONS = "query"
_INSERTS = frozenset({"insert", "add"})
#: A phase belongs to a kind if at least this share of its operations does: YCSB's b and e have 5 %
#: of updates and inserts, drawn at random.
SHARE = 0.8
#: Factors of the number of clients, which may differ from criterion to criterion.
CLIENTS = ("workers", "processes", "threads")
#: Resources for `scaling`, by priority: the first one counts that was varied for two stores.
RESOURCES = ("nodes", *CLIENTS, "node_threads")


def criteria_of(tables: Tables) -> list[Criterion]:
    """All measured criteria, in the order of `storewise.study.criteria`. Other phases come after
    reading, scanning and aggregation; searches for a rate are the last of them."""
    if "engine" not in tables.results.factors:
        return []
    files = files_of_corpus(tables)
    least = f"fewer than {BY_KEY['inodes'].least:,.0f} count as that many"
    about = f"{least}; the full corpus has {files:,} files" if files is not None else least
    criteria = [
        *rates(tables),
        *highest_rates(tables),
        latency(tables),
        scaling(tables),
        slow_node(tables),
        named("disk", of_measure(tables, "bytes_per_document")),
        named("inodes", of_measure(tables, "inodes"), about=about),
        cost(tables),
        setup(tables),
    ]
    position = {key: at for at, key in enumerate(ORDER)}
    other_phases = position["aggregate"] + 0.5
    measured = [c for c in criteria if c is not None and len(c.values)]
    return sorted(measured, key=lambda c: position.get(c.name, other_phases))


def named(
    name: str, values: pd.DataFrame, *, title: str = "", unit: str = "", **more: Any
) -> Criterion:
    """A criterion of `storewise.study.criteria`, or a new one in operations/s (more is better)."""
    definition = BY_KEY.get(name, CriterionName(name, title or name, "", "operations/s", True))
    description = (name, definition.title, unit or definition.unit, definition.more)
    return Criterion(*description, figures(values), definition.least, **more)


def with_source(table: pd.DataFrame) -> pd.DataFrame:
    """A table with the column SOURCE_ROW (each row's number), without the null engine."""
    placed = table.assign(**{SOURCE_ROW: [str(label) for label in table.index]})
    return placed[placed["engine"] != CEILING] if "engine" in placed else placed


def rows_of(tables: Tables, measure: str) -> pd.DataFrame:
    """The rows of `summary` for one measure, with SOURCE_ROW."""
    return with_source(tables.summary[tables.summary["measure"] == measure])


def of_rows(tables: Tables, rows: pd.DataFrame) -> pd.DataFrame:
    """The figures of single trials (`trial`, `value`) behind rows of `summary`."""
    factors = list(tables.results.factors)
    measures = tables.measures
    for name in ("measure", "phase"):
        measures = measures[measures[name].isin(set(rows[name]))]
    measures = measures[["trial", "value", *KEYS]].merge(tables.trials[["trial", *factors]])
    frames = [frame.astype({OTHER: object}).fillna({OTHER: ""}) for frame in (measures, rows)]
    return frames[0].merge(frames[1], on=[*factors, *KEYS])


def of_measure(tables: Tables, measure: str) -> pd.DataFrame:
    """The figures of single trials for one measure."""
    return of_rows(tables, rows_of(tables, measure))


def at_most_stores(rows: pd.DataFrame, by: Sequence[str]) -> pd.DataFrame:
    """The rows with one combination of values of the columns `by`: the one that most stores have;
    of several such ones the highest."""
    level = rows.groupby(list(by), observed=True).ngroup()  # in the order of the levels
    stores = rows.loc[rows["engine"] != BASELINE, "engine"].groupby(level).nunique()
    best = max(stores.index, key=lambda n: (stores[n], n), default=-1)
    return rows[level == best]


def client_threads(table: pd.DataFrame) -> pd.Series:
    """The number of clients by the factors: workers x processes x threads."""
    names = [name for name in CLIENTS if name in table]
    return table[names].astype(float).fillna(1.0).prod(axis=1)


def operations(tables: Tables) -> dict[str, dict[str, float]]:
    """Phase -> operation -> its share of the phase's operations (0 to 1), by the histograms."""
    times = rows_of(tables, "service_p50").astype({"phase": str, "operation": str})
    times = times[~times["operation"].isin([ALL, FINISH]) & (times["count"] > 0)]
    shares: dict[str, dict[str, float]] = {}
    for phase, group in times.groupby("phase"):
        counts = group.groupby("operation", sort=False)["count"].sum()
        total = counts.sum()
        shares[str(phase)] = {str(name): count / total for name, count in counts.items()}
    return shares


def phases_of_kinds(shares: dict[str, dict[str, float]], order: Sequence[str]) -> dict[str, str]:
    """Kind of operation -> the phase with its largest share, at least SHARE; else absent."""
    phases: dict[str, str] = {}
    for kind, names in KINDS.items():
        share = {
            phase: sum(part for name, part in shares.get(phase, {}).items() if name in names)
            for phase in order
        }
        best = max(share, key=share.__getitem__, default=None)
        if best is not None and share[best] >= SHARE:
            phases[kind] = best
    return phases


def rates(tables: Tables) -> list[Criterion]:
    """Criteria of rates: loading, reading, scanning, aggregation, and other phases."""
    every = with_source(headline_rates(tables, tables.rates))
    order, loading = tables.phases_of(every), loads(tables.throughput)
    first_load = next((phase for phase in order if phase in loading), None)
    shares = operations(tables)
    kinds = phases_of_kinds(shares, [phase for phase in order if phase not in loading])
    kind_of = {phase: kind for kind, phase in kinds.items()}
    questions = medians(tables, shares, kinds)
    criteria = []
    for phase in order:
        rows, about = every[every["phase"] == phase], f"phase {phase}"
        names = set(shares.get(phase, ()))
        if phase in loading or names & _INSERTS:
            # The files themselves store nothing.
            rows = rows[rows["engine"] != BASELINE]
        if phase == first_load:
            values = of_rows(tables, rows).drop(columns=FINISHED)  # of whole batches
            criteria.append(named("load", values, about=about))
            continue
        values = of_rows(tables, closed_steps(rows))
        if phase in kind_of:
            criteria.append(named(kind_of[phase], values, about=about))
        elif names and (names <= _QUESTIONS or phase == OF_QUESTIONS):
            more = {"title": "questions", "unit": "questions/s", "about": about}
            # Its questions count as scanning and aggregation.
            criteria.append(named("query", values, counts=not questions, **more))
        else:
            criteria.append(named(about, values))
    return [*criteria, *questions]


def medians(
    tables: Tables, shares: dict[str, dict[str, float]], measured_kinds: dict[str, str]
) -> list[Criterion]:
    """Reading, scanning and aggregation in the first phase of questions, if no phase has only one
    kind: questions/s of one client, 1 / geometric mean of the median service times."""
    rows = rows_of(tables, "service_p50")
    phases = [
        phase
        for phase in tables.phases_of(rows)
        if phase in shares and (set(shares[phase]) <= _QUESTIONS or phase == OF_QUESTIONS)
    ]
    criteria = []
    for kind in ("read", "scan", "aggregate"):
        of_kind = rows[rows["phase"].isin(phases[:1]) & rows["operation"].isin(KINDS[kind])]
        names = sorted(set(of_kind["operation"]))
        if kind in measured_kinds or not names:
            continue
        times = of_rows(tables, closed_steps(of_kind.assign(mean=1 / of_kind["mean"])))
        groups = times.groupby(["trial", "phase", "step", WITH], observed=True)
        values = groups.agg(
            value=("value", lambda times: math.exp(-np.log(times).mean())),
            source_row=(SOURCE_ROW, lambda rows: rows_as_text(map(int, rows))),
        )
        values = values[groups.size() == len(names)].reset_index()
        about = f"median of {all_of(names)}, one client"
        criteria.append(named(kind, values, unit="questions/s", about=about))
    return criteria


def highest_rates(tables: Tables) -> list[Criterion]:
    """The results of searches for the highest rate, a criterion per phase and latency limit."""
    criteria = []
    searches = rows_of(tables, HIGHEST)
    for (phase, limit), rows in searches.groupby(["phase", OTHER], sort=False, observed=True):
        several = rows["clients"].nunique() > 1
        words = [clients_in_words(n) if several else "" for n in rows["clients"]]
        values = of_rows(tables, rows.assign(**{WITH: words}))
        name, title = f"highest {phase}: {limit}", f"phase {phase} with {limit}"
        criteria.append(named(name, values, title=title))
    return criteria


def latency(tables: Tables) -> Criterion | None:
    """p99 of the response time at the highest target rate of most stores. Without target rates: p99
    of the service time of look-ups (else the most frequent operation) with most clients.

    It counts only at a target rate: in a closed loop the rate follows from the latency, so that the
    latency would count twice.
    """
    searched = tables.searched
    rows = rows_of(tables, "response_p99").fillna({OTHER: ""})
    rows = rows[(rows["operation"] == ALL) & rows["rate"].notna()]
    rows = rows[~rows["phase"].isin(searched)].astype({"phase": str})
    if len(rows):
        rows = at_most_stores(rows, ["rate", "phase", OTHER])
        rate, phase, other = rows.iloc[0][["rate", "phase", OTHER]]
        words = ["p99 response", f"phase {phase}", f"{rate:,.0f} operations/s asked", other]
        about = ", ".join(filter(None, words))
        return named("latency", of_rows(tables, rows), about=about)
    shares = {phase: of for phase, of in operations(tables).items() if phase not in searched}
    order = [p for p in tables.phases_of(tables.rates) if p in shares]
    order = [p for p in order if p not in loads(tables.throughput)] or order
    if not order:
        return None
    phase = next(iter([*phases_of_kinds(shares, order).values(), *order]))
    operation = max(shares[phase], key=shares[phase].__getitem__)
    rows = rows_of(tables, "service_p99")
    rows = rows[(rows["phase"] == phase) & (rows["operation"] == operation)]
    rows = closed_steps(rows[rows["engine"] != BASELINE])
    rows = rows.assign(threads_in_all=rows["clients"].fillna(client_threads(rows)))
    rows = at_most_stores(rows, ["threads_in_all"])
    if rows.empty:
        return None
    clients = clients_in_words(rows["threads_in_all"].iloc[0])
    about = f"p99 of {operation}, phase {phase}, {clients}"
    return named("latency", of_rows(tables, rows), about=about, counts=False)


def scaling(tables: Tables) -> Criterion | None:
    """Efficiency in the first phase, at the highest number of nodes (else workers, processes,
    threads) that most stores reached from the same lowest number."""
    rows = rows_of(tables, EFFICIENCY)
    rows = rows[rows["engine"] != BASELINE]
    order = tables.phases_of(rows)
    of = rows[OTHER].astype(str).str.extract(r"^(\S+) (\S+) against (\S+)$")
    rows = rows.assign(
        factor=of[0],
        level=of[1].astype(float),
        least=-of[2].astype(float),
        earlier=[-order.index(str(phase)) for phase in rows["phase"]],
        first=-rows["step"].astype(int),
    )
    keys = ["earlier", "least", "level", "first"]
    ways = [at_most_stores(rows[rows["factor"] == factor], keys) for factor in RESOURCES]
    # The first resource with figures of two stores or more.
    best = max(ways, key=lambda way: min(2, way["engine"].nunique()))
    if best.empty:
        return None
    phase, levels, factor = best.iloc[0][["phase", OTHER, "factor"]]
    about = f"phase {phase}, {levels}"
    # More clients are part of the rates already; more nodes have to be bought.
    return named("scaling", of_rows(tables, best), about=about, counts=factor == "nodes")


def slow_node(tables: Tables) -> Criterion | None:
    """The rate with the fewest slowed nodes by the rate with none, at equal cluster size."""
    rows = rows_of(tables, SLOWED)
    rows = rows[~rows[OTHER].astype(str).str.startswith("0 ")]
    if rows.empty:
        return None
    size = rows["nodes"].astype(float).fillna(0.0) if "nodes" in rows else 0.0
    fewest = -rows[OTHER].str.split(n=1).str[0].astype(int)
    rows = rows.assign(size=size, fewest=fewest).astype({"phase": str, OTHER: str})
    rows = at_most_stores(rows, ["size", "fewest", "phase", OTHER])
    # Of several equal steps the first.
    rows = rows.drop_duplicates([*tables.results.factors, "phase"])
    if rows.empty:
        return None
    row = records(rows)[0]
    about = ", ".join([row[OTHER], *([f"{row['size']:g} nodes"] if row["size"] else [])])
    return named("slow_node", of_rows(tables, rows), about=f"{about}, phase {row['phase']}")


def setup(tables: Tables) -> Criterion | None:
    """Time in s from the start of the last server's job until the cluster and its tables are ready.
    Time in a queue is left out: it says nothing about the store. Embedded stores have 0."""
    values = of_measure(tables, SETUP)
    if values.empty:
        return None
    engines = tables.trials["engine"].astype(str)
    serverless = engines.map(embedded) & ~engines.isin([BASELINE, CEILING])
    zeros = tables.trials.loc[serverless, ["trial"]].assign(value=0.0, phase="", **{SOURCE_ROW: ""})
    return named("setup", pd.concat([values, zeros]), about="without waiting in queues")


def cost(tables: Tables) -> Criterion | None:
    """Money per million documents loaded, or host hours where there are no prices. In a study
    without a load: per million operations of its first phase.

    Host hours count only where stores used different numbers of hosts. With equal numbers they are
    the reciprocal of the rate, which would count twice.
    """
    for measure in (MONEY, HOURS):
        values = of_measure(tables, measure)
        values = values[values["engine"] != BASELINE]
        values = values[values["phase"].isin(tables.phases_of(values)[:1])]
        if values.empty:
            continue
        about = [f"phase {values['phase'].iloc[0]}"]
        if measure == MONEY:
            about += filter(None, [Prices.model_validate(tables.results.study["prices"]).source])
        hosts = of_measure(tables, HOSTS).merge(values[["trial", "phase"]])
        numbers = {frozenset(each) for _, each in hosts.groupby("engine")["value"]}
        more: dict[str, Any] = {"unit": str(values["unit"].iloc[0]), "about": "; ".join(about)}
        return named("cost", values, counts=measure == MONEY or len(numbers) > 1, **more)
    return None
