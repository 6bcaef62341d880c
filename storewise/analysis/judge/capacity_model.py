"""Documents/s of a load over a number of nodes: a pure model of means that were measured."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from storewise.analysis.stats.intervals import Estimate, ratio
from storewise.analysis.stats.usl import law

#: More than any cluster has; the search for a number ends here.
MOST = 10**6

USL, LINEAR, MEASURED = "usl", "linear", "measured"


@dataclass(frozen=True, slots=True)
class Model:
    """Documents/s over a count of nodes or workers.

    `kind` is USL (then `law` holds lambda, sigma, kappa), LINEAR (`each` documents/s per node) or
    MEASURED (only the counts that were measured). `base` is the mean at the largest measured count,
    whose interval, relative to it, is taken for all. `most` is the largest count that it speaks of.
    """

    kind: str
    base: Estimate
    largest: float
    each: float = math.nan
    law: tuple[float, float, float] = (math.nan, math.nan, math.nan)
    most: float = MOST

    def rate(self, count: float) -> float:
        """Documents/s at a count; nan beyond `most`."""
        if count > self.most:
            return math.nan
        if self.kind == USL:
            return float(law(count, *self.law))
        if self.kind == LINEAR:
            return self.each * count
        return self.base.mean if count == self.largest else math.nan

    def needed(self, rate: float) -> float:
        """The smallest whole count with at least this rate; nan where there is none."""
        if self.kind == MEASURED:
            return self.largest if self.base.mean >= rate else math.nan
        low, high = 1, int(min(self.most, MOST))
        if high < 1 or not self.rate(high) >= rate:
            return math.nan
        # The rate rises up to `most`: the smallest that is enough is found by halving.
        while low < high:
            middle = (low + high) // 2
            low, high = (low, middle) if self.rate(middle) >= rate else (middle + 1, high)
        return float(low)


def model_of(
    counts: Sequence[float],
    rates: Sequence[Estimate],
    fitted: tuple[float, float, float] | None = None,
) -> Model:
    """The model of mean rates at rising counts.

    `fitted` is lambda, sigma and kappa of the law, None where it could not be fitted. Without it a
    straight line is used where there is one count, or where the rate at the largest is above that
    at the smallest by more than chance (by their means, where there is no interval).
    """
    top, base = counts[-1], rates[-1]
    if fitted is not None:
        rate, sigma, kappa = fitted
        peak = math.sqrt(max(0.0, 1 - sigma) / kappa) if kappa > 0 else math.inf
        return Model(
            USL,
            base,
            top,
            law=(rate, sigma, kappa),
            most=max(1.0, math.floor(peak)) if math.isfinite(peak) else MOST,
        )
    if len(counts) > 1:
        grown = ratio(base, rates[0])
        if not (grown.low > 1 if grown.known() else grown.mean > 1):
            best = max(range(len(counts)), key=lambda i: rates[i].mean)
            return Model(MEASURED, rates[best], counts[best], most=counts[-1])
    return Model(LINEAR, base, top, each=base.mean / top)
