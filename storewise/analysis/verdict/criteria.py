"""What stores are judged by: one list of criteria, each with rows over repeats and the figures of
each trial behind them.

Rows are those of `summary` but where nothing is said there: factors, mean, `count` (operations
behind it), `source_row` (the rows of the table's CSV file, from 0: ``3`` or ``3-5,9``), `with`
(what else is particular about the step, in words) and `note`. Which phase a criterion is measured
in follows from the operations that the phase has, not from its name. The null engine and trials at
rates that the study set are left out.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Literal

import numpy as np
import pandas as pd

from storewise.analysis.common.engines import (
    BASELINE,
    CEILING,
    embedded,
    external,
    label,
    varying_promises,
)
from storewise.analysis.common.frames import grouped, key_of, missing, records
from storewise.analysis.common.text import all_of, count, number, rows_as_text
from storewise.analysis.judge import comparable_steps as comparable
from storewise.analysis.judge.comparable_steps import WITH, clients_in_words, headline_rates, loads
from storewise.analysis.judge.corpus import VOLUME, files_of_corpus
from storewise.analysis.judge.cost import AS_PLACED
from storewise.analysis.measure.throughput import FINISH
from storewise.analysis.model.columns import ALL, EFFICIENCY, HIGHEST, OTHER, PARAMETERS, SETUP
from storewise.analysis.model.tables import Tables
from storewise.analysis.verdict.criterion import FINISHED, NOTE, SOURCE_ROW, Criterion
from storewise.analysis.verdict.values import COLUMNS, of_rows
from storewise.study.criteria import BY_KEY, CriterionName

CLIENT_BOUND = "limited by the client"
#: Operations by what they ask of a store: `read` one document by its key, `scan` those of a range
#: of keys or with a field's value or range, `aggregate` counts and histograms.
KINDS = {
    "read": frozenset({"get", "read", "q1"}),
    "scan": frozenset({"scan", "q2", "best_hits", "gene_hits", "strong_hits"}),
    "aggregate": frozenset({"q3", "top_genes", "bits_histogram"}),
}
_INSERTS = frozenset({"insert", "add"})
#: Least share of a phase's operations that are of a kind, for it to be of that kind: YCSB's b and
#: e have 5 % of updates and inserts, drawn at random.
SHARE = 0.8
#: Resources whose efficiency is compared, the first that two stores were measured over.
RESOURCES = ("nodes", "workers", "processes", "threads", "node_threads")
Key = tuple[Any, ...]


def named(
    name: str,
    tables: Tables,
    rows: pd.DataFrame,
    *,
    title: str = "",
    unit: str = "",
    values: pd.DataFrame | None = None,
    **more: Any,
) -> Criterion:
    """A criterion: one of the known, or another one where more is better. Without `values` they
    are those behind the rows."""
    known = BY_KEY.get(name, CriterionName(name, title, "", "operations/s", True))
    values = of_rows(tables, rows) if values is None else values
    one = Criterion(name, known.title, unit or known.unit, known.more, rows, **more)
    return replace(one, least=known.least, values=values)


def with_source(table: pd.DataFrame) -> pd.DataFrame:
    """A table whose rows know their places, without the null engine."""
    placed = table.assign(**{SOURCE_ROW: [str(label) for label in table.index]})
    placed[NOTE] = table.get(NOTE, "")
    return placed[placed["engine"] != CEILING] if "engine" in placed else placed


def of_measure(tables: Tables, measure: str) -> pd.DataFrame:
    """The rows of one measure, with their places."""
    return with_source(tables.summary[tables.summary["measure"] == measure])


def operations(tables: Tables) -> dict[str, dict[str, float]]:
    """Phase -> operation -> its share of the phase's operations, by the histograms."""
    times = of_measure(tables, "service_p50")
    times = times[~times["operation"].isin([ALL, FINISH])].astype({"phase": str, "operation": str})
    shares: dict[str, dict[str, float]] = {}
    for phase, group in times.groupby("phase"):
        of_phase = group.groupby("operation", sort=False)["count"].sum()
        if of_phase.sum() > 0:
            total = of_phase.sum()
            shares[str(phase)] = {str(name): count / total for name, count in of_phase.items()}
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
    every = _client_bound(with_source(headline_rates(tables, tables.rates)), tables)
    order = tables.phases_of(every)
    loading = loads(tables.throughput)
    first_load = next((phase for phase in order if phase in loading), None)
    shares = operations(tables)
    kinds = phases_of_kinds(shares, [phase for phase in order if phase not in loading])
    name_phase = tables.results.study.get("workload", "alignments") != "alignments"
    criteria = []
    for phase in order:
        rows = every[every["phase"] == phase]
        about = f"phase {phase}" if name_phase else ""
        names = set(shares.get(phase, ()))
        if phase in loading or names & _INSERTS:
            # The files themselves store nothing.
            rows = rows[rows["engine"] != BASELINE]
        if phase == first_load:
            rows = rows.drop(columns=FINISHED)  # one insert operation is a whole batch
            criteria.append(named("load", tables, rows, about=about))
            continue
        rows = comparable.closed_steps(rows)
        unit = str(next(iter(rows["unit"]), "operations/s"))
        kind = next((kind for kind, of_kind in kinds.items() if of_kind == phase), None)
        if kind is not None:
            unit = "documents/s" if names == {"get"} else unit
            criteria.append(named(kind, tables, rows, unit=unit, about=about))
            continue
        asked = bool(names) and names <= KINDS["scan"] | KINDS["aggregate"]
        name, title = ("query", "questions") if asked else (f"phase {phase}",) * 2
        unit = "questions/s" if asked else unit
        criteria.append(named(name, tables, rows, title=title, unit=unit))
    return criteria


