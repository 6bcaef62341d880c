"""Which store to take, in words that the figures carry.

Per criterion every choice stands with its best measured configuration. Choices whose 95 %
intervals overlap that of the best are named together: there is no winner among them. Steps at a
target rate rank no store; a search's answer does (`storewise.analysis.comparable`). The null
engine is the client's ceiling and never a choice; choices with failed trials or with lost or
wrong documents are set aside and said to be. Reading the input files again (engine ``files``) is
the baseline: it stands first at each criterion, leads none, and has nothing to load.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pandas as pd

from storewise.analysis import comparable
from storewise.analysis.breakeven import times_asked
from storewise.analysis.choices import label, varying_promises
from storewise.analysis.engines import BASELINE, CEILING, title, varying_factors
from storewise.analysis.frames import missing, records
from storewise.analysis.resample import Estimate
from storewise.analysis.scaling import as_estimate
from storewise.analysis.tables import Tables
from storewise.analysis.text import all_of, number, setting
from storewise.analysis.verification import wrong_trials

SPACE = "space on disk"
#: Loads, reads and disk; each is (name, title, unit, whether more is better).
_CRITERIA = (
    ("write", "loading", "documents/s", True),
    ("read", "reading", "documents/s", True),
    ("disk", SPACE, "B/document", False),
)
#: Of studies that have such a phase.
_ASKING = ("query", "asking", "questions/s", True)


@dataclass(frozen=True, slots=True)
class Standing:
    """One choice at one criterion; `topology` ("2 nodes") and `where` are the rest of its
    configuration in words."""

    label: str
    topology: str
    where: str
    estimate: Estimate
    leads: bool
    baseline: bool = False
    """It is no store, but what a user has without one."""

    @property
    def shown(self) -> str:
        """The choice with the shape of its cluster, where that matters."""
        return f"{self.label} on {self.topology}" if self.topology else self.label


@dataclass(frozen=True, slots=True)
class Criterion:
    """One criterion with the choices from best to worst and the sentence about it."""

    name: str
    title: str
    unit: str
    standings: Sequence[Standing]
    sentence: str

    @property
    def stores(self) -> Sequence[Standing]:
        """All but the baseline."""
        return [s for s in self.standings if not s.baseline]

    @property
    def leaders(self) -> tuple[str, ...]:
        return tuple(s.label for s in self.standings if s.leads)


@dataclass(frozen=True, slots=True)
class Verdict:
    """`finding` is one line; `text` are the sentences behind it."""

    finding: str
    text: Sequence[str]
    criteria: Sequence[Criterion]
    set_aside: Sequence[tuple[str, str]]
    """Choices that are not recommended, with the reason."""
    pays: Mapping[str, float]
    """Choice -> fewest questions from which on it pays against reading the files again; inf is
    never. Empty without engine ``files``."""


def verdict(tables: Tables) -> Verdict:
    """The verdict on a study's tables."""
    factors = tables.results.factors
    promises = varying_promises(tables.results.trials, factors)
    aside = _set_aside(tables, promises)
    criteria = []
    asked = "query" in set(tables.summary["phase"])
    wanted = [*_CRITERIA, *([_ASKING] if asked else [])]
    own = _own_phases(tables)
    if own:
        # Of a workload with phases of its own each is a criterion.
        wanted = [c for c in wanted if c[0] != "read"]
        paced = comparable.open_phases(tables.steps)
        wanted[1:1] = [
            (f"phase {name}", f"phase {name}", "operations/s", True)
            for name in own
            if name not in paced
        ] + [
            (f"highest {phase}: {limit}", f"phase {phase} with {limit}", "operations/s", True)
            for phase, limit in comparable.limits(tables.highest_rates, tables.searches)
        ]
    for name, heading, unit, more in wanted:
        rows = _rows(tables, name)
        standings = _standings(rows, factors, promises, aside, more=more)
        if any(not s.baseline for s in standings):
            criteria.append(
                Criterion(name, heading, unit, standings, _sentence(heading, unit, standings, more))
            )
    what = "this workload" if own else "these inputs"
    finding = f"For {what}, on this machine: " + _finding(criteria)
    text = [c.sentence for c in criteria]
    text += [
        f"Nothing was measured about {h}."
        for n, h, _, _ in wanted
        if n not in {c.name for c in criteria}
    ]
    text += comparable.sentences(own, tables.steps, tables.searches, tables.results.trials)
    asked_for = _asked(tables, promises, aside)
    text += _pays(asked_for)
    text += [f"{label} is set aside: {reason}." for label, reason in sorted(aside.items())]
    soonest = {name: min(kinds.values()) for name, kinds in asked_for.items()}
    return Verdict(finding, text, criteria, sorted(aside.items()), soonest)


