"""Holm's method for a family of tests."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]


def holm_adjusted(p: Floats) -> Floats:
    """p of a family adjusted by Holm's method: from the smallest up times the number of those not
    judged yet, never below one before.

    `statsmodels` has the same, but each of its calls collects garbage, 50 ms for every family.
    """
    order = np.argsort(p, kind="stable")
    adjusted = np.empty(len(p))
    adjusted[order] = np.maximum.accumulate(p[order] * np.arange(len(p), 0, -1)).clip(max=1.0)
    return adjusted
