"""Sums of histograms, kept as the counters that are not zero.

A dense HdrHistogram of Storewise's range takes 270 kB whatever is in it; a study has tens of
thousands of them. `Counted` is the same sum in a few kilobytes, with the same answers: counters,
values and percentiles are those of HdrHistogram.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from hdrh.histogram import HdrHistogram
from numpy.typing import NDArray

LOWEST_NS = 1
HIGHEST_NS = 3_600_000_000_000
SIGNIFICANT_DIGITS = 3

#: Largest power of two that resolves single units at three digits is 2048; half of it is the
#: number of buckets per doubling (HdrHistogram's "sub-bucket half count").
HALF_MAGNITUDE = 10
_HALF = 1 << HALF_MAGNITUDE

Integers = NDArray[np.int64]


def new_histogram() -> Any:
    """An empty HdrHistogram of the range and precision of all Storewise logs."""
    return HdrHistogram(LOWEST_NS, HIGHEST_NS, SIGNIFICANT_DIGITS)


#: Number of counters of such a histogram.
COUNTERS: int = new_histogram().counts_len


class Counted:
    """A sum of histograms: `indexes` (int64, rising) of the counters and their `counts` (int64)."""

    __slots__ = ("counts", "indexes")

    def __init__(self, indexes: Integers | None = None, counts: Integers | None = None) -> None:
        empty = np.zeros(0, dtype=np.int64)
        self.indexes: Integers = empty if indexes is None else indexes
        self.counts: Integers = empty if counts is None else counts

    @classmethod
    def of(cls, dense: NDArray[Any]) -> Counted:
        """From all counters of a histogram, COUNTERS of them."""
        where = np.flatnonzero(dense)
        return cls(where, dense[where].astype(np.int64))

    def add(self, other: Counted) -> None:
        """Add another sum to this one; the arrays of neither are changed in place."""
        if not len(self.indexes):
            self.indexes, self.counts = other.indexes, other.counts
        elif len(other.indexes):
            dense = np.zeros(COUNTERS, dtype=np.int64)
            dense[self.indexes] = self.counts
            dense[other.indexes] += other.counts
            self.indexes = np.flatnonzero(dense)
            self.counts = dense[self.indexes]

    def get_total_count(self) -> int:
        """Number of recorded values."""
        return int(self.counts.sum())

    def get_mean_value(self) -> float:
        """Mean in ns of the middles of the counters, as HdrHistogram has it; 0 without values."""
        total = self.get_total_count()
        if not total:
            return 0.0
        low, width = values_of(self.indexes)
        # Sums of values up to an hour may leave the range of 64 bits.
        return float(np.dot((low + (width >> 1)).astype(float), self.counts.astype(float))) / total

    def above(self, index: int) -> int:
        """Number of values in counters behind this one."""
        return int(self.counts[np.searchsorted(self.indexes, index, side="right") :].sum())


def values_of(indexes: Integers) -> tuple[Integers, Integers]:
    """The lowest value in ns that each counter stands for, and how many values it stands for."""
    doublings = np.maximum((indexes >> HALF_MAGNITUDE) - 1, 0)
    within = np.where(indexes < _HALF, indexes, (indexes & (_HALF - 1)) + _HALF)
    # The first 2048 counters stand for one value each.
    first = indexes < 2 * _HALF
    low = np.where(first, indexes, within << doublings)
    return low, np.where(first, 1, np.int64(1) << doublings)