def _client_bound(rows: pd.DataFrame, tables: Tables) -> pd.DataFrame:
    """The rates with a note where the client limited any repeat."""
    keys = [*tables.results.factors, "phase", "step"]
    bound = tables.client_bound.merge(tables.trials, on="trial")
    places = {key_of(row, keys) for row in records(bound)}
    notes = [CLIENT_BOUND if key_of(row, keys) in places else "" for row in records(rows)]
    return rows.assign(**{NOTE: notes})


def highest_rates(tables: Tables) -> list[Criterion]:
    """What searches found, per phase and limit."""
    found = of_measure(tables, HIGHEST)
    criteria = []
    for (phase, limit), rows in found.groupby(["phase", OTHER], sort=False, observed=True):
        several = rows["clients"].nunique() > 1
        words = [clients_in_words(n) if several else "" for n in rows["clients"]]
        rows = rows.assign(**{WITH: words})
        name, title = f"highest {phase}: {limit}", f"phase {phase} with {limit}"
        criteria.append(named(name, tables, rows, title=title))
    return criteria


def disk(tables: Tables) -> Criterion:
    """Bytes per document at the end of the load, of the data alone. Notes give the size of the
    servers' whole directories, and the number of documents from which on 90 % of it is data."""
    sizes = with_source(tables.storage_summary)
    rows = sizes[sizes["measure"] == "bytes_per_document"]
    beside = [
        _beside(tables, sizes, rows, name) for name in ("node_bytes_per_document", "holds_from")
    ]
    notes = [
        f"its whole directories {number(whole)} B; 90 % of them is data from about "
        f"{count(float(f'{least:.2g}'))} documents on"
        if whole is not None and least is not None
        else ""
        for whole, least in zip(*beside, strict=True)
    ]
    return named("disk", tables, rows.assign(**{NOTE: notes}))


def _beside(
    tables: Tables, table: pd.DataFrame, rows: pd.DataFrame, measure: str
) -> list[float | None]:
    """What else was measured where each row was: the means of another measure of the table."""
    keys = [*tables.results.factors, "phase", "step"]
    others = records(table[table["measure"] == measure])
    means = {key_of(other, keys): float(other["mean"]) for other in others}
    return [means.get(key_of(row, keys)) for row in records(rows)]


def inodes(tables: Tables) -> Criterion:
    """Files and directories at the end of the load, of the largest volume: they are no share of the
    documents. Notes say how many metadata operations made them, and of the files themselves how
    many the full corpus has."""
    sizes = with_source(tables.storage_summary)
    if VOLUME in sizes:
        sizes = sizes[sizes[VOLUME] == sizes[VOLUME].max()]
    rows = sizes[sizes["measure"] == "inodes"]
    made = _beside(tables, sizes, rows, "metadata_operations")
    notes = [f"at least {count(n)} metadata operations in the load" if n else "" for n in made]
    files = files_of_corpus(tables)
    of_files = f"the full corpus has {files:,} files" if files is not None else ""
    notes = [
        of_files if engine == BASELINE else note
        for engine, note in zip(rows["engine"], notes, strict=True)
    ]
    about = f"fewer than {BY_KEY['inodes'].least:,.0f} count as that many"
    return named("inodes", tables, rows.assign(**{NOTE: notes}), about=about)


