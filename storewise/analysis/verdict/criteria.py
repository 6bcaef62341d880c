"""What was measured about each criterion: rows of the tables, one list per criterion.

Each criterion takes its figures from one table and hands out rows over repeats: factors, the
columns of an estimate (`n`, `mean`, `low`, `high`, `resampled`, `error`, `freedom`), `source_row`
(the rows of the table's CSV file, from 0: ``3`` or ``3-5,9``), `with` (what else was asked, in
words) and `note`. Which phase a criterion is measured in follows from the operations that the
phase has, not from its name. The null engine and trials at rates that the study set are left out.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import pandas as pd

from storewise.analysis.common.engines import BASELINE, CEILING, external
from storewise.analysis.common.frames import records
from storewise.analysis.judge import comparable_steps as comparable
from storewise.analysis.judge.headline_rates import headline_rates, loads
from storewise.analysis.measure.throughput import FINISH
from storewise.analysis.model.tables import Tables
from storewise.study.criteria import BY_KEY

ESTIMATE = ("n", "mean", "low", "high", "resampled", "error", "freedom")
#: Column of the rows' places in the CSV file of their table.
SOURCE_ROW = "source_row"
NOTE = "note"
#: Column by which the configuration of a choice is taken, where that is not the figure itself.
CHOSEN_BY = "chosen_by"
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
class Figures:
    """What was measured about one criterion; `about` says of what (phase, level), in words."""

    key: str
    title: str
    unit: str
    more: bool
    table: str
    rows: pd.DataFrame
    about: str = ""
    counts: bool = True
    """Whether it counts where the study has no weights: not where others say the same."""
    least: float = field(default=0.0)

    @property
    def heading(self) -> str:
        return f"{self.title} ({self.about})" if self.about else self.title


def named(key: str, table: str, rows: pd.DataFrame, *, unit: str = "", about: str = "") -> Figures:
    """The figures of one of the known criteria."""
    known = BY_KEY[key]
    return Figures(
        key,
        known.title,
        unit or known.unit,
        known.more,
        table,
        rows,
        about,
        least=known.least,
    )


def with_source(table: pd.DataFrame) -> pd.DataFrame:
    """A table whose rows know their places, without the null engine."""
    found = table.assign(**{SOURCE_ROW: [str(label) for label in table.index]})
    found[NOTE] = table.get(NOTE, "")
    return found[found["engine"] != CEILING] if "engine" in found else found


def rows_as_text(labels: Iterable[int]) -> str:
    """Places of rows with runs joined: ``3-5,9``."""
    runs: list[list[int]] = []
    for label in sorted(labels):
        if runs and label == runs[-1][1] + 1:
            runs[-1][1] = label
        else:
            runs.append([label, label])
    return ",".join(f"{a}" if a == b else f"{a}-{b}" for a, b in runs)


def operations(tables: Tables) -> dict[str, dict[str, float]]:
    """Phase -> operation -> its share of the phase's operations, by the histograms."""
    found = tables.latency_summary
    found = found[
        (found["time"] == "service")
        & (found["percentile"] == "p50")
        & (found["operation"] != FINISH)
        & ~found["engine"].isin([CEILING])
    ]
    shares: dict[str, dict[str, float]] = {}
    for row in records(found[["phase", "operation", "count"]]):
        mine = shares.setdefault(str(row["phase"]), {})
        mine[str(row["operation"])] = mine.get(str(row["operation"]), 0.0) + float(row["count"])
    return {
        phase: {name: count / sum(mine.values()) for name, count in mine.items()}
        for phase, mine in shares.items()
        if sum(mine.values()) > 0
    }


def phases_of_kinds(shares: dict[str, dict[str, float]], order: Sequence[str]) -> dict[str, str]:
    """Kind -> the phase that has most of it (at least SHARE), the first of equals."""
    found: dict[str, str] = {}
    for kind, names in KINDS.items():
        share = {
            phase: sum(part for name, part in shares.get(phase, {}).items() if name in names)
            for phase in order
        }
        best = max(share, key=share.__getitem__, default=None)
        if best is not None and share[best] >= SHARE:
            found[kind] = best
    return found


