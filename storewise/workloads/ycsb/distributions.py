"""Distributions of YCSB, drawn in blocks.

Each follows its generator in YCSB 0.17 (package site.ycsb.generator): ZipfianGenerator,
ScrambledZipfianGenerator, SkewedLatestGenerator, HotspotIntegerGenerator, ExponentialGenerator,
SequentialGenerator and UniformLongGenerator.
"""

from __future__ import annotations

import math
from typing import Literal, Protocol

import numpy as np

from storewise.workloads.ycsb.keys import Numbers, fnv_hashes

Distribution = Literal["uniform", "zipfian", "latest", "hotspot", "exponential", "sequential"]

THETA = 0.99
#: What YCSB's scrambled Zipfian distribution draws from, whatever the number of records, and its
#: zeta(10^10, 0.99), fixed there.
SCRAMBLED_ITEMS = 10_000_000_000
SCRAMBLED_ZETA = 26.46902820178302
#: Terms of zeta that are summed one by one; the rest follows from Euler and Maclaurin's formula.
_TERMS = 1000
#: Places that are drawn at once where most do not exist.
_TRIES = 4096


def zeta(items: int, theta: float = THETA) -> float:
    """Sum of 1 / i^theta for i from 1 to `items`, to about 14 digits.

    Beyond the first 1,000 terms by the Euler-Maclaurin formula (NIST Handbook of Mathematical
    Functions, 2.10.1) with two correction terms.
    """
    first = min(items, _TERMS)
    total = float(np.sum(np.arange(first, 0, -1, dtype=np.float64) ** -theta))
    if items == first:
        return total

    def beyond(x: float) -> float:
        power: float = x**-theta
        third = theta * (theta + 1) * (theta + 2) * power / x**3 / 720
        return power * x / (1 - theta) + power / 2 - theta * power / x / 12 + third

    # The sum from `first` on holds its first term a second time, of which `beyond` has half.
    return total + beyond(float(items)) - beyond(float(first))


class Zipfian:
    """Numbers 0 to items - 1, the smaller the likelier: P(k) about 1 / (k + 1)^theta / zeta.

    The method is that of Gray et al., "Quickly generating billion-record synthetic databases",
    SIGMOD 1994, which YCSB uses: exact for 0 and 1, a continuous inverse from there on.
    """

    def __init__(self, items: int, zetan: float | None = None) -> None:
        self.items = items
        self.zetan = zeta(items) if zetan is None else zetan
        self.alpha = 1 / (1 - THETA)
        if items > 2:
            share = 1 - zeta(2) / self.zetan
            self.eta = (1 - (2 / items) ** (1 - THETA)) / share
        else:
            self.eta = 1.0  # never used: 0 and 1 are exact

    def draw(self, random: np.random.Generator, count: int) -> Numbers:
        u = random.random(count)
        places: Numbers = (self.items * (self.eta * u - self.eta + 1) ** self.alpha).astype(
            np.int64
        )
        np.minimum(places, self.items - 1, out=places)
        scaled = u * self.zetan
        places[scaled < 1 + 0.5**THETA] = 1 if self.items > 1 else 0
        places[scaled < 1] = 0
        return places


class Chooser(Protocol):
    """Draws records by age rank, 0 for the oldest."""

    def draw(self, random: np.random.Generator, existing: Numbers) -> Numbers:
        """One place for each entry of `existing`, which are the numbers of records that exist
        at that moment: 0 <= place < existing."""


class Uniform:
    """Uniform over the records that existed at the start."""

    def __init__(self, records: int) -> None:
        self._records = records

    def draw(self, random: np.random.Generator, existing: Numbers) -> Numbers:
        return random.integers(0, self._records, size=len(existing))


