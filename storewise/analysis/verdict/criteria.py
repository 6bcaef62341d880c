"""What was measured about each criterion: rows of the tables, one list per criterion.

Each criterion takes its figures from one table and hands out rows over repeats: factors, ESTIMATE,
`source_row` (the rows of the table's CSV file, from 0: ``3`` or ``3-5,9``), `with` (what else is
particular about the step, in words) and `note`. Which phase a criterion is measured in follows from
the operations that the phase has, not from its name. The null engine and trials at rates that the
study set are left out.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import partial

import pandas as pd

from storewise.analysis.common.engines import BASELINE, CEILING, external
from storewise.analysis.common.frames import key_of, records
from storewise.analysis.common.text import count, number
from storewise.analysis.judge import comparable_steps as comparable
from storewise.analysis.judge.comparable_steps import headline_rates, loads
from storewise.analysis.judge.corpus import VOLUME, files_of_corpus
from storewise.analysis.judge.cost import AS_PLACED
from storewise.analysis.measure.throughput import FINISH
from storewise.analysis.model.columns import ALL
from storewise.analysis.model.tables import Tables
from storewise.analysis.stats.intervals import Estimate
from storewise.analysis.verdict.values import COLUMNS, of_rows
from storewise.study.criteria import BY_KEY

#: Column of the rows' places in the CSV file of their table.
SOURCE_ROW = "source_row"
NOTE = "note"
#: Column by which the configuration of a choice is taken, where that is not the figure itself.
CHOSEN_BY = "chosen_by"
#: Column: the number of operations that a rate was measured with, over all repeats.
FINISHED = "finished"
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


@dataclass(frozen=True, slots=True)
class Standing:
    """One store at one criterion; `where` is its deployment and its clients, in words. The interval
    is as wide as that of its ratio to the best store. `rank` is 1 for the best and what
    is not told apart from it, 2 for what is behind, 0 for the baseline and for a single run.
    `source_row` has the rows of the criterion's table behind it."""

    label: str
    where: str
    estimate: Estimate
    rank: int
    baseline: bool = False
    note: str = ""
    source_row: str = ""
    engine: str = ""
    finished: float = math.inf
    """Operations behind a rate, of all repeats."""

    @property
    def leads(self) -> bool:
        """Whether no other store was shown to be better."""
        return self.rank == 1

    @property
    def single(self) -> bool:
        """Whether it is judged by a single run, which says nothing of how runs differ."""
        return self.rank == 0 and not self.baseline


@dataclass(frozen=True, slots=True)
class Criterion:
    """What was measured about one criterion, and how the choices stand at it.

    `rows` come from the table `table`; `about` says of what (phase, level), in words. `standings`
    are the baseline, then the choices by rank and figure, `sentence` is about them, `weight` the
    criterion's share in the scores.
    """

    name: str
    title: str
    unit: str
    more: bool
    table: str
    rows: pd.DataFrame
    about: str = ""
    least: float = 0.0
    counts: bool = True
    """Whether it counts where the study has no weights: not where others say the same."""
    standings: Sequence[Standing] = ()
    sentence: str = ""
    weight: float = 0.0
    values: pd.DataFrame = field(default_factory=partial(pd.DataFrame, columns=COLUMNS))
    """What each trial gives (`values.COLUMNS`)."""

    @property
    def short(self) -> str:
        """The title over a narrow column."""
        return self.title.removeprefix("phase ")

    @property
    def heading(self) -> str:
        return f"{self.title} ({self.about})" if self.about else self.title

    @property
    def stores(self) -> Sequence[Standing]:
        """All but the baseline."""
        return [s for s in self.standings if not s.baseline]

    @property
    def leaders(self) -> tuple[str, ...]:
        return tuple(s.label for s in self.standings if s.leads)

    def of(self, choice: str) -> Standing | None:
        """The standing of a choice, if it has any."""
        return next((s for s in self.standings if s.label == choice), None)


