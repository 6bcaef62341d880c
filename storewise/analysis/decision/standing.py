"""With what a store stands: one deployment, at the largest volume that all stores have.

A deployment is all that a user sets up once (nodes, replicas, consistency, index, ...): every
column of the measures that has no other meaning. Only the number of clients may differ from
criterion to criterion. So the figures of one store could all be had together, of equal data.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
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
    tries: int
    """Settings (deployments and numbers of clients) that it could choose from."""


@dataclass(slots=True)
class Field:
    """All stores at equal data. `aside` says why a store is not judged."""

    volume: str
    criteria: list[str]
    """Those that stores are judged by, with a weight above 0."""
    lacking: list[str] = field(default_factory=list)
    """Criteria with a weight by which no two stores can be judged."""
    stores: dict[str, Standing] = field(default_factory=dict)
    aside: dict[str, str] = field(default_factory=dict)
    rest: dict[str, list[str]] = field(default_factory=dict)
    """Store that lacks criteria -> those that it has."""


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
    wide = wide[np.isfinite(wide.fillna(0)).all(axis=1) & wide.notna().any(axis=1)]
    counted = wide.index.get_level_values("criterion").map(lambda name: criteria[name].counted)
    means = wide.mean(axis=1).to_numpy()[:, None]
    return wide.where(~np.asarray(counted, bool)[:, None], np.broadcast_to(means, wide.shape))


def stand(rows: pd.DataFrame, criteria: Sequence[str], weights: Floats) -> Standing | None:
    """The best deployment of a store that has all criteria; None if it has none.

    A deployment of one round is taken only where there is no other: it may be the best by luck.
    """
    best, best_key = None, (False, -np.inf)
    tries = rows.index.droplevel("criterion").nunique()
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
            best, best_key = Standing(str(deployment), clients, parts, tries), key
    return best