class Scrambled:
    """Zipfian, with popular records scattered over all records by a hash.

    `expected` new records are in the range from the start, so that inserts do not change which
    records are popular; a place that does not exist yet is drawn again.
    """

    def __init__(self, records: int, expected: int = 0) -> None:
        self._range = np.int64(records + expected)
        self._zipfian = Zipfian(SCRAMBLED_ITEMS, SCRAMBLED_ZETA)

    def _places(self, random: np.random.Generator, count: int) -> Numbers:
        hashes = fnv_hashes(self._zipfian.draw(random, count))
        return np.asarray(hashes % self._range)

    def draw(self, random: np.random.Generator, existing: Numbers) -> Numbers:
        places = self._places(random, len(existing))
        while len(missing := np.flatnonzero(places >= existing)):
            # Several tries for each, of which the first that exists counts: most of the range may
            # not be there yet.
            tries = max(1, _TRIES // len(missing))
            again = self._places(random, len(missing) * tries).reshape(-1, tries)
            good = again < existing[missing, np.newaxis]
            places[missing] = again[np.arange(len(missing)), good.argmax(axis=1)]
        return places


class Latest:
    """Zipfian in age: the newest record is the most popular."""

    def __init__(self) -> None:
        self._zipfian = Zipfian(1)

    def draw(self, random: np.random.Generator, existing: Numbers) -> Numbers:
        least = int(existing.min())
        if self._zipfian.items != least:
            self._zipfian = Zipfian(least)
        return existing - 1 - self._zipfian.draw(random, len(existing))


class Hotspot:
    """A share of the operations goes to the first part of the records, uniform in each part."""

    def __init__(self, records: int, data: float, operations: float) -> None:
        self._records = records
        self._hot = int(records * data)
        self._operations = operations
        if self._hot in (0, records):  # only one part is there
            self._operations = float(self._hot > 0)

    def draw(self, random: np.random.Generator, existing: Numbers) -> Numbers:
        hot = random.random(len(existing)) < self._operations
        low, high = np.where(hot, 0, self._hot), np.where(hot, self._hot, self._records)
        return random.integers(low, high)


class Exponential:
    """Exponential in age: `percentile` percent of the operations go to the newest `range`."""

    def __init__(self, percentile: float, span: float) -> None:
        self._scale = span / -math.log(1 - percentile / 100)

    def draw(self, random: np.random.Generator, existing: Numbers) -> Numbers:
        places = existing - 1 - random.exponential(self._scale, len(existing)).astype(np.int64)
        while len(missing := np.flatnonzero(places < 0)):
            again = random.exponential(self._scale, len(missing)).astype(np.int64)
            places[missing] = existing[missing] - 1 - again
        return places


class Sequential:
    """All records in turn; client c of n has the places c, c + n, ..., and begins again."""

    def __init__(self, records: int, client: int, clients: int) -> None:
        self._records, self._next, self._clients = records, client, clients

    def draw(self, random: np.random.Generator, existing: Numbers) -> Numbers:
        places = self._next + self._clients * np.arange(len(existing), dtype=np.int64)
        self._next = (self._next + self._clients * len(existing)) % self._records
        return np.asarray(places % self._records)


class Lengths:
    """Lengths of scans or fields from `low` to `high`: constant (`high`), uniform or Zipfian."""

    def __init__(
        self, kind: Literal["constant", "uniform", "zipfian"], low: int, high: int
    ) -> None:
        self.low, self.high = high if kind == "constant" else low, high
        self._zipfian = Zipfian(high - low + 1) if kind == "zipfian" else None

    @property
    def mean(self) -> float:
        """The mean length."""
        if self._zipfian is None:
            return (self.low + self.high) / 2
        ranks = np.arange(1, self._zipfian.items + 1)
        return self.low - 1 + float(np.average(ranks, weights=ranks**-THETA))

    def draw(self, random: np.random.Generator, count: int) -> Numbers:
        if self._zipfian is not None:
            return self.low + self._zipfian.draw(random, count)
        return random.integers(self.low, self.high + 1, size=count)