def named(
    name: str, table: str, rows: pd.DataFrame, *, unit: str = "", about: str = ""
) -> Criterion:
    """One of the known criteria."""
    known = BY_KEY[name]
    unit = unit or known.unit
    return Criterion(name, known.title, unit, known.more, table, rows, about, known.least)


def with_source(table: pd.DataFrame) -> pd.DataFrame:
    """A table whose rows know their places, without the null engine."""
    placed = table.assign(**{SOURCE_ROW: [str(label) for label in table.index]})
    placed[NOTE] = table.get(NOTE, "")
    return placed[placed["engine"] != CEILING] if "engine" in placed else placed


def operations(tables: Tables) -> dict[str, dict[str, float]]:
    """Phase -> operation -> its share of the phase's operations, by the histograms."""
    counts = _counts(tables)
    counts = counts[counts["engine"] != CEILING]
    shares: dict[str, dict[str, float]] = {}
    for phase, group in counts.groupby("phase"):
        of_phase = group.groupby("operation", sort=False)["count"].sum()
        if of_phase.sum() > 0:
            total = of_phase.sum()
            shares[str(phase)] = {str(name): count / total for name, count in of_phase.items()}
    return shares


def _counts(tables: Tables) -> pd.DataFrame:
    """The number of operations (column `count`) by factors, phase, step and operation."""
    times = tables.summary
    times = times[(times["measure"] == "service_p50") & ~times["operation"].isin([ALL, FINISH])]
    return times.astype({"phase": str, "operation": str, "count": float})


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
    headlines = headline_rates(tables, tables.rates)
    every = _with_counts(_client_bound(with_source(headlines), tables), tables)
    order = tables.phases_of(every)
    loading = loads(tables.throughput)
    first_load = next((phase for phase in order if phase in loading), None)
    shares = operations(tables)
    kinds = phases_of_kinds(shares, [phase for phase in order if phase not in loading])
    name_phase = tables.results.study.get("workload", "alignments") != "alignments"
    trials_of = partial(of_rows, tables)
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
            one = named("load", "summary", rows, about=about)
            criteria.append(replace(one, values=trials_of(rows)))
            continue
        rows = comparable.closed_steps(rows)
        unit = str(next(iter(rows["unit"]), "operations/s"))
        kind = next((kind for kind, of_kind in kinds.items() if of_kind == phase), None)
        if kind is not None:
            unit = "documents/s" if names == {"get"} else unit
            criteria.append(named(kind, "summary", rows, unit=unit, about=about))
        elif names and names <= KINDS["scan"] | KINDS["aggregate"]:
            criteria.append(Criterion("query", "questions", "questions/s", True, "summary", rows))
        else:
            title = f"phase {phase}"
            criteria.append(Criterion(title, title, unit, True, "summary", rows))
        criteria[-1] = replace(criteria[-1], values=trials_of(rows))
    return criteria


def _client_bound(rows: pd.DataFrame, tables: Tables) -> pd.DataFrame:
    """The rates with a note where the client limited any repeat."""
    bound = tables.client_bound
    if rows.empty or bound.empty:
        return rows
    factors = list(tables.results.factors)
    settings = bound.merge(tables.trials[["trial", *factors]], on="trial")
    keys = {_place(row, factors) for row in records(settings)}
    notes = [CLIENT_BOUND if _place(row, factors) in keys else "" for row in records(rows)]
    return rows.assign(**{NOTE: notes})


def _with_counts(rows: pd.DataFrame, tables: Tables) -> pd.DataFrame:
    """The rates with the number of operations that each was measured with (`FINISHED`)."""
    factors = list(tables.results.factors)
    finished: dict[tuple[str, ...], float] = {}
    for row in records(_counts(tables)):
        place = _place(row, factors)
        finished[place] = finished.get(place, 0.0) + row["count"]
    counts = [finished.get(_place(row, factors), math.inf) for row in records(rows)]
    return rows.assign(**{FINISHED: counts})


