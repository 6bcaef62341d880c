"""The weight that would put another store first."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from storewise.analysis.decision import Decision


@dataclass(frozen=True, slots=True)
class Turn:
    """With the weight of `criterion` at the share `share` instead of `now`, `store` draws level
    with the store that is named; beyond it is first."""

    store: str
    criterion: str
    share: float
    now: float


def turn(judged: Decision, weights: Mapping[str, float]) -> Turn | None:
    """The smallest change of one of the weights (shares) that would do so; None without a named
    store alone.

    The gap of two scores is the sum of weights times gaps: it is 0 where the weight of one
    criterion is minus the sum of the others over its own gap.
    """
    if len(judged.named) != 1:
        return None
    means = judged.rounds.groupby(level="store", sort=False).mean()
    first, *others = judged.table.index
    found: list[Turn] = []
    for other in others:
        gaps = (means.loc[first] - means.loc[other]).to_dict()
        for name in weights:
            rest = sum(weights[one] * gaps[one] for one in weights if one != name)
            if not gaps[name] or weights[name] == 1:  # nothing else has a weight
                continue
            level = -rest / gaps[name]
            share = level / (1 - weights[name] + level) if level >= 0 else math.nan
            if 0 <= share < 1:
                found.append(Turn(str(other), name, share, weights[name]))
    return min(found, key=lambda one: abs(one.share - one.now), default=None)