def in_most_choices(
    rows: pd.DataFrame, key: Callable[[Mapping[str, Any]], Key], promises: Sequence[str]
) -> tuple[int, Key, pd.DataFrame] | None:
    """Of the keys that most choices have the highest, after their number, with its rows.

    The baseline counts for none; None where no choice has any.
    """
    choices: dict[Key, set[str]] = {}
    keys = []
    for row in records(rows):
        keys.append(key(row))
        if row["engine"] != BASELINE:
            choices.setdefault(keys[-1], set()).add(label(row, promises))
    if not choices:
        return None
    best = max(choices, key=lambda one: (len(choices[one]), one))
    return len(choices[best]), best, rows.loc[[one == best for one in keys]]


def latency(tables: Tables) -> Criterion | None:
    """p99 of the response time at the highest target rate that most choices had; else with the
    most clients that most choices had, in steps or as factors.

    Only at a target rate does it count: clients that each wait for their answers make as many
    operations as their latency lets them, so that their rate has said it already.
    """
    promises = varying_promises(tables.results.trials, tables.results.factors)
    searched = set(tables.searches["phase"])
    steps = with_source(tables.steps)
    levels = tables.steps.groupby("phase", observed=True)["clients"].nunique()
    rising = set(levels[levels > 1].index)
    steps = steps[
        (steps["operation"] == ALL)
        & (steps["measure"] == "response_p99")
        & ~steps["phase"].isin(searched)
    ]
    ways = [
        _at_level(tables, steps[steps["rate"].notna()], "rate", promises),
        _at_level(
            tables, steps[steps["rate"].isna() & steps["phase"].isin(rising)], "clients", promises
        ),
        _with_all_clients(tables, promises, searched),
    ]
    # An open loop shows waiting that a closed one hides, but only between those that had it.
    possible = (way for way in ways if way is not None)
    return max(possible, key=lambda way: way[0], default=(0, None))[1]


def _at_level(
    tables: Tables, rows: pd.DataFrame, load: Literal["rate", "clients"], promises: Sequence[str]
) -> tuple[int, Criterion] | None:
    def key(row: Mapping[str, Any]) -> Key:
        counts = load == "clients" and not missing(row["planned"])
        planned = f"{row['planned']:,.0f} operations" if counts else ""
        other = "" if missing(row[OTHER]) else str(row[OTHER])
        return (float(row[load]), str(row["phase"]), other, planned)

    common = in_most_choices(rows, key, promises)
    if common is None:
        return None
    stores, (level_of_load, phase, *others), rows = common
    if load == "rate":
        words = ["p99 response", f"phase {phase}", f"{level_of_load:,.0f} operations/s asked"]
    else:
        words = ["p99", f"phase {phase}", clients_in_words(level_of_load)]
    about = ", ".join(filter(None, [*words, *others]))
    return stores, named("latency", tables, rows, about=about, counts=load == "rate")


def _with_all_clients(
    tables: Tables, promises: Sequence[str], searched: set[str]
) -> tuple[int, Criterion] | None:
    """By the factors workers, processes and threads: service times of the operation that a phase
    has most of."""
    shares = {phase: of for phase, of in operations(tables).items() if phase not in searched}
    order = [p for p in tables.phases_of(tables.rates) if p in shares]
    others = [p for p in order if p not in loads(tables.throughput)] or order
    phase = next(iter([*phases_of_kinds(shares, others).values(), *others]), "")
    if not phase:
        return None
    operation = max(shares[phase], key=shares[phase].__getitem__)
    rows = with_source(tables.summary)
    rows = rows[
        (rows["phase"] == phase)
        & (rows["operation"] == operation)
        & (rows["measure"] == "service_p99")
        & (rows["engine"] != BASELINE)
    ]
    # Where the steps of this phase differ, the table of steps says how.
    steps = zip(tables.steps["phase"].astype(str), tables.steps["step"].astype(int), strict=True)
    rows = rows[~comparable.at_steps(rows, set(steps))]

    def key(row: Mapping[str, Any]) -> Key:
        counts = (row.get(name, 1) for name in ("workers", "processes", "threads"))
        return (math.prod(1.0 if missing(n) else float(n) for n in counts),)

    common = in_most_choices(rows, key, promises)
    if common is None:
        return None
    stores, (clients,), rows = common
    words = f"p99 of {operation}, phase {phase}, {clients_in_words(clients)}"
    return stores, named("latency", tables, rows, about=words, counts=False)