def _place(row: dict[str, object], factors: Sequence[str]) -> tuple[str, ...]:
    # As text: a level that some engines lack is a float in one table and an integer in another.
    levels = [row[f] for f in factors]
    words = [f"{v:g}" if isinstance(v, int | float) else str(v) for v in levels]
    return (*words, str(row["phase"]), str(row["step"]))


def highest_rates(tables: Tables) -> list[Criterion]:
    """What searches found, per phase and limit."""
    every = with_source(tables.highest_rates)
    found = tables.searches.assign(value=tables.searches["rate"]).dropna(subset="value")
    criteria = []
    for phase, limit in comparable.limits(tables.highest_rates, tables.searches):
        rows = comparable.answers(every, phase, limit)
        keys = ["phase", "clients", "percentile", "limit_ms", "time"]
        criteria.append(
            Criterion(
                f"highest {phase}: {limit}",
                f"phase {phase} with {limit}",
                "operations/s",
                True,
                "highest_rates",
                rows,
                values=of_rows(tables, rows, found, keys),
            )
        )
    return criteria


def disk(tables: Tables) -> Criterion:
    """Bytes per document at the end of the load, of the data alone. Notes give the size of the
    servers' whole directories, and the number of documents from which on 90 % of it is data."""
    sizes = with_source(tables.storage_summary)
    rows = sizes[sizes["measure"] == "bytes_per_document"]
    keys = [*tables.results.factors, "phase", "step"]
    whole, least = (
        {key_of(row, keys): row["mean"] for row in records(sizes[sizes["measure"] == measure])}
        for measure in ("node_bytes_per_document", "holds_from")
    )
    notes = [
        f"its whole directories {number(whole[key])} B; 90 % of them is data from about "
        f"{count(float(f'{least[key]:.2g}'))} documents on"
        if key in whole and key in least
        else ""
        for key in (key_of(row, keys) for row in records(rows))
    ]
    one = named("disk", "summary", rows.assign(**{NOTE: notes}))
    return replace(one, values=of_rows(tables, rows))


def inodes(tables: Tables) -> Criterion:
    """Files and directories at the end of the load, of the largest volume: they are no share of the
    documents. Notes say how many metadata operations made them, and of the files themselves how
    many the full corpus has."""
    sizes = with_source(tables.storage_summary)
    if VOLUME in sizes:
        sizes = sizes[sizes[VOLUME] == sizes[VOLUME].max()]
    rows = sizes[sizes["measure"] == "inodes"]
    keys = [*tables.results.factors, "phase", "step"]
    operations = {
        key_of(row, keys): f"at least {count(row['mean'])} metadata operations in the load"
        for row in records(sizes[sizes["measure"] == "metadata_operations"])
    }
    files = files_of_corpus(tables)
    of_files = f"the full corpus has {files:,} files" if files is not None else ""
    notes = [
        of_files if row["engine"] == BASELINE else operations.get(key_of(row, keys), "")
        for row in records(rows)
    ]
    least = BY_KEY["inodes"].least
    about = f"fewer than {least:,.0f} count as that many"
    one = named("inodes", "summary", rows.assign(**{NOTE: notes}), about=about)
    return replace(one, values=of_rows(tables, rows))


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
            cost = named("cost", "costs", costs, unit=unit, about="; ".join(about))
            counts = measure == "money_per_million" or _hosts_differ(costs)
            return replace(cost, counts=counts, values=_costs_of_trials(tables, costs))
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
    return table.assign(value=values, **{comparable.WITH: ""})[COLUMNS]


def _hosts_differ(costs: pd.DataFrame) -> bool:
    """Whether stores are paid different numbers of hosts: with equal ones the cost is the rate,
    turned over, and would count it twice."""
    costs = costs[costs["basis"] == AS_PLACED]  # on one machine all share it
    hosts = costs["nodes_paid"] + costs["clients_paid"]
    return hosts.groupby(costs["engine"]).unique().map(lambda n: tuple(sorted(n))).nunique() > 1
