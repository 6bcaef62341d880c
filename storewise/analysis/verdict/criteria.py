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
_INSERTS = frozenset({"insert", "add"})
#: Least share of a phase's operations that are of a kind, for it to be of that kind: YCSB's b and
#: e have 5 % of updates and inserts, drawn at random.
SHARE = 0.8
#: Factors of the clients: how many there are may differ from criterion to criterion.
CLIENTS = ("workers", "processes", "threads")
#: Resources whose efficiency is compared, the first that two stores were measured over.
RESOURCES = ("nodes", *CLIENTS, "node_threads")


def criteria_of(tables: Tables) -> list[Criterion]:
    """All that was measured, in the order of `storewise.study.criteria`; other phases after
    reading, scanning and aggregation, then searches."""
    if "engine" not in tables.results.factors:
        return []
    files = files_of_corpus(tables)
    least = f"fewer than {BY_KEY['inodes'].least:,.0f} count as that many"
    about = f"{least}; the full corpus has {files:,} files" if files is not None else least
    every = [
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
    place = {key: at for at, key in enumerate(ORDER)}
    others = place["aggregate"] + 0.5
    measured = [one for one in every if one is not None and len(one.values)]
    return sorted(measured, key=lambda one: place.get(one.name, others))


def named(
    name: str, values: pd.DataFrame, *, title: str = "", unit: str = "", **more: Any
) -> Criterion:
    """A criterion: one of the known, or another one where more is better."""
    known = BY_KEY.get(name, CriterionName(name, title or name, "", "operations/s", True))
    place = (name, known.title, unit or known.unit, known.more)
    return Criterion(*place, figures(values), known.least, **more)


def with_source(table: pd.DataFrame) -> pd.DataFrame:
    """A table whose rows know their places, without the null engine."""
    placed = table.assign(**{SOURCE_ROW: [str(label) for label in table.index]})
    return placed[placed["engine"] != CEILING] if "engine" in placed else placed


def rows_of(tables: Tables, measure: str) -> pd.DataFrame:
    """The rows of one measure, with their places."""
    return with_source(tables.summary[tables.summary["measure"] == measure])


def of_rows(tables: Tables, rows: pd.DataFrame) -> pd.DataFrame:
    """The trials' figures (`trial`, `value`) of rows of the summary, with the rows' columns."""
    factors = list(tables.results.factors)
    measures = tables.measures
    for name in ("measure", "phase"):
        measures = measures[measures[name].isin(set(rows[name]))]
    measures = measures[["trial", "value", *KEYS]].merge(tables.trials[["trial", *factors]])
    both = [one.astype({OTHER: object}).fillna({OTHER: ""}) for one in (measures, rows)]
    return both[0].merge(both[1], on=[*factors, *KEYS])


def of_measure(tables: Tables, measure: str) -> pd.DataFrame:
    """The trials' figures of one measure."""
    return of_rows(tables, rows_of(tables, measure))


def at_most_stores(rows: pd.DataFrame, by: Sequence[str]) -> pd.DataFrame:
    """The rows with one combination of values of the columns `by`: that which most stores have, of
    several the highest."""
    level = rows.groupby(list(by), observed=True).ngroup()  # in the order of the levels
    stores = rows.loc[rows["engine"] != BASELINE, "engine"].groupby(level).nunique()
    best = max(stores.index, key=lambda one: (stores[one], one), default=-1)
    return rows[level == best]


def client_threads(table: pd.DataFrame) -> pd.Series:
    """The number of clients that the factors say."""
    names = [name for name in CLIENTS if name in table]
    return table[names].astype(float).fillna(1.0).prod(axis=1)


def operations(tables: Tables) -> dict[str, dict[str, float]]:
    """Phase -> operation -> its share of the phase's operations, by the histograms."""
    times = rows_of(tables, "service_p50").astype({"phase": str, "operation": str})
    times = times[~times["operation"].isin([ALL, FINISH]) & (times["count"] > 0)]
    shares: dict[str, dict[str, float]] = {}
    for phase, group in times.groupby("phase"):
        counts = group.groupby("operation", sort=False)["count"].sum()
        total = counts.sum()
        shares[str(phase)] = {str(name): count / total for name, count in counts.items()}
    return shares


def phases_of_kinds(shares: dict[str, dict[str, float]], order: Sequence[str]) -> dict[str, str]:
    """Kind -> the phase that has most of it (at least SHARE), the first of equals."""
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
    """Loading, reading, scanning and aggregation, and every other phase with a rate of its own."""
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
        elif names and names <= _QUESTIONS:
            more = {"title": "questions", "unit": "questions/s", "about": about}
            # Its questions count as scanning and aggregation.
            criteria.append(named("query", values, counts=not questions, **more))
        else:
            criteria.append(named(about, values))
    return [*criteria, *questions]


def medians(
    tables: Tables, shares: dict[str, dict[str, float]], known: dict[str, str]
) -> list[Criterion]:
    """Scanning and aggregation of the first phase that asks both, where no phase is of one kind
    alone: questions per second of one client, 1 / geometric mean of the median service times."""
    rows = rows_of(tables, "service_p50")
    phases = [p for p in tables.phases_of(rows) if p in shares and set(shares[p]) <= _QUESTIONS]
    criteria = []
    for kind in ("scan", "aggregate"):
        of_kind = rows[rows["phase"].isin(phases[:1]) & rows["operation"].isin(KINDS[kind])]
        names = sorted(set(of_kind["operation"]))
        if kind in known or not names:
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
    """The highest rates that the searches of a rate found, per phase and limit."""
    criteria = []
    found = rows_of(tables, HIGHEST)
    for (phase, limit), rows in found.groupby(["phase", OTHER], sort=False, observed=True):
        several = rows["clients"].nunique() > 1
        words = [clients_in_words(n) if several else "" for n in rows["clients"]]
        values = of_rows(tables, rows.assign(**{WITH: words}))
        name, title = f"highest {phase}: {limit}", f"phase {phase} with {limit}"
        criteria.append(named(name, values, title=title))
    return criteria


def latency(tables: Tables) -> Criterion | None:
    """p99 of the response time at the highest target rate that most stores had; else of the service
    time of look-ups (else of what another phase has most of) with the most clients.

    Only at a target rate does it count: clients that each wait for their answers make as many
    operations as their latency lets them, so that their rate has said it already.
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
    """Efficiency at the largest level of nodes (else workers, processes, threads) that most stores
    reached from the same lowest one, in the first phase."""
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
    # The first that compares several stores.
    best = max(ways, key=lambda way: min(2, way["engine"].nunique()))
    if best.empty:
        return None
    phase, levels, factor = best.iloc[0][["phase", OTHER, "factor"]]
    about = f"phase {phase}, {levels}"
    # What more clients bring is in the rates; what more nodes bring is a reason to buy them.
    return named("scaling", of_rows(tables, best), about=about, counts=factor == "nodes")


def slow_node(tables: Tables) -> Criterion | None:
    """The rate with the fewest slowed nodes over that without, at one number of nodes."""
    rows = rows_of(tables, SLOWED)
    rows = rows[~rows[OTHER].astype(str).str.startswith("0 ")]
    if rows.empty:
        return None
    size = rows["nodes"].astype(float).fillna(0.0) if "nodes" in rows else 0.0
    fewest = -rows[OTHER].str.split(n=1).str[0].astype(int)
    rows = rows.assign(size=size, fewest=fewest).astype({"phase": str, OTHER: str})
    rows = at_most_stores(rows, ["size", "fewest", "phase", OTHER])
    # The first step of several alike.
    rows = rows.drop_duplicates([*tables.results.factors, "phase"])
    if rows.empty:
        return None
    row = records(rows)[0]
    about = ", ".join([row[OTHER], *([f"{row['size']:g} nodes"] if row["size"] else [])])
    return named("slow_node", of_rows(tables, rows), about=f"{about}, phase {row['phase']}")


def setup(tables: Tables) -> Criterion | None:
    """From the start of the last server's job to a formed cluster with its tables, in s: how long
    the jobs waited in a queue says nothing of the store. Embedded stores need none."""
    values = of_measure(tables, SETUP)
    if values.empty:
        return None
    engines = tables.trials["engine"].astype(str)
    alone = engines.map(embedded) & ~engines.isin([BASELINE, CEILING])
    none = tables.trials.loc[alone, ["trial"]].assign(value=0.0, phase="", **{SOURCE_ROW: ""})
    return named("setup", pd.concat([values, none]), about="without waiting in queues")


def cost(tables: Tables) -> Criterion | None:
    """Money, or hours of hosts where there are no prices, per million documents loaded; of studies
    that load nothing per million operations of their first phase.

    Without prices it counts only where stores had different numbers of hosts: with equal ones it
    is the rate, turned over, and would count that twice.
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