def scaling(tables: Tables) -> Criterion | None:
    """Efficiency at the largest level of nodes (else workers, processes, threads) that most stores
    reached from the same lowest one."""
    promises = varying_promises(tables.results.trials, tables.results.factors)
    rows = of_measure(tables, EFFICIENCY)
    rows = rows[rows["engine"] != BASELINE]
    order = tables.phases_of(rows)

    def key(row: Mapping[str, Any]) -> Key:
        level, _, base = str(row[OTHER]).split(" ", 1)[1].partition(" against ")
        place = -order.index(str(row["phase"]))
        return (place, -float(base), float(level), -int(row["step"]))

    ways = [
        (found, factor)
        for factor in RESOURCES
        if (found := in_most_choices(rows[rows[OTHER].str.startswith(f"{factor} ")], key, promises))
    ]
    if not ways:
        return None
    # The first that compares several stores.
    (_, _, rows), factor = max(ways, key=lambda way: way[0][0] > 1)
    row = records(rows)[0]
    about = f"phase {row['phase']}, {row[OTHER]}"
    # What more clients bring is in the rates; what more nodes bring is a reason to buy them.
    return named("scaling", tables, rows, about=about, counts=factor == "nodes")


def kinds_of_questions(tables: Tables, known: Sequence[str]) -> list[Criterion]:
    """Scanning and aggregation of phases that ask both, where no phase is of one kind alone.

    Questions per second of one client: the reciprocal of the median service time, its geometric
    mean over the questions.
    """
    criteria = []
    rows = with_source(tables.summary)
    rows = rows[(rows["measure"] == "service_p50") & (rows["operation"] != ALL)]
    questions = KINDS["scan"] | KINDS["aggregate"]
    phases = {phase for phase, of in operations(tables).items() if set(of) <= questions}
    phase = next((p for p in tables.phases_of(rows) if p in phases), None)
    rows = rows[rows["phase"] == phase]
    keys = [*tables.results.factors, "step", *PARAMETERS, OTHER]
    for kind in ("scan", "aggregate"):
        of_kind = rows[rows["operation"].isin(KINDS[kind])]
        names = sorted(set(of_kind["operation"]))
        if kind in known or not names:
            continue
        figures = [
            {
                **dict(zip(keys, levels, strict=True)),
                "mean": _per_second(group["mean"]),
                "n": int(group["n"].min()),
                SOURCE_ROW: rows_as_text(map(int, group[SOURCE_ROW])),
                NOTE: "",
            }
            for levels, group in grouped(of_kind, keys)
            if len(group) == len(names)
        ]
        frame = pd.DataFrame(figures, columns=[*keys, "mean", "n", SOURCE_ROW, NOTE])
        frame = comparable.closed_steps(frame.assign(phase=phase))
        medians = tables.measures[
            (tables.measures["measure"] == "service_p50")
            & (tables.measures["phase"] == phase)
            & tables.measures["operation"].isin(names)
        ]
        groups = medians.groupby(["trial", "phase", "step"], observed=True)["value"]
        each = groups.agg(_per_second)[groups.size() == len(names)].reset_index()
        values = of_rows(tables, frame, each, ["phase", "step"])
        about = f"median of {all_of(names)}, one client"
        criteria.append(named(kind, tables, frame, unit="questions/s", about=about, values=values))
    return criteria


def _per_second(times: pd.Series) -> float:
    """The reciprocal of the geometric mean: each question's logarithm has the same weight."""
    return math.exp(-float(np.log(times.astype(float)).mean()))


def slow_node(tables: Tables) -> Criterion | None:
    """The rate with the fewest slowed nodes over that without, at one number of nodes."""
    promises = varying_promises(tables.results.trials, tables.results.factors)
    factors = list(tables.results.factors)
    rows = []
    for _, group in grouped(with_source(tables.slowdown), [*factors, "phase"]):
        steps = records(group)
        # The first step without a slowed node; more of them are alike.
        free = next((row for row in steps if row["slowed_nodes"] == 0), None)
        slowed = [row for row in steps if row["slowed_nodes"] > 0]
        if free is None or not slowed:
            continue
        row = min(slowed, key=lambda one: (one["slowed_nodes"], one["step"]))
        places = [int(row[SOURCE_ROW]), int(free[SOURCE_ROW])]
        found = {**row, "mean": row["mean"] / free["mean"], SOURCE_ROW: rows_as_text(places)}
        rows.append({**found, "free_step": free["step"]})

    def key(row: Mapping[str, Any]) -> tuple[Any, ...]:
        nodes: Any = row.get("nodes")
        size = 0.0 if missing(nodes) else float(nodes)
        return (size, -int(row["slowed_nodes"]), str(row["phase"]), str(row["slow"]))

    common = in_most_choices(pd.DataFrame(rows), key, promises)
    if common is None:
        return None
    _, (nodes, slowed_nodes, phase, how), of_key = common
    of = f" of {nodes:g}" if nodes else ""
    about = f"{-slowed_nodes}{of} nodes slowed: {how}, phase {phase}"
    values = _shares_of_trials(tables, of_key)
    return named("slow_node", tables, of_key, about=about, table="slowdown", values=values)