def _set_aside(tables: Tables, promises: Sequence[str]) -> dict[str, str]:
    aside: dict[str, str] = {}
    trials = tables.results.trials
    wrong = wrong_trials(tables.verification)
    for row in records(trials[trials["trial"].isin(wrong)]):
        aside[label(row, promises)] = "its store did not hold all that was written to it"
    failed: dict[str, list[str]] = {}
    for one in tables.results.failed:
        if "engine" in one.factors:
            failed.setdefault(label(one.factors, promises), []).append(one.reason)
    for name, reasons in failed.items():
        aside[name] = f"{len(reasons)} of its trials failed ({reasons[0].rstrip('.')})"
    aside.pop(title(CEILING), None)
    return aside


def _rows(tables: Tables, criterion: str) -> pd.DataFrame:
    """Means over repeats that speak for a criterion."""
    summary = tables.summary
    if criterion == "disk":
        found = tables.storage_summary
        return found[found["measure"] == "bytes_per_document"]
    if criterion == "query":
        mine = (summary["measure"] == "operations_per_s") & (summary["phase"] == "query")
        return summary[mine]
    if criterion.startswith("phase "):
        mine = (summary["measure"] == "operations_per_s") & (summary["phase"] == criterion[6:])
        return comparable.closed_steps(summary[mine], tables.steps)
    if criterion.startswith("highest "):
        phase, limit = criterion.removeprefix("highest ").split(": ", 1)
        return comparable.answers(tables.highest_rates, phase, limit)
    loads = _loads(summary)
    rows = summary[summary["measure"] == "documents_per_s"]
    if criterion == "read":
        return comparable.closed_steps(rows[rows["phase"] == "read"], tables.steps)
    # The files themselves need no load: what was timed is their parsing.
    rows = rows[rows["phase"].isin(loads)]
    return rows[rows["engine"] != BASELINE] if len(rows) else rows


def _loads(summary: pd.DataFrame) -> set[str]:
    return set(summary.loc[summary["measure"] == "insert_documents_per_s", "phase"])


def _own_phases(tables: Tables) -> list[str]:
    """Phases after the load of a workload other than the study's own, in their order."""
    if tables.results.study.get("workload", "alignments") == "alignments":
        return []
    summary = tables.summary
    loads = _loads(summary)
    return [name for name in tables.phases_of(summary) if name not in loads]


