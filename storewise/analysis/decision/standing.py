"""The deployment with which each store is judged, at the largest volume that all stores have.

A deployment is all that a user sets up once (nodes, replicas, consistency, index, ...). Only the
number of clients may differ from criterion to criterion. So a user can get all figures of a store
with one setup, and all stores hold equal data.
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
    counted: bool = False  # files, bytes: without error, so that the mean is taken as it is
    short: bool = False  # measured in a phase of less than 5 s
    title: str = ""  # in sentences; default: its name


@dataclass(frozen=True, slots=True)
class Standing:
    """A store in the deployment that it is judged with."""

    deployment: str
    clients: Mapping[str, str]  # by criterion: the number at which it does best
    parts: Floats  # (criteria x rounds): logarithms, greater is better; nan where a round lacks any
    others: Floats  # (settings x rounds): scores of the settings that were not chosen
    tries: int  # settings (deployments x numbers of clients) that it could choose from
    several: bool  # deployments


@dataclass(frozen=True, slots=True)
class Field:
    """The stores that are judged, at equal data and by the same criteria."""

    stores: dict[str, Standing]
    weights: dict[str, float]  # by criterion; they sum to 1
    rounds: Sequence[Any]  # the columns of `Standing.parts`
    aside: dict[str, str]  # store -> why it is not judged
    notes: list[str]  # the volume, and what no store is judged by


def gather(
    measures: pd.DataFrame, criteria: Mapping[str, Criterion], failed: Mapping[str, str]
) -> Field:
    """The stores to judge, without those that `failed` (store -> how).

    A criterion counts if at least two stores have it; a store that lacks one is set aside. If fewer
    than two stores were left, all are judged by the criteria that all have. A store with a single
    round has no error: it is set aside if others have more.
    """
    used = {name: one for name, one in criteria.items() if one.weight > 0}
    titles = {name: one.title or name for name, one in used.items()}
    measures = measures[~measures["store"].isin(list(failed))]
    stores, aside = sorted(set(measures["store"])), dict(failed)
    measures = measures[measures["criterion"].isin(list(used)) & measures["value"].notna()]
    measures, volume = at_common_volume(measures)
    logs = logarithms(measures, used)
    rows = {str(store): group for store, group in logs.groupby(level="store")}
    has = {store: set(group.index.get_level_values("criterion")) for store, group in rows.items()}
    weights: dict[str, float] = {}
    found: dict[str, Standing] = {}
    for fewest in (min(2, len(has)), len(has)):
        names = [c for c in used if sum(c in of for of in has.values()) >= fewest]
        if names and len(found) < 2:
            total = sum(used[c].weight for c in names)
            weights = {c: used[c].weight / total for c in names}
            stands = {store: stand(group, weights) for store, group in rows.items()}
            found = {store: one for store, one in stands.items() if one is not None}
    n = {store: int((~np.isnan(one.parts[0])).sum()) for store, one in found.items()}
    if max(n.values(), default=0) > 1 and not all(used[c].counted for c in weights):
        aside |= {store: "it has a single round" for store in n if n[store] == 1}
    for store in [s for s in stores if s not in found]:
        lacks = [titles[c] for c in weights or used if c not in has.get(store, ())]
        words = f"it lacks {', '.join(lacks)}" if lacks else "no deployment has all criteria"
        aside[store] = words if store in has or not volume else f"it has no volume {volume}"
    notes = [f"Stores are judged at volume {volume}."] if volume else []
    for c in [c for c in used if c not in weights]:
        have = [store for store in has if c in has[store]]
        notes.append(f"No store is judged by {titles[c]}: only {', '.join(have) or 'none'} has it.")
    judged = {store: one for store, one in found.items() if store not in aside}
    return Field(judged, weights, list(logs.columns), aside, notes)


def at_common_volume(measures: pd.DataFrame) -> tuple[pd.DataFrame, str]:
    """The measures at the largest volume that all (else: most) stores have, and that volume in
    words if there are several. A store without a volume has all data."""
    if "volume" not in measures or measures.empty:
        return measures, ""
    volume = measures["volume"].astype(float).fillna(1.0)
    stores = measures.groupby(volume)["store"].nunique()
    chosen = max(stores.index, key=lambda one: (stores[one], one))
    return measures[volume == chosen], f"{chosen:g}" if len(stores) > 1 else ""


def logarithms(measures: pd.DataFrame, criteria: Mapping[str, Criterion]) -> pd.DataFrame:
    """Rows (store, deployment, clients, criterion) x rounds: logarithms, greater is better.

    A row with a value of 0 or infinity has no ratio and is left out. A count is its mean in all
    rounds.
    """
    known = [criteria[name] for name in measures["criterion"]]
    values = measures["value"].astype(float).clip(lower=np.array([one.least for one in known]))
    with np.errstate(divide="ignore"):
        logs = np.log(values.mask(values <= 0, 0.0)) * [1 if one.more else -1 for one in known]
    keys = ["store", "deployment", "clients", "criterion", "round"]
    wide = measures.assign(log=logs).groupby(keys)["log"].mean().unstack("round")
    wide = wide[~np.isinf(wide.to_numpy()).any(axis=1)].dropna(how="all")
    counted = [criteria[name].counted for name in wide.index.get_level_values("criterion")]
    means = wide.mean(axis=1).to_numpy()[:, None]
    filled = np.where(np.array(counted, dtype=bool)[:, None], means, wide.to_numpy())
    return pd.DataFrame(filled, wide.index, wide.columns)


def stand(rows: pd.DataFrame, weights: Mapping[str, float]) -> Standing | None:
    """A store's best deployment that has all criteria; None if there is none.

    A deployment with a single round, which may be best by luck, is only the last resort.
    """
    logs = {place[1:]: log for place, log in zip(rows.index, rows.to_numpy(), strict=True)}
    settings = sorted({place[:2] for place in logs})
    deployments = sorted({deployment for deployment, _ in settings})
    share = np.array(list(weights.values()))
    standing, best = None, (False, -np.inf)
    for deployment in deployments:
        clients = {}
        for c in weights:
            known = [at for d, at in settings if d == deployment and (d, at, c) in logs]
            means = {at: float(np.nanmean(logs[deployment, at, c])) for at in known}
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
        stood = {(deployment, at) for at in clients.values()}
        whole = [s for s in settings if s not in stood and all((*s, c) in logs for c in weights)]
        others = np.array([share @ [logs[*s, c] for c in weights] for s in whole])
        others = others.reshape(-1, len(scores))
        others = others[~np.isnan(others).all(axis=1)]
        several = len(deployments) > 1
        standing = Standing(deployment, clients, parts, others, len(settings), several)
    return standing