def rates(tables: Tables) -> list[Figures]:
    """Loading, reading, scanning and aggregation, and every other phase with a rate of its own."""
    found = with_source(headline_rates(tables, tables.summary))
    found = _client_bound(found, tables)
    order = tables.phases_of(found)
    of_load = [phase for phase in order if phase in loads(tables)]
    others = [phase for phase in order if phase not in of_load]
    shares = operations(tables)
    kinds = phases_of_kinds(shares, others)
    own = tables.results.study.get("workload", "alignments") != "alignments"
    figures = []
    for phase in order:
        rows = found[found["phase"] == phase]
        told = f"phase {phase}" if own else ""
        names = set(shares.get(phase, ()))
        if phase in of_load or names & _INSERTS:
            # The files themselves store nothing.
            rows = rows[rows["engine"] != BASELINE]
        if phase == next(iter(of_load), None):
            figures.append(named("load", "summary", rows, about=told))
            continue
        rows = comparable.closed_steps(rows, tables.steps)
        unit = next(iter(rows["unit"]), "operations/s")
        kind = next((kind for kind, mine in kinds.items() if mine == phase), None)
        if kind is not None:
            if names == {"get"}:
                unit = "documents/s"
            figures.append(named(kind, "summary", rows, unit=unit, about=told))
        elif names and names <= KINDS["scan"] | KINDS["aggregate"]:
            figures.append(Figures("query", "asking", "questions/s", True, "summary", rows))
        else:
            figures.append(
                Figures(f"phase {phase}", f"phase {phase}", str(unit), True, "summary", rows)
            )
    return figures


def _client_bound(rows: pd.DataFrame, tables: Tables) -> pd.DataFrame:
    """The rates with a note where the client limited any repeat."""
    bound = tables.client_bound
    if rows.empty or bound.empty:
        return rows
    factors = list(tables.results.factors)
    told = bound.merge(tables.trials[["trial", *factors]], on="trial")
    keys = {_place(row, factors) for row in records(told)}
    notes = [CLIENT_BOUND if _place(row, factors) in keys else "" for row in records(rows)]
    return rows.assign(**{NOTE: notes})


def _place(row: dict[str, object], factors: Sequence[str]) -> tuple[str, ...]:
    # As text: a level that some engines lack is a float in one table and an integer in another.
    levels = [row[f] for f in factors]
    told = [f"{v:g}" if isinstance(v, int | float) else str(v) for v in levels]
    return (*told, str(row["phase"]), str(row["step"]))


def highest_rates(tables: Tables) -> list[Figures]:
    """What searches found, per phase and limit."""
    found = with_source(tables.highest_rates)
    figures = []
    for phase, limit in comparable.limits(tables.highest_rates, tables.searches):
        rows = comparable.answers(found, phase, limit)
        name = f"phase {phase} with {limit}"
        figures.append(
            Figures(f"highest {phase}: {limit}", name, "operations/s", True, "highest_rates", rows)
        )
    return figures


def disk(tables: Tables) -> Figures:
    """Bytes per document at the end of the load."""
    rows = with_source(tables.storage_summary)
    return named("disk", "storage_summary", rows[rows["measure"] == "bytes_per_document"])


def cost(tables: Tables) -> Figures | None:
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
        mine = rows[rows["measure"] == measure]
        phase = next(iter(tables.phases_of(mine)), None)
        if phase is not None:
            mine = mine[mine["phase"] == phase]
            told = [f"phase {phase}"]
            if mine[NOTE].nunique() == 1:
                # One list of prices is told once, not with every figure.
                told += [str(text) for text in mine[NOTE].unique() if text]
                mine = mine.assign(**{NOTE: ""})
            return named(
                "cost",
                "costs",
                mine,
                unit=str(mine["unit"].iloc[0]),
                about="; ".join(told),
            )
    return None
