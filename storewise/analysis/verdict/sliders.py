"""The data with which the page judges stores by its reader's own weights: see ``js/scores.js``.

The page has no distribution functions: it gets the critical values for each number of stores.
Stores keep the deployments of the verdict. Only rounds count in which all stores were measured;
without any the page has no sliders. The error of other settings is left out, so that near a limit
the page may be less certain.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd

from storewise.analysis.decision import Criterion as Rule
from storewise.analysis.decision import Decision
from storewise.analysis.decision.model import balanced
from storewise.analysis.decision.standing import at_common_volume, logarithms
from storewise.analysis.verdict.criterion import Criterion


def sliders(
    criteria: Sequence[Criterion],
    measures: pd.DataFrame,
    judged: Decision,
    rules: Mapping[str, Rule],
) -> dict[str, Any]:
    """``criteria`` (name, weight), ``stores``, ``parts`` (store, criterion, round: logarithms,
    greater is better; None where a store lacks the criterion), ``tries`` of each store, and
    ``critical``: for 1, 2, ... stores what `balanced` says."""
    several = [one for one in criteria if len(one.stores) > 1]
    stores = sorted({s.label for one in several for s in one.stores})
    names = [one.name for one in several]
    mine = measures[measures["store"].isin(stores) & measures["criterion"].isin(names)]
    mine, _ = at_common_volume(judged.deployed(mine))
    parts: list[list[list[float] | None]] = [[None] * len(several) for _ in stores]
    if len(mine):
        logs = logarithms(mine, rules)
        best = logs.loc[logs.mean(axis=1).groupby(level=["store", "criterion"]).idxmax()]
        best = best.droplevel(["deployment", "clients"]).dropna(axis=1)
        for (store, name), row in zip(best.index, best.to_numpy(), strict=True):
            parts[stores.index(store)][names.index(name)] = [float(value) for value in row]
    n = max((len(p) for of in parts for p in of if p is not None), default=0)
    settings = measures.drop_duplicates(["store", "deployment", "clients"])
    tries = settings.groupby("store").size()
    return {
        "criteria": [{"name": one.name, "weight": one.weight} for one in several if n],
        "stores": stores,
        "parts": parts,
        "critical": [
            balanced(k, n, [int(tries[store]) for store in stores])
            for k in range(1, len(stores) + 1)
        ],
    }
