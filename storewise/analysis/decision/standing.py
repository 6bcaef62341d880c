"""With what a store stands: one deployment, at the largest volume that all stores have.

A deployment is all that a user sets up once (nodes, replicas, consistency, index, ...): every
column of the measures that has no other meaning. Only the number of clients may differ from
criterion to criterion. So the figures of one store could all be had together, of equal data.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from storewise.analysis.decision.model import Floats

#: Columns of the measures that are no factor of a deployment.
OTHER = ("store", "volume", "clients", "criterion", "round", "value")


@dataclass(frozen=True, slots=True)
class Criterion:
    """What a store is judged by: `weight` is its share in the score after division by the sum."""

    weight: float = 1.0
    more: bool = True
    """Whether more is better."""
    least: float = 0.0
    """Smaller values count as this, in the unit of the values."""
    counted: bool = False
    """Files, bytes: a count without error, of which the mean is taken as it is."""
    short: bool = False
    """Whether the phase that it was measured in took less than 5 s."""


@dataclass(frozen=True, slots=True)
class Standing:
    """One store in the deployment that it is judged with."""

    deployment: str
    clients: Mapping[str, str]
    """Criterion -> number of clients, at which the store does best."""
    parts: Floats
    """(criteria x rounds): natural logarithms, greater is better, nan in a round that lacks any."""
    n: int
    """Rounds that have all."""
    tries: int
    """Settings (deployments and numbers of clients) that it could choose from."""
    several: bool
    """Whether it was measured in several deployments."""


@dataclass(frozen=True, slots=True)
class Field:
    """The stores that are judged, at equal data and by the same criteria."""

    stores: dict[str, Standing]
    weights: dict[str, float]
    """Criterion -> its share in the score."""
    rounds: list[Any]
    """What the rounds are called: the columns of `Standing.parts`."""
    aside: dict[str, str]
    """Store -> why it is not judged."""
    notes: list[str]
    """What no store is judged by, and the volume that all are judged at."""


def level(value: Any) -> str:
    """A level of a factor in words; empty where a store does not have the factor."""
    if pd.isna(value):
        return ""
    return f"{value:.12g}" if isinstance(value, int | float | np.number) else str(value)


def at_common_volume(measures: pd.DataFrame, aside: dict[str, str]) -> tuple[pd.DataFrame, str]:
    """The measures at the largest volume that all stores have, and that volume in words.

    Where they have none in common it is the one that most stores have, the largest of such; the
    others are set `aside`. A store without a volume has all data (1).
    """
    if "volume" not in measures:
        return measures, ""
    volume = measures["volume"].astype(float).fillna(1.0)
    stores = measures.groupby(volume)["store"].nunique()
    chosen = max(stores.index, key=lambda one: (stores[one], one), default=1.0)
    at = measures[volume == chosen]
    for store in sorted(set(measures["store"]) - set(at["store"])):
        aside[store] = f"not measured at volume {chosen:g}"
    return at, f"{chosen:g}" if volume.nunique() > 1 else ""


def logarithms(measures: pd.DataFrame, criteria: Mapping[str, Criterion]) -> pd.DataFrame:
    """Rows (store, deployment, clients, criterion) x rounds: logarithms, greater is better.

    A setting with a value of 0, of which there is no ratio, is left out; so is one that is
    infinite. A count is its mean in all rounds.
    """
    factors = sorted(set(measures.columns) - set(OTHER))
    several = [name for name in factors if measures[name].nunique(dropna=False) > 1]
    levels = {name: measures[name].map(level) for name in several}
    places = zip(*levels.values(), strict=True) if several else [()] * len(measures)
    words = [", ".join(f"{a} {b}" for a, b in zip(several, p, strict=True) if b) for p in places]
    clients = measures["clients"].map(level) if "clients" in measures else ""
    known = measures["criterion"].map(criteria)
    values = measures["value"].astype(float)
    values = values.clip(lower=np.array([one.least for one in known]))
    with np.errstate(divide="ignore"):
        logs = np.log(values.mask(values <= 0, 0.0)) * [1 if one.more else -1 for one in known]
    keys = ["store", "deployment", "clients", "criterion"]
    table = measures[["store", "criterion", "round"]].assign(
        deployment=words, clients=clients, log=logs
    )
    wide = table.groupby([*keys, "round"])["log"].mean().unstack("round")
    finite = ~np.isinf(wide.to_numpy()).any(axis=1)
    wide = wide[finite].dropna(how="all")
    counted = [criteria[name].counted for name in wide.index.get_level_values("criterion")]
    means = wide.mean(axis=1).to_numpy()[:, None]
    filled = np.where(np.array(counted, dtype=bool)[:, None], means, wide.to_numpy())
    return pd.DataFrame(filled, wide.index, wide.columns)


def stand(rows: pd.DataFrame, criteria: Sequence[str], weights: Floats) -> Standing | None:
    """The best deployment of a store that has all criteria; None if it has none.

    A deployment of one round is taken only where there is no other: it may be the best by luck.
    """
    best, best_key = None, (False, -np.inf)
    tries = len({place[1:3] for place in rows.index})
    several = rows.index.get_level_values("deployment").nunique() > 1
    for deployment, group in rows.groupby(level="deployment"):
        of_deployment = group.droplevel(["store", "deployment"])
        chosen = of_deployment.mean(axis=1).groupby(level="criterion").idxmax()
        if not set(criteria) <= set(chosen.index):
            continue
        places = [chosen[name] for name in criteria]
        parts = of_deployment.loc[places].to_numpy()
        scores = weights @ parts
        rounds = int((~np.isnan(scores)).sum())
        if rounds and (key := (rounds > 1, float(np.nanmean(scores)))) > best_key:
            clients = {name: str(place[0]) for name, place in zip(criteria, places, strict=True)}
            parts = np.where(np.isnan(scores), np.nan, parts)
            best, best_key = Standing(str(deployment), clients, parts, rounds, tries, several), key
    return best


def gather(
    measures: pd.DataFrame, criteria: Mapping[str, Criterion], failed: Mapping[str, str]
) -> Field:
    """The field of measures of stores, without those that `failed` (store -> how).

    A criterion counts that two stores or more have, and a store that lacks one of these is set
    aside. If fewer than two were left, all are judged by the criteria that all have.
    """
    used = {name: one for name, one in criteria.items() if one.weight > 0}
    rows = measures["criterion"].isin(list(used)) & measures["value"].notna()
    aside = dict(failed)
    measures = measures[~measures["store"].isin(list(aside))]
    at, volume = at_common_volume(measures[rows], aside)
    logs = logarithms(at, used)
    of_store = {str(store): group for store, group in logs.groupby(level="store")}
    has = {s: set(group.index.get_level_values("criterion")) for s, group in of_store.items()}
    several = [c for c in used if sum(c in of for of in has.values()) >= min(2, len(has))]
    common = [c for c in used if all(c in of for of in has.values())]
    names, stores = several, stand_all(of_store, several, used)
    if len(stores) < 2 and common:
        names, stores = common, stand_all(of_store, common, used)
    measured = {name for name in names if not used[name].counted}
    rounds = {store: one.n for store, one in stores.items()}
    if measured and max(rounds.values(), default=0) > 1:
        # Of a store with one round nobody knows how far it is off.
        aside |= {store: "it has a single round" for store, n in rounds.items() if n == 1}
        stores = {store: one for store, one in stores.items() if rounds[store] > 1}
    for store in sorted(set(measures["store"]) - set(stores) - set(aside)):
        lacks = [c for c in names if c not in has.get(store, ())]
        aside[store] = f"it lacks {', '.join(lacks)}" if lacks else "no deployment has all criteria"
    notes = [f"Stores are judged at volume {volume}, the largest of all."] if volume else []
    for c in [c for c in used if c not in names]:
        have = [store for store in sorted(has) if c in has[store]]
        notes.append(f"No store is judged by {c}, which {' and '.join(have) or 'no store'} has.")
    return Field(stores, shares(names, used), list(logs.columns), aside, notes)


def shares(names: Sequence[str], criteria: Mapping[str, Criterion]) -> dict[str, float]:
    """Weights that sum to 1."""
    total = sum(criteria[name].weight for name in names)
    return {name: criteria[name].weight / total for name in names}


def stand_all(
    of_store: Mapping[str, pd.DataFrame], names: Sequence[str], criteria: Mapping[str, Criterion]
) -> dict[str, Standing]:
    """The stores that have all these criteria in one deployment."""
    weights = np.array(list(shares(names, criteria).values()))
    found = {store: stand(rows, names, weights) for store, rows in of_store.items() if names}
    return {store: one for store, one in found.items() if one is not None}