def _standings(
    rows: pd.DataFrame,
    factors: Sequence[str],
    promises: Sequence[str],
    aside: Mapping[str, str],
    *,
    more: bool,
) -> list[Standing]:
    best: dict[str, dict[str, Any]] = {}
    for row in records(rows):
        name = label(row, promises)
        if row["engine"] == CEILING or name in aside or not row["mean"] > 0:
            continue
        if name not in best or _better(row["mean"], best[name]["mean"], more):
            best[name] = row
    varying = [f for f in varying_factors(rows, factors) if f not in promises]
    told = comparable.WITH in rows
    varying += ["step"] if not told and "step" in rows and rows["step"].nunique() > 1 else []
    ranked = sorted(best.items(), key=lambda item: item[1]["mean"], reverse=more)
    base = [(name, row) for name, row in ranked if row["engine"] == BASELINE]
    ranked = [(name, row) for name, row in ranked if row["engine"] != BASELINE]
    first = as_estimate(ranked[0][1]) if ranked else None
    return [
        Standing(
            name,
            setting(row, _shape(row, varying)),
            ", ".join(
                words
                for words in (
                    setting(row, [f for f in varying if f not in _SHAPE]),
                    row.get(comparable.WITH, ""),
                )
                if words
            ),
            estimate := as_estimate(row),
            row["engine"] != BASELINE and first is not None and estimate.overlaps(first),
            row["engine"] == BASELINE,
        )
        for name, row in [*base[:1], *ranked]
    ]


#: Factors that give a cluster its shape and are named with the choice.
_SHAPE = ("nodes", "replicas")


def _shape(row: Mapping[str, Any], varying: Sequence[str]) -> list[str]:
    """Those that vary, or that make it more than a single server."""
    there = [f for f in _SHAPE if f in row and not missing(row[f])]
    return [f for f in there if f in varying or row[f] > 1]


def _better(one: float, other: float, more: bool) -> bool:
    return one > other if more else one < other


def figure(standing: Standing, unit: str) -> str:
    """A standing's mean and interval in words."""
    e = standing.estimate
    text = f"{number(e.mean)} {unit}"
    inside = []
    if e.resampled != "none" and e.high > e.low:
        basis = "" if e.resampled in ("repeats", "pooled") else ", from the seconds of one run"
        inside.append(f"95 % interval {number(e.low)} to {number(e.high)}{basis}")
    if standing.where:
        inside.append(f"with {standing.where}")
    return f"{text} ({'; '.join(inside)})" if inside else text


def _sentence(heading: str, unit: str, standings: Sequence[Standing], more: bool) -> str:
    base = [s for s in standings if s.baseline]
    standings = [s for s in standings if not s.baseline]
    leaders = [s for s in standings if s.leads]
    rest = [s for s in standings if not s.leads]
    without = "".join(f" Without any store ({s.label}): {figure(s, unit)}." for s in base)
    start = heading.capitalize()
    best = leaders[0]
    superlative = "fastest" if more else "smallest"
    if len(standings) == 1:
        return f"{start}: only {best.shown} can be judged: {figure(best, unit)}.{without}"
    if len(leaders) > 1:
        listed = "; ".join(f"{s.shown} {figure(s, unit)}" for s in leaders)
        why = (
            "their intervals overlap"
            if all(s.estimate.known() for s in leaders)
            else "a single short run has no interval"
        )
        text = (
            f"{start}: {all_of([s.label for s in leaders])} cannot be told apart ({why}): {listed}."
        )
    else:
        text = f"{start}: {superlative} was {best.shown}, {figure(best, unit)}."
    if rest:
        times = _times(best.estimate.mean, rest[0].estimate.mean, "fast" if more else "large")
        subject = "the best" if more else "it"
        text += f" Next: {rest[0].shown}, {figure(rest[0], unit)}; {subject} is {times}."
    return text + without


def _asked(
    tables: Tables, promises: Sequence[str], aside: Mapping[str, str]
) -> dict[str, dict[str, float]]:
    """Per choice and kind of question, how many it takes until its best configuration pays."""
    found: dict[str, dict[str, float]] = {}
    for row in records(tables.breakeven):
        name = label(row, promises)
        if name not in aside:
            own = found.setdefault(name, {})
            own[row["operation"]] = min(own.get(row["operation"], math.inf), row["mean"])
    return found


