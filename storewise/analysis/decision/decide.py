"""The choice of a store and its certainty: one score for each store and round, and one rule.

A store's score in a round is the weighted sum of the logarithms of its figures, greater is better:
the weighted product of multiple-criteria decisions (Triantaphyllou, *Multi-criteria Decision Making
Methods*, 2000, section 2.2.2). So units do not matter, and errors of one trial's figures may be
correlated. Counts have no error. `standing` picks each store's deployment, `model` gives the
errors.

"Take X" if X is at least 1.2 times as good as every other store and significantly better than
each, in separate tests. Else "A or B", without the stores that are at least 1.2 times worse and
significantly worse in a simultaneous test of all differences. The certainty follows from the
probability, for every named store, that no other store is more than 1.2 times as good.
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

#: Level -> least chance that no other store is more than WORTH times as good as the named one.
SURE = {"good": 0.95, "fair": 0.80, "low": 0.0}


@dataclass(frozen=True, slots=True)
class Conditions:
    """Facts about the measurement that scores do not show."""

    other_work: bool = False
    """Whether other work ran on the hosts."""
    crashes: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    """Store -> crashes that lost acknowledged documents, and all its crashes."""
    failed: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    """Store -> trials that failed by its own fault, and all its trials."""
    no_stores: Sequence[str] = (BASELINE, CEILING)
    """Engines that are no stores: left out of the error and never recommended."""


@dataclass(frozen=True, slots=True)
class Decision:
    """The decision. Frames are indexed by store, best score first; empty if no store is judged."""

    sentence: str
    sure: str
    """good, fair or low."""
    why: Sequence[str]
    """Reasons why `sure` is not higher, in short phrases."""
    reasons: Sequence[str]
    """Further remarks, as sentences."""
    aside: Mapping[str, str]
    """Store -> the reason why it is not judged."""
    chance: float = np.nan
    """The least chance, over the named stores, that no other is over 1.2 times as good."""
    table: pd.DataFrame = field(default_factory=pd.DataFrame)
    """score (ratio to the best), low, high (95 % interval of that ratio; nan for the best, and
    where only counts are judged), chance (that no other store is more than 1.2 times as good),
    named, n (rounds), deployment."""
    clients: pd.DataFrame = field(default_factory=pd.DataFrame)
    """Store x criterion: the number of clients at which the store is judged."""
    rounds: pd.DataFrame = field(default_factory=pd.DataFrame)
    """(store, round) x criterion: natural logarithms, greater is better. Their sums with weights
    that sum to 1 are the scores."""

    @property
    def named(self) -> list[str]:
        """The best store and those not significantly worse."""
        return [] if self.table.empty else list(map(str, self.table.index[self.table["named"]]))

    def deployed(self, rows: pd.DataFrame) -> pd.DataFrame:
        """The rows whose deployment is the one that their store is judged with."""
        if self.table.empty:
            return rows
        judged = rows["store"].map(self.table["deployment"].to_dict()).fillna(rows["deployment"])
        kept: pd.DataFrame = rows[rows["deployment"] == judged]
        return kept


@dataclass(frozen=True, slots=True)
class Judgement:
    """The result of `judge` for k stores, in the order of the scores' rows."""

    fit: Fit
    best: int
    named: npt.NDArray[np.bool_]
    chance: Floats
    """(k,): least chance that no other store is more than WORTH times as good; nan: unknown."""
    sure: str
    t: Floats
    """(k,): critical value: the best store is better than a store if its gap exceeds so many
    standard errors; nan without repeats."""


def judge(
    scores: Floats, k: int | None = None, tries: Sequence[int] = (), *, counts: bool = False
) -> Judgement:
    """Apply the rule to scores (settings x rounds, natural logarithms, nan if missing).

    The first `k` rows are the stores; `tries[i]` is the number of settings from which store i was
    chosen (default 1). `counts`: all scores are counts, which have no error. Without repeats no
    store is significantly better than another.
    """
    fitted = fit(scores, k)
    k = len(fitted.mean)
    if counts:
        fitted = Fit(fitted.mean, fitted.gap, 0 * fitted.gap, 0 * fitted.mean, np.full(k, np.inf))
    choices = np.array(tries or [1] * k)
    best = int(fitted.mean.round(9).argmax())  # the first of equal stores
    freedom = np.minimum(fitted.freedom[:, None], fitted.freedom)
    t = q = np.full(k, np.nan)
    if k > 1 and fitted.freedom.min() > 0:
        of_best = int(choices[best])
        t = np.array([student(df, of_best) for df in freedom[best].tolist()])
        q = np.maximum(t, [tukey(df, of_best, k) for df in freedom[best].tolist()])
    behind = fitted.gap[best] >= np.log(WORTH) - ROUNDING
    named = ~(behind & (fitted.gap[best] > t * fitted.error[best]))
    if named.sum() > 1:
        named = ~(behind & (fitted.gap[best] > q * fitted.error[best]))
    distance = (np.log(WORTH) + ROUNDING + fitted.gap) / np.maximum(fitted.error, ROUNDING)
    # The best of many settings looks better than it is (multiple comparisons).
    risk = choices[:, None] * stdtr(np.where(freedom > 0, freedom, np.nan), -distance)
    risk[np.diag_indices(k)] = 0.0
    chance = 1 - risk.max(axis=1).clip(max=1) if k > 1 else np.array([np.nan])
    least = chance[named].min()
    sure = next((name for name, needed in SURE.items() if least >= needed), "low")
    return Judgement(fitted, best, named, chance, sure, t)


