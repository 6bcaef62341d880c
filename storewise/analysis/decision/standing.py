"""The deployment with which each store is judged, at the largest volume that all stores have.

A deployment is everything that a user sets up once (nodes, replicas, consistency, index, ...). Only
the number of clients may differ from criterion to criterion. So a user gets all figures of a store
with one setup, and all stores hold the same amount of data.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from storewise.analysis.decision.model import Floats


@dataclass(frozen=True, slots=True)
class Criterion:
    """A criterion. `weight` divided by the sum of all weights is its share in the score."""

    weight: float = 1.0
    more: bool = True  # is better
    least: float = 0.0  # smaller values count as this; in the unit of the values
    counted: bool = False  # files or bytes: the mean has no error
    short: bool = False  # measured in a phase of less than 5 s
    title: str = ""  # in sentences; default: its name


@dataclass(frozen=True, slots=True)
class Standing:
    """A store with the deployment that it is judged with."""

    deployment: str
    clients: Mapping[str, str]  # criterion -> its best number of clients
    parts: Floats  # (criteria x rounds): logarithms, greater is better; nan where a round lacks any
    others: Floats  # (settings x rounds): scores of the settings that were not chosen
    tries: int  # number of settings (deployment and clients) of the store
    several: bool  # whether the store has several deployments


@dataclass(frozen=True, slots=True)
class Field:
    """The judged stores, all with the same amount of data and the same criteria."""

    stores: dict[str, Standing]
    weights: dict[str, float]  # by criterion; they sum to 1
    rounds: Sequence[Any]  # the columns of `Standing.parts`
    aside: dict[str, str]  # store -> the reason why it is not judged
    notes: list[str]  # sentences: the volume, criteria that do not count


def gather(
    measures: pd.DataFrame, criteria: Mapping[str, Criterion], failed: Mapping[str, str]
) -> Field:
    """The stores to judge, without those in `failed` (store -> the reason).

    A criterion counts if at least two stores have it; a store without it is set aside. If that
    leaves fewer than two stores, only the criteria count that all stores have. A store with a
    single round has no error: it is set aside if others have more.
    """
    used = {name: one for name, one in criteria.items() if one.weight > 0}
    titles = {name: one.title or name for name, one in used.items()}
    measures = measures[~measures["store"].isin(list(failed))]
    stores, excluded = sorted(set(measures["store"])), dict(failed)
    measures = measures[measures["criterion"].isin(list(used)) & measures["value"].notna()]
    measures, volume = at_common_volume(measures)
    logs = logarithms(measures, used)
    rows = {str(store): group for store, group in logs.groupby(level="store")}
    has = {store: set(group.index.get_level_values("criterion")) for store, group in rows.items()}
    weights: dict[str, float] = {}
    standings: dict[str, Standing] = {}
    for fewest in (min(2, len(has)), len(has)):
        names = [c for c in used if sum(c in of for of in has.values()) >= fewest]
        if names and len(standings) < 2:
            total = sum(used[c].weight for c in names)
            weights = {c: used[c].weight / total for c in names}
            stands = {store: stand(group, weights) for store, group in rows.items()}
            standings = {store: one for store, one in stands.items() if one is not None}
    n = {store: int((~np.isnan(one.parts[0])).sum()) for store, one in standings.items()}
    if max(n.values(), default=0) > 1 and not all(used[c].counted for c in weights):
        excluded |= {store: "it has a single round" for store in n if n[store] == 1}
    for store in [s for s in stores if s not in standings]:
        lacks = [titles[c] for c in weights or used if c not in has.get(store, ())]
        reason = f"it lacks {', '.join(lacks)}" if lacks else "no deployment has all criteria"
        excluded[store] = reason if store in has or not volume else f"it has no volume {volume}"
    notes = [f"Stores are judged at volume {volume}."] if volume else []
    for c in [c for c in used if c not in weights]:
        have = [store for store in has if c in has[store]]
        notes.append(f"No store is judged by {titles[c]}: only {', '.join(have) or 'none'} has it.")
    judged = {store: one for store, one in standings.items() if store not in excluded}
    return Field(judged, weights, list(logs.columns), excluded, notes)


def at_common_volume(measures: pd.DataFrame) -> tuple[pd.DataFrame, str]:
    """The measures at the largest volume that all (else: most) stores have, and that volume as text
    if there are several. A store without a volume has all data."""
    if "volume" not in measures or measures.empty:
        return measures, ""
    volume = measures["volume"].astype(float).fillna(1.0)
    stores = measures.groupby(volume)["store"].nunique()
    chosen = max(stores.index, key=lambda one: (stores[one], one))
    return measures[volume == chosen], f"{chosen:g}" if len(stores) > 1 else ""


def logarithms(measures: pd.DataFrame, criteria: Mapping[str, Criterion]) -> pd.DataFrame:
    """Table of logarithms, (store, deployment, clients, criterion) x rounds; greater is better.

    Rows with a value of 0 or infinity have no ratio and are left out. A count gets its mean in all
    rounds.
    """
    rules = [criteria[name] for name in measures["criterion"]]
    values = measures["value"].astype(float).clip(lower=np.array([one.least for one in rules]))
    with np.errstate(divide="ignore"):
        logs = np.log(values.mask(values <= 0, 0.0)) * [1 if one.more else -1 for one in rules]
    keys = ["store", "deployment", "clients", "criterion", "round"]
    wide = measures.assign(log=logs).groupby(keys)["log"].mean().unstack("round")
    wide = wide[~np.isinf(wide.to_numpy()).any(axis=1)].dropna(how="all")
    counted = [criteria[name].counted for name in wide.index.get_level_values("criterion")]
    means = wide.mean(axis=1).to_numpy()[:, None]
    filled = np.where(np.array(counted, dtype=bool)[:, None], means, wide.to_numpy())
    return pd.DataFrame(filled, wide.index, wide.columns)


def stand(rows: pd.DataFrame, weights: Mapping[str, float]) -> Standing | None:
    """The store's best deployment that has all criteria; None if there is none.

    A deployment with a single round may be best by chance: it is chosen only if there is no other.
    """
    logs = {place[1:]: log for place, log in zip(rows.index, rows.to_numpy(), strict=True)}
    settings = sorted({place[:2] for place in logs})
    deployments = sorted({deployment for deployment, _ in settings})
    share = np.array(list(weights.values()))
    standing, best = None, (False, -np.inf)
    for deployment in deployments:
        clients = {}
        for c in weights:
            counts = [at for d, at in settings if d == deployment and (d, at, c) in logs]
            means = {at: float(np.nanmean(logs[deployment, at, c])) for at in counts}
            if means:
                clients[c] = max(means, key=means.__getitem__)
        if len(clients) < len(weights):
            continue
        parts = np.array([logs[deployment, clients[c], c] for c in weights])
        scores = share @ parts
        n = int((~np.isnan(scores)).sum())
        if n == 0 or (n > 1, float(np.nanmean(scores))) <= best:
            continue
        best = (n > 1, float(np.nanmean(scores)))
        parts[:, np.isnan(scores)] = np.nan
        used = {(deployment, at) for at in clients.values()}
        complete = [s for s in settings if s not in used and all((*s, c) in logs for c in weights)]
        others = np.array([share @ [logs[*s, c] for c in weights] for s in complete])
        others = others.reshape(-1, len(scores))
        others = others[~np.isnan(others).all(axis=1)]
        several = len(deployments) > 1
        standing = Standing(deployment, clients, parts, others, len(settings), several)
    return standing
