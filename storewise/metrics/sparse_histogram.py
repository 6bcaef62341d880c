"""Sums of histograms, kept as the counters that are not zero.

A dense HdrHistogram of Storewise's range takes 270 kB whatever is in it; a study has tens of
thousands of them. `Counted` is the same sum in a few kilobytes, with the same answers: counters,
values and percentiles are those of HdrHistogram.
"""

from __future__ import annotations

import base64
import struct
import zlib
from collections.abc import Sequence
from typing import Any

import numpy as np
from hdrh.codec import HdrCookieException, HdrLengthException, decode
from hdrh.histogram import HdrHistogram
from numpy.typing import NDArray

LOWEST_NS = 1
HIGHEST_NS = 3_600_000_000_000
SIGNIFICANT_DIGITS = 3

#: Largest power of two that resolves single units at three digits is 2048; half of it is the
#: number of buckets per doubling (HdrHistogram's "sub-bucket half count").
HALF_MAGNITUDE = 10
_HALF = 1 << HALF_MAGNITUDE

#: Of a payload in HdrHistogram's V2 format: cookie and length of what is compressed; then, in
#: there, cookie, length, normalizing offset, digits, lowest and highest value, ratio.
_OUTER = struct.Struct(">ii")
_INNER = struct.Struct(">iiiiqqd")
_WORD_BITS = 0xF0
_OUTER_COOKIE = 0x1C849304
_INNER_COOKIE = 0x1C849303
_WORD = 8

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


#: What `add_encoded` raises for what is no histogram.
BROKEN = (
    ValueError,
    TypeError,
    EOFError,
    IndexError,
    zlib.error,
    struct.error,
    HdrCookieException,
    HdrLengthException,
)


def add_encoded(payload: str | bytes, into: Sequence[Integers], scratch: Integers) -> None:
    """Add a histogram in HdrHistogram's V2 compressed form, base64, to each of the sums `into`.

    These are dense (COUNTERS counters), and so is `scratch`, which is all zero before and after:
    that saves an object of HdrHistogram for each payload. One of another range or precision is
    brought to ours by HdrHistogram itself. Raises one of BROKEN for what cannot be decoded.
    """
    raw = base64.b64decode(payload)
    cookie, length = _OUTER.unpack_from(raw)
    if cookie & ~_WORD_BITS != _OUTER_COOKIE & ~_WORD_BITS:
        raise HdrCookieException(f"Invalid cookie: {cookie:x}")
    if len(raw) != length + _OUTER.size:
        raise HdrLengthException(f"Decoded length={len(raw)} Expected={length + _OUTER.size}")
    data = zlib.decompress(raw[_OUTER.size :])
    cookie, length, offset, digits, lowest, highest, _ = _INNER.unpack_from(data)
    ours = (digits, lowest, highest) == (SIGNIFICANT_DIGITS, LOWEST_NS, HIGHEST_NS)
    if not ours or offset or cookie & ~_WORD_BITS != _INNER_COOKIE & ~_WORD_BITS:
        other = new_histogram()
        other.decode_and_add(payload)
        for dense in into:
            dense += np.frombuffer(other.counts, dtype=np.int64)
        return
    if not length:
        return
    try:
        found = decode(data, _INNER.size, scratch.ctypes.data, COUNTERS, _WORD)
    except BaseException:
        scratch[:] = 0
        raise
    range_ = slice(int(found["min_nonzero_index"]), int(found["max_nonzero_index"]) + 1)
    for dense in into:
        dense[range_] += scratch[range_]
    scratch[range_] = 0
