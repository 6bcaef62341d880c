"""Which store, how sure: one score for each store and round, and one rule.

A store's score in a round is the weighted sum of the logarithms of its figures, greater is better:
the weighted product of multiple-criteria decisions (Triantaphyllou, *Multi-criteria Decision Making
Methods*, 2000, section 2.2.2). So figures of one trial may err together, counts have no error, and
units are nothing. `standing` says which deployment a store is judged with, `model` how far scores
are off.

"Take X" where X is shown to be better than every other store, each by a test of its own, and at
least 1.2 times as good. Else "A or B", without the stores that are at least 1.2 times behind and
shown to be worse by Tukey's range, a test of all gaps together. How sure: whichever of the named
one takes, how likely it is that no other store is more than 1.2 times as good.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
import pandas as pd
from scipy import stats
from scipy.special import stdtr

from storewise.analysis.common.engines import BASELINE, CEILING
from storewise.analysis.decision.model import ROUNDING, WORTH, Fit, Floats, fit, student, tukey
from storewise.analysis.decision.standing import Criterion, Field, gather

#: Least chance that no store is more than WORTH times as good as the one that is taken.
SURE = {"good": 0.95, "fair": 0.80, "low": 0.0}
SHORT, BUSY = "Phases of less than 5 s: {}.", "Other work was on the hosts."
SINGLE = "Single rounds do not tell how far scores are off."


@dataclass(frozen=True, slots=True)
class Conditions:
    """What scores do not show."""

    other_work: bool = False
    """Whether anything else was at work on the hosts."""
    crashes: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    """Store -> crashes that lost acknowledged documents, and all its crashes."""
    failed: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    """Store -> trials that failed by its own fault, and all its trials."""
    no_stores: Sequence[str] = (BASELINE, CEILING)
    """What is measured beside the stores: no part of the error, and never recommended."""


@dataclass(frozen=True, slots=True)
class Decision:
    """The answer. Frames are by store, `table` and `clients` from the best score down."""

    sentence: str
    sure: str
    """good, fair, low."""
    reasons: Sequence[str]
    table: pd.DataFrame
    """score (ratio to the best), low, high (95 % interval of that ratio; nan for the best, and
    where only counts are judged), chance (that no other store is more than 1.2 times as good),
    named, n (rounds), deployment."""
    clients: pd.DataFrame
    """By criterion: the number of clients that the store stands with."""
    aside: Mapping[str, str]
    """Store -> why it is not judged."""
    crashes: pd.DataFrame
    """lost, of, p (against the first row, the best if it has crashes: Fisher's exact test)."""
    rounds: pd.DataFrame
    """(store, round) x criterion: natural logarithms, greater is better. Their sums with weights
    that sum to 1 are the scores."""
    t: pd.DataFrame
    """Best x other store: the standard errors that a gap must exceed for "Take X"."""
    tukey: pd.DataFrame
    """The same for leaving the other store out of "A or B", if it is above `t`."""


@dataclass(frozen=True, slots=True)
class Judgement:
    """What `judge` says of k stores, in their order."""

    fit: Fit
    best: int
    named: npt.NDArray[np.bool_]
    chance: Floats
    """(k,): that the likeliest better store is at most WORTH times as good; nan if not known."""
    sure: str


def judge(scores: Floats, tries: Sequence[int] = (), *, counts: bool = False) -> Judgement:
    """The rule, of scores (k stores x rounds, natural logarithms, nan where there is none).

    `tries` are the settings that each store could choose from (1). Of `counts` alone there is no
    error: scores are the same in all rounds. Without repeats nothing is told apart.
    """
    k, found = len(scores), fit(scores)
    if counts:
        found = Fit(found.mean, found.gap, 0 * found.gap, 0 * found.mean, np.full(k, np.inf), 0.0)
    best = int(found.mean.argmax())
    t, q = critical(found, best, tries[best] if tries else 1)
    behind = found.gap[best] >= np.log(WORTH) - ROUNDING
    named = ~(behind & (found.gap[best] > t * found.error[best]))
    if named.sum() > 1:
        named = ~(behind & (found.gap[best] > np.maximum(t, q) * found.error[best]))
    freedom = np.minimum(found.freedom[:, None], found.freedom)
    distance = (np.log(WORTH) + ROUNDING + found.gap) / np.maximum(found.error, ROUNDING)
    within = stdtr(np.where(freedom > 0, freedom, np.nan), distance)
    others = ~np.eye(k, dtype=bool)
    chance = within.min(axis=1, where=others, initial=1.0) if k > 1 else np.full(1, np.nan)
    least = chance[named].min()
    sure = next((name for name, needed in SURE.items() if least >= needed), "low")
    return Judgement(found, best, named, chance, sure)


def critical(found: Fit, best: int, tries: int) -> tuple[Floats, Floats]:
    """(k,) twice: the standard errors that the best store's gap to each other must exceed, by
    Student's t and by Tukey's range. nan where nothing was repeated."""
    freedom = [min(f, found.freedom[best]) for f in found.freedom.tolist()]
    k = len(freedom)
    if k == 1 or min(freedom) == 0:
        return np.full(k, np.nan), np.full(k, np.nan)
    return (
        np.array([student(f, tries) for f in freedom]),
        np.array([tukey(f, tries, k) for f in freedom]),
    )


def decide(
    measures: pd.DataFrame,
    criteria: Mapping[str, Criterion],
    conditions: Conditions | None = None,
) -> Decision:
    """Which store to take.

    `measures` has a row per trial and criterion: store, criterion, round, value (in any unit, the
    same for all stores; nan: not measured), where they were varied clients and volume (a share of
    all data), and each other factor, which is part of the deployment. The order of rows is nothing.
    """
    conditions = conditions or Conditions()
    failures = {store: counts for store, counts in conditions.failed.items() if counts[0] > 0}
    field = gather(
        measures[~measures["store"].isin(list(conditions.no_stores))],
        criteria,
        {s: f"{k} of {n} trials failed by its own fault" for s, (k, n) in failures.items()},
    )
    stores = list(field.stores)
    standing = list(field.stores.values())
    tries = [one.tries for one in standing]
    scores = np.array([list(field.weights.values()) @ one.parts for one in standing])
    n = [int((~np.isnan(row)).sum()) for row in scores]
    counts = all(criteria[name].counted for name in field.weights)
    caps = _caps(field, criteria, conditions, single=not counts and max(n, default=2) < 2)
    reasons = [*caps, *field.notes, *(f"{s} is not judged: {w}." for s, w in field.aside.items())]
    if not stores:
        return _none(field, conditions, reasons)
    found = judge(scores, tries, counts=counts)
    each = [critical(found.fit, i, tries[i]) for i in range(len(stores))]
    ratio = -found.fit.gap[found.best]
    half = np.where(ratio < 0, each[found.best][0] * found.fit.error[found.best], np.nan)
    half = np.full_like(half, np.nan) if counts else half
    columns = {
        "score": np.exp(ratio),
        "low": np.exp(ratio - half),
        "high": np.exp(ratio + half),
        "chance": found.chance,
        "named": found.named,
        "n": n,
        "deployment": [one.deployment for one in standing],
    }
    table = pd.DataFrame(columns, index=pd.Index(stores, name="store"))
    table = table.sort_values("score", ascending=False, kind="stable")
    named = [str(store) for store in table.index[table["named"]]]
    if not table["chance"].isna().any():
        least = np.floor(1000 * table.loc[named, "chance"].min()) / 10
        reasons.insert(0, f"The chance that no store is over 1.2 times as good: {least:g} %.")
    crashes = _crashes(conditions, named[0])
    parts = {s: pd.DataFrame(one.parts.T, field.rounds) for s, one in field.stores.items()}
    rounds = pd.concat(parts, names=["store", "round"]).set_axis(list(field.weights), axis=1)
    return Decision(
        sentence=_sentence(named, field, crashes),
        sure=max([found.sure, *caps.values()], key=list(SURE).index),
        reasons=reasons,
        table=table,
        clients=pd.DataFrame([one.clients for one in standing], stores).loc[table.index],
        aside=field.aside,
        crashes=crashes,
        rounds=rounds.dropna(),
        t=pd.DataFrame([t for t, _ in each], stores, stores),
        tukey=pd.DataFrame([q for _, q in each], stores, stores),
    )


def _none(field: Field, conditions: Conditions, reasons: Sequence[str]) -> Decision:
    none, crashes = pd.DataFrame(index=pd.Index([], name="store")), _crashes(conditions, "")
    answer = _sentence([], field, crashes)
    return Decision(
        answer, "low", reasons, none, none, field.aside, crashes, none, t=none, tukey=none
    )


def _caps(
    field: Field, criteria: Mapping[str, Criterion], conditions: Conditions, *, single: bool
) -> dict[str, str]:
    """Sentence -> the surest that it lets a decision be."""
    short = [name for name in field.weights if criteria[name].short]
    caps = {
        SHORT.format(", ".join(short)): "fair" if short else "",
        BUSY: "low" if conditions.other_work else "",
        SINGLE: "low" if single else "",
    }
    return {words: cap for words, cap in caps.items() if cap}


def _crashes(conditions: Conditions, best: str) -> pd.DataFrame:
    known = {s: counts for s, counts in conditions.crashes.items() if counts[1] > 0}
    order = sorted(known, key=lambda store: (store != best, store))
    rows: list[tuple[int, int, float]] = []
    for store in order:
        pair = [[k, n - k] for k, n in (known[order[0]], known[store])]
        rows.append((*known[store], stats.fisher_exact(pair).pvalue if rows else np.nan))
    return pd.DataFrame(rows, pd.Index(order, name="store"), ["lost", "of", "p"])


def _sentence(named: Sequence[str], field: Field, crashes: pd.DataFrame) -> str:
    """The answer, with the deployment of a store that had several, and losses as a condition."""
    standing = [(store, field.stores[store]) for store in named]
    words = [f"{s} ({one.deployment})" if one.several else s for s, one in standing]
    if not words:
        answer = "No store can be judged."
    elif len(field.stores) == 1:
        answer = f"Only {words[0]} can be judged."
    elif len(words) == 1:
        answer = f"Take {words[0]}."
    else:
        answer = f"No store is clearly better: {' or '.join(words)}."
    if crashes.empty:
        return answer
    counts = zip(crashes.index, crashes["lost"], crashes["of"], strict=True)
    losses = [f"{store} in {lost} of {of}" for store, lost, of in counts]
    p = f" (Fisher's p = {crashes['p'].iloc[1]:.2g})" if len(crashes) == 2 else ""
    return f"{answer} Crashes that lost documents: {', '.join(losses)}{p}."