def _shares_of_trials(tables: Tables, rows: pd.DataFrame) -> pd.DataFrame:
    """Of each trial: its rate in the slowed step over that in the step without a slowed node."""
    places = [*tables.results.factors, "phase"]
    rates = tables.throughput[tables.throughput["measure"] == "operations_per_s"]
    rates = rates[["trial", "phase", "step", "value"]].astype({"phase": str})
    wanted = rows[[*places, "step", "free_step"]].astype({"phase": str})
    slowed = rates.merge(tables.trials[["trial", *tables.results.factors]], on="trial")
    slowed = slowed.merge(wanted, on=[*places, "step"])
    free = rates.rename(columns={"step": "free_step", "value": "free"})
    both = slowed.merge(free, on=["trial", "phase", "free_step"])
    return both.assign(value=both["value"] / both["free"], **{WITH: ""})[COLUMNS]


def setup(tables: Tables) -> Criterion | None:
    """From the start of the last server's job to a formed cluster with its tables, in s: how long
    the jobs waited in a queue says nothing of the store. Embedded stores need none."""
    rows = of_measure(tables, SETUP)
    if rows.empty:
        return None
    alone = tables.trials[[embedded(str(name)) for name in tables.trials["engine"]]]
    alone = alone[~alone["engine"].isin([BASELINE, CEILING])]
    none: dict[str, Any] = {"mean": 0.0, "n": 1, SOURCE_ROW: "", NOTE: "no servers are needed"}
    levels = alone[list(tables.results.factors)].drop_duplicates().assign(**none)
    one = named("setup", tables, rows, about="without waiting in queues")
    values = pd.concat([one.values, alone[["trial"]].assign(value=0.0, **{WITH: ""})])
    return replace(one, rows=pd.concat([rows, levels], ignore_index=True), values=values)


def cost(tables: Tables) -> Criterion | None:
    """Money, or hours of hosts where there are no prices, per million documents loaded; of studies
    that load nothing per million operations of their first phase."""
    table = tables.judged.get("costs")
    if table is None or table.empty:
        return None
    rows = with_source(table)
    # Of a database that was there already nobody knows what its hosts cost.
    rows = rows[
        ~rows["paced"].astype(bool)
        & (rows["engine"] != BASELINE)
        & ~rows["engine"].map(lambda name: external(str(name)))
    ]
    for measure in ("money_per_million", "host_hours_per_million"):
        costs = rows[rows["measure"] == measure]
        for phase in tables.phases_of(costs)[:1]:
            costs = costs[costs["phase"] == phase]
            about = [f"phase {phase}"]
            if costs[NOTE].nunique() == 1:
                # One list of prices is named once, not with every figure.
                about += [str(text) for text in costs[NOTE].unique() if text]
                costs = costs.assign(**{NOTE: ""})
            unit = str(costs["unit"].iloc[0])
            return named(
                "cost",
                tables,
                costs,
                unit=unit,
                about="; ".join(about),
                table="costs",
                counts=measure == "money_per_million" or _hosts_differ(costs),
                values=_costs_of_trials(tables, costs),
            )
    return None


def _costs_of_trials(tables: Tables, costs: pd.DataFrame) -> pd.DataFrame:
    """A trial's cost: that of its setting, turned over by its own rate."""
    rates = headline_rates(tables, tables.rates)
    places = [*tables.results.factors, "phase", "step"]
    both = rates[[*places, "measure", "mean"]].merge(
        costs[[*places, "mean"]].rename(columns={"mean": "cost"}), on=places
    )
    table = tables.throughput.merge(tables.trials[["trial", *tables.results.factors]], on="trial")
    table = table.merge(both, on=[*places, "measure"])
    values = table["cost"] * table["mean"] / table["value"]
    return table.assign(value=values, **{WITH: ""})[COLUMNS]


def _hosts_differ(costs: pd.DataFrame) -> bool:
    """Whether stores are paid different numbers of hosts: with equal ones the cost is the rate,
    turned over, and would count it twice."""
    costs = costs[costs["basis"] == AS_PLACED]  # on one machine all share it
    hosts = costs["nodes_paid"] + costs["clients_paid"]
    return hosts.groupby(costs["engine"]).unique().map(lambda n: tuple(sorted(n))).nunique() > 1
