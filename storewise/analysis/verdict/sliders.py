"""The data for the sliders of the page, with which a reader sets weights: see ``js/scores.js``.

JavaScript has no distribution functions: the page gets the critical values for each number of
stores. Stores keep the deployments of the verdict. Only rounds with all stores count; without any
the page has no sliders. The error is estimated without the settings that were not chosen, so near a
limit the page may be less certain than the verdict.
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
    """JSON data of the sliders: ``criteria`` (name, weight), ``stores``, ``parts`` (store x
    criterion x round: logarithms, greater is better; None if not measured), ``tries`` (settings per
    store) in ``critical``: `balanced` for 1, 2, ... stores."""
    several = [c for c in criteria if len(c.stores) > 1]
    stores = sorted({s.label for c in several for s in c.stores})
    names = [c.name for c in several]
    rows = measures[measures["store"].isin(stores) & measures["criterion"].isin(names)]
    rows, _ = at_common_volume(judged.deployed(rows))
    parts: list[list[list[float] | None]] = [[None] * len(several) for _ in stores]
    if len(rows):
        logs = logarithms(rows, rules)
        best = logs.loc[logs.mean(axis=1).groupby(level=["store", "criterion"]).idxmax()]
        best = best.droplevel(["deployment", "clients"]).dropna(axis=1)
        for (store, name), row in zip(best.index, best.to_numpy(), strict=True):
            parts[stores.index(store)][names.index(name)] = [float(value) for value in row]
    n = max((len(p) for of in parts for p in of if p is not None), default=0)
    settings = measures.drop_duplicates(["store", "deployment", "clients"])
    tries = settings.groupby("store").size()
    return {
        "criteria": [{"name": c.name, "weight": c.weight} for c in several if n],
        "stores": stores,
        "parts": parts,
        "critical": [
            balanced(k, n, [int(tries[store]) for store in stores])
            for k in range(1, len(stores) + 1)
        ],
    }