def decide(
    measures: pd.DataFrame,
    criteria: Mapping[str, Criterion],
    conditions: Conditions | None = None,
) -> Decision:
    """Choose the store to take.

    `measures` has a row per trial and criterion: store, deployment and clients (text), volume
    (share of all data, 0 to 1; nan: all), criterion, round, value (in one unit for all stores; nan:
    not measured). The order of rows does not matter.
    """
    conditions = conditions or Conditions()
    of_stores = measures[~measures["store"].isin(list(conditions.no_stores))]
    fault = "{} of {} trials failed by its own fault"
    failed = {s: fault.format(*of) for s, of in conditions.failed.items() if of[0] > 0}
    field = gather(of_stores, criteria, failed)
    standing = list(field.stores.values())
    counts = all(criteria[name].counted for name in field.weights)
    caps = _caps(field, criteria, conditions, counts=counts)
    remarks = [*field.notes, *(f"{s} is not judged: {w}." for s, w in field.aside.items())]
    losses = _losses(conditions.crashes)
    if not standing:
        sentence = f"No store can be judged.{losses}"
        return Decision(sentence, "low", list(caps), remarks, field.aside)
    names = pd.Index(list(field.stores), name="store")
    weights = np.array(list(field.weights.values()))
    scores = np.array([weights @ one.parts for one in standing])
    rows = np.vstack([scores, *(one.others for one in standing)])
    judgement = judge(rows, len(standing), [one.tries for one in standing], counts=counts)
    best, measured, unpaired = names[judgement.best], ~np.isnan(scores), []
    if not counts:
        shared = (measured & measured[judgement.best]).any(axis=1)
        unpaired = [str(store) for store in names[~shared]]
    ratio = -judgement.fit.gap[judgement.best]
    half = judgement.t * judgement.fit.error[judgement.best] * (np.nan if counts else 1.0)
    half[judgement.best] = np.nan
    table = pd.DataFrame(
        {
            "score": np.exp(ratio),
            "low": np.exp(ratio - half),
            "high": np.exp(ratio + half),
            "chance": judgement.chance,
            "named": judgement.named,
            "n": (~np.isnan(scores)).sum(axis=1),
            "deployment": [one.deployment for one in standing],
        },
        index=names,
    ).sort_values("score", ascending=False, kind="stable", key=lambda score: score.round(9))
    chance = float(judgement.chance[judgement.named].min())
    doubts = {"differences may be chance": judgement.sure} if chance < SURE["good"] else {}
    if unpaired:
        doubts[f"measured in different runs: {best}, {', '.join(unpaired)}"] = "low"
    caps = doubts | caps
    at_least = "The chance that no other store is over 1.2 times as good: at least {:g} %."
    likely = [] if np.isnan(chance) else [at_least.format(np.floor(1000 * chance) / 10)]
    parts = {s: pd.DataFrame(one.parts.T, list(field.rounds)) for s, one in field.stores.items()}
    rounds = pd.concat(parts, names=["store", "round"]).set_axis(list(field.weights), axis=1)
    return Decision(
        _sentence(list(table.index[table["named"]]), field) + losses,
        max([judgement.sure, *caps.values()], key=list(SURE).index),
        list(caps),
        [*likely, *remarks],
        field.aside,
        chance,
        table,
        clients=pd.DataFrame([one.clients for one in standing], names).loc[table.index],
        rounds=rounds.dropna().loc[table.index],
    )


def _caps(
    field: Field, criteria: Mapping[str, Criterion], conditions: Conditions, *, counts: bool
) -> dict[str, str]:
    """Condition that scores do not show -> the highest certainty (`sure`) that it allows."""
    rounds = [(~np.isnan(one.parts[0])).sum() for one in field.stores.values()]
    caps = {}
    if not counts and rounds and max(rounds) == 1:
        caps["single runs"] = "low"
    if conditions.other_work:
        caps["other work on the hosts"] = "low"
    if short := [criteria[name].title or name for name in field.weights if criteria[name].short]:
        caps[f"phases shorter than 5 s: {', '.join(short)}"] = "fair"
    return caps


def _losses(crashes: Mapping[str, tuple[int, int]]) -> str:
    """Crashes with lost documents per store, as text; for two stores with p of the difference."""
    observed = [(store, k, n) for store, (k, n) in sorted(crashes.items()) if n > 0]
    words = ", ".join(f"{store} in {k} of {n}" for store, k, n in observed)
    if len(observed) == 2:
        p = float(stats.fisher_exact([[k, n - k] for _, k, n in observed]).pvalue)
        words += f" (Fisher's exact test: p = {p:.2g})"
    return f" Crashes that lost documents: {words}." if observed else ""


def _sentence(named: Sequence[str], field: Field) -> str:
    """The answer; a store with several deployments is named with the judged one."""
    standing = [(store, field.stores[store]) for store in named]
    words = [f"{s} ({one.deployment})" if one.several else s for s, one in standing]
    if len(field.stores) == 1:
        return f"Only {words[0]} can be judged."
    if len(words) == 1:
        return f"Take {words[0]}."
    return f"No store is clearly better: {' or '.join(words)}."