def _pays(found: Mapping[str, Mapping[str, float]]) -> list[str]:
    """From how many questions on each store pays, a sentence each, the soonest first."""
    files = title(BASELINE)
    text = []
    for name, kinds in sorted(found.items(), key=lambda item: (min(item[1].values()), item[0])):
        paying = {k: n for k, n in kinds.items() if math.isfinite(n)}
        never = [k for k, n in kinds.items() if not math.isfinite(n)]
        if not paying:
            text.append(f"Against {files}, {name} never pays for its load: no question is faster.")
            continue
        soon, late = min(paying, key=paying.__getitem__), max(paying, key=paying.__getitem__)
        first = times_asked(paying[soon])
        one = f"{'the first question' if first == '1' else f'{first} questions'} on ({soon})"
        more = f" to {times_asked(paying[late])} ({late})" if late != soon else ""
        no = f"; never for {all_of(never, 'or')}" if never else ""
        text.append(
            f"Against {files}, {name} pays for its load from {one}{more}, by the kind of "
            f"question{no}."
        )
    return text


def _times(a: float, b: float, adjective: str) -> str:
    factor = max(a, b) / min(a, b)
    if factor >= 2:
        return f"{number(factor)} times as {adjective}"
    return f"{(factor - 1) * 100:.0f} % {adjective.removesuffix('e')}er"


def _finding(criteria: Sequence[Criterion]) -> str:
    if not criteria:
        return "no store can be judged, because no store has results that count."
    labels = {s.label for c in criteria for s in c.stores}
    if len(labels) == 1:
        (only,) = labels
        numbers = _numbers(criteria, only)
        return f"only {only} can be judged, because no other store has results: {numbers}."
    common = set.intersection(*(set(c.leaders) for c in criteria))
    order = [name for name in criteria[0].leaders if name in common]
    if len(order) == 1:
        (name,) = order
        shared = [c.title for c in criteria if len(c.leaders) > 1]
        clear = [c.title for c in criteria if len(c.leaders) == 1 and len(c.stores) > 1]
        known = all(s.estimate.known() for c in criteria for s in c.standings if s.leads)
        if clear == [SPACE] and not known:
            # Space alone decides nothing where nobody knows how fast the stores are.
            return (
                f"no store can be recommended: in {all_of(shared)} none is clearly better, because "
                "single short runs have no intervals (set `repeats: 3` or more); "
                f"{name} takes the least space ({_numbers(criteria, name)})."
            )
        parts = []
        if clear:
            parts.append(f"it leads in {all_of(clear)}")
        if shared:
            parts.append(f"no store is clearly better in {all_of(shared)}")
        why = f"{' and '.join(parts)} ({_numbers(criteria, name)})"
        return f"take {_named(criteria, name)}, because {why}."
    if len(order) > 1:
        known = all(s.estimate.known() for c in criteria for s in c.standings if s.leads)
        why = (
            "their intervals overlap"
            if known
            else "single short runs have no intervals (set `repeats: 3` or more)"
        )
        more = " and they lead the others" if len(order) < len(labels) else ""
        return f"{all_of(order)} cannot be told apart, because {why}{more}."
    by_leaders: dict[tuple[str, ...], list[str]] = {}
    for criterion in criteria:
        best = criterion.stores[0].estimate.mean
        leaders = tuple(sorted(s.shown for s in criterion.standings if s.leads))
        by_leaders.setdefault(leaders, []).append(
            f"{criterion.title} ({number(best)} {criterion.unit})"
        )
    choices = [f"{all_of(who, 'or')} for {all_of(what)}" for who, what in by_leaders.items()]
    return f"{', and '.join(choices)}, because no store leads in everything."


def _named(criteria: Sequence[Criterion], name: str) -> str:
    """A choice with its topology, where it was the same one that was best in everything."""
    shown = {s.shown for c in criteria for s in c.standings if s.label == name}
    return shown.pop() if len(shown) == 1 else name


def _numbers(criteria: Sequence[Criterion], name: str) -> str:
    found = [
        f"{c.title} {number(s.estimate.mean)} {c.unit}"
        for c in criteria
        for s in c.standings
        if s.label == name
    ]
    return ", ".join(found)
