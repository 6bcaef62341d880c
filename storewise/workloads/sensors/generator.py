"""Readings of sensors, made by a seeded generator: pressure-like series of any length.

A *series* is one sensor of one machine. All series are read once a minute: reading number ``i`` of
the data set belongs to series ``i mod K`` at tick ``i div K`` (K series), so the data come in the
order of time, as a log has them. The value of a reading is

    level + drift + daily wave + noise + spike     (bar)

- level: 10 +- 0.5 by series; drift: a sine of 25 to 60 days and up to 0.4; wave: a sine of one day
  and 0.1 to 0.4; both with a phase of their own.
- noise: first-order autoregressive, x[t] = 0.95 x[t-1] + e[t], with standard deviation 0.15.
- spike: one reading in 5,000 has one, exponential with mean 2.

Every random number is a hash of (seed, series, tick), so that any part can be made alone, in any
order and with any chunk size, and is the same each time: clients make their own parts, and nobody
needs a second copy to check one. The hash is the output function of SplitMix64 (Steele, Lea and
Flood, "Fast splittable pseudorandom number generators", OOPSLA 2014).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property, lru_cache
from threading import Lock
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from storewise.documents import Document, Field, Kind

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]
Words = NDArray[np.uint64]

#: Bytes of one reading as the workload counts them: 2 + 2 + 8 + 8 + 8.
READING_BYTES = 28
#: One reading of each series a minute, in µs.
PERIOD = 60_000_000
DAY = 86_400_000_000
#: 2010-01-01T00:00:00Z in µs.
FIRST = 1_262_304_000_000_000
MAX_ROWS = 1_000_000_000
#: Of a data set: each client keeps 1024 values of each of its series, and 16,384 take 134 MB.
MAX_SERIES = 16_384
#: What two bytes of a key can hold, from 1.
MAX_NUMBER = 65_535

_PHI, _NOISE = 0.95, 0.15
_SPIKE_SHARE, _SPIKE_MEAN = 1 / 5000, 2.0
#: Noise is filtered in segments of so many ticks, each from its own beginning, which lies so many
#: ticks earlier that nothing is left of it (0.95^256 is 2e-6): a reading does not depend on where
#: a chunk begins.
_SEGMENT, _LEAD = 1024, 256
#: Series that are made at a time.
_BLOCK = 256
#: Decimals that sensors give; also what a CSV file has, so that both hold the same numbers.
DECIMALS = 6

MEASURES = Kind(
    "measures",
    (
        Field("_id", "id", "m (2 bytes), s (2) and bt (8), big-endian"),
        Field("m", "int", "number of the machine, from 1"),
        Field("s", "int", "number of its sensor, from 1"),
        Field("bt", "int", "begin of the reading, µs since 1970"),
        Field("et", "int", "end of the reading, µs since 1970"),
        Field("mv", "float", "measured value"),
    ),
    key=(("m", 2), ("s", 2), ("bt", 8)),
)


def _hash(key: int, series: Words, ticks: Words) -> Words:
    """64 random bits for each pair; the arrays are broadcast."""
    gamma, series_gamma = np.uint64(0x9E3779B97F4A7C15), np.uint64(0xD1B54A32D192ED03)
    with np.errstate(over="ignore"):
        z = np.uint64(key) + ticks * gamma + series * series_gamma
        # Two rounds: neighbouring series and ticks differ in few bits.
        for _ in range(2):
            z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
            z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
            z = z ^ (z >> np.uint64(31))
    return z


def _unit(words: Words) -> Floats:
    """Uniform in the open interval (0, 1), 53 bits."""
    return ((words >> np.uint64(11)).astype(np.float64) + 0.5) * 2.0**-53


@dataclass(frozen=True, slots=True)
class Chunk:
    """Readings as columns of equal length."""

    m: Integers
    s: Integers
    bt: Integers
    et: Integers
    mv: Floats

    def __len__(self) -> int:
        return len(self.mv)

    def ids(self) -> list[bytes]:
        """Their keys, as `MEASURES.pack` makes them."""
        raw = np.empty(len(self), dtype=[("m", ">u2"), ("s", ">u2"), ("bt", ">u8")])
        raw["m"], raw["s"], raw["bt"] = self.m, self.s, self.bt
        data = raw.tobytes()
        return [data[at : at + 12] for at in range(0, len(data), 12)]

    def documents(self) -> list[Document]:
        columns = (self.m, self.s, self.bt, self.et, self.mv)
        return [
            {"_id": i, "m": m, "s": s, "bt": bt, "et": et, "mv": mv}
            for i, m, s, bt, et, mv in zip(
                self.ids(), *(column.tolist() for column in columns), strict=True
            )
        ]


@dataclass(frozen=True)
class Readings:
    """A data set without its data: any of its readings can be asked for."""

    machines: int = 16
    sensors: int = 4
    seed: int = 1

    @property
    def series(self) -> int:
        return self.machines * self.sensors

    @cached_property
    def _keys(self) -> dict[str, int]:
        """A key of the hash for each use of it."""
        names = ("level", "drift", "wave", "phase", "day", "length", "noise", "spike", "size", "et")
        state = np.random.SeedSequence([self.seed, 0x6D656173]).generate_state(
            len(names), np.uint64
        )
        return dict(zip(names, map(int, state), strict=True))

    def _by_series(self, name: str, series: Words) -> Floats:
        return _unit(_hash(self._keys[name], series, np.zeros(1, dtype=np.uint64)))

    def values(self, series: Integers, first: int, end: int) -> Floats:
        """mv of the ticks first..end-1 (rows) of these series (columns)."""
        start = first - first % _SEGMENT
        segments = [self.segment(series, at) for at in range(start, end, _SEGMENT)]
        return np.concatenate(segments)[first - start : end - start]

    def segment(self, series: Integers, start: int) -> Floats:
        """mv of the ticks from `start`, a multiple of their number, on; a block of series at a
        time, for a segment's making takes ten times its own memory."""
        words = series.astype(np.uint64)
        blocks = [words[at : at + _BLOCK] for at in range(0, len(words), _BLOCK)]
        return np.concatenate([self._segment(block, start) for block in blocks], axis=1)

    def _segment(self, series: Words, start: int) -> Floats:
        # Here, because loading them takes a second that a reader of studies need not wait.
        from scipy.signal import lfilter
        from scipy.special import ndtri

        ticks = np.arange(start, start + _SEGMENT, dtype=np.uint64)[:, None]
        # Ticks before the first count from the top of 64 bits: they only feed the filter.
        with np.errstate(over="ignore"):
            lead = np.arange(_LEAD + _SEGMENT, dtype=np.uint64) + np.uint64(
                (start - _LEAD) % (1 << 64)
            )
        white = ndtri(_unit(_hash(self._keys["noise"], series, lead[:, None])))
        noise = lfilter([_NOISE * np.sqrt(1 - _PHI**2)], [1.0, -_PHI], white, axis=0)[_LEAD:]
        level = 10 + 0.5 * ndtri(self._by_series("level", series))
        drift = 0.4 * self._by_series("drift", series)
        length = DAY / PERIOD * (25 + 35 * self._by_series("length", series))
        wave = 0.1 + 0.3 * self._by_series("wave", series)
        at, day = self._by_series("phase", series), self._by_series("day", series)
        t = ticks.astype(np.float64)
        value = level + drift * np.sin(2 * np.pi * (t / length + at))
        value += wave * np.sin(2 * np.pi * (t / (DAY / PERIOD) + day)) + noise
        spiky = _unit(_hash(self._keys["spike"], series, ticks)) < _SPIKE_SHARE
        size = -_SPIKE_MEAN * np.log(_unit(_hash(self._keys["size"], series, ticks)))
        rounded: Floats = np.round(value + np.where(spiky, size, 0.0), DECIMALS)
        return rounded

    def _offset(self, series: Integers) -> Integers:
        """Sensors are not read all at once: begin of a series' readings in their period, µs."""
        return series * (PERIOD // 2) // self.series

    def begins(self, series: Integers, ticks: Integers) -> Integers:
        return FIRST + ticks * PERIOD + self._offset(series)

    def grid(self, series: Integers, first: int, end: int, values: Floats) -> Chunk:
        """Readings of the ticks first..end-1 of these series, by tick; `values` are their mv."""
        ticks = np.arange(first, end, dtype=np.int64)[:, None]
        begin = self.begins(series[None, :], ticks)
        share = _unit(_hash(self._keys["et"], series.astype(np.uint64), ticks.astype(np.uint64)))
        # A reading takes a tenth to a half of the period.
        lasts = (PERIOD * (0.1 + 0.4 * share)).astype(np.int64)
        shape = begin.shape
        return Chunk(
            np.broadcast_to(series // self.sensors + 1, shape).ravel(),
            np.broadcast_to(series % self.sensors + 1, shape).ravel(),
            begin.ravel(),
            (begin + lasts).ravel(),
            values.ravel(),
        )

    def ids(self, rows: Integers) -> list[bytes]:
        """Keys of readings by their numbers."""
        series, ticks = rows % self.series, rows // self.series
        none = np.zeros(len(rows), dtype=np.int64)
        begin = self.begins(series, ticks)
        m, s = series // self.sensors + 1, series % self.sensors + 1
        return Chunk(m, s, begin, none, none.astype(np.float64)).ids()

    def document(self, row: int) -> Document:
        """One reading."""
        series, tick = np.array([row % self.series]), row // self.series
        values = self.values(series, tick, tick + 1)
        (document,) = self.grid(series, tick, tick + 1, values).documents()
        return document

    def values_of(self, rows: int, step: int = 1) -> Iterator[Floats]:
        """mv of the first `rows` readings, a segment of ticks at a time; with `step` of every
        step-th one only."""
        every, end = np.arange(self.series), -(-rows // self.series)
        for start in range(0, end, _SEGMENT * step):
            values = self.segment(every, start)[: end - start]
            yield values.ravel()[: rows - start * self.series]


@dataclass(frozen=True)
class Part:
    """The readings start..stop-1 of a data set, or those of them that one of `stores` has.

    An embedded store has the series whose machine and sensor number sum to its own modulo the
    number of stores, so that the store of a key follows from the key.
    """

    readings: Readings
    start: int
    stop: int
    store: int = 0
    stores: int = 1

    def series(self) -> Integers:
        every = np.arange(self.readings.series)
        m, s = every // self.readings.sensors + 1, every % self.readings.sensors + 1
        mine: Integers = every[(m + s) % self.stores == self.store]
        return mine

    def chunks(self, size: int, part: int = 0, parts: int = 1) -> Iterator[Chunk]:
        """Share number `part` of `parts` in chunks of about `size` readings, in order.

        The shares are ranges of ticks, of readings where there are fewer ticks than parts."""
        series = self.series()
        if not len(series):
            return
        every = self.readings.series
        first, end = self.start // every, -(-self.stop // every)
        ticks = max(1, size // len(series))
        if len(series) > size or end - first < parts:
            # Few ticks of many series: cut through them.
            series = np.array_split(series, parts)[part]
            low, high = first, end
        else:
            low, high = (first + (end - first) * n // parts for n in (part, part + 1))
        if not len(series):
            return
        for start in range(low - low % _SEGMENT, high, _SEGMENT):
            values, last = self.readings.segment(series, start), min(start + _SEGMENT, high)
            for at in range(max(start, low), last, ticks):
                to = min(at + ticks, last)
                chunk = self.readings.grid(series, at, to, values[at - start : to - start])
                if at == first or to == end:
                    chunk = self._inside(chunk, series, at, to)
                if len(chunk):
                    yield chunk

    def _inside(self, chunk: Chunk, series: Integers, first: int, end: int) -> Chunk:
        """Without the readings of the first and the last tick that are not of this part."""
        rows = (np.arange(first, end)[:, None] * self.readings.series + series[None, :]).ravel()
        which = (rows >= self.start) & (rows < self.stop)
        if which.all():
            return chunk
        return Chunk(
            chunk.m[which], chunk.s[which], chunk.bt[which], chunk.et[which], chunk.mv[which]
        )


def store_of(document_id: bytes, stores: int) -> int:
    """The embedded store that a key belongs to."""
    m, s = int.from_bytes(document_id[:2], "big"), int.from_bytes(document_id[2:4], "big")
    return (m + s) % stores


def batches(chunks: Iterator[Chunk], size: int) -> Iterator[list[Document]]:
    """Documents in batches of `size`, the last one shorter."""
    rest: list[Document] = []
    for chunk in chunks:
        rest += chunk.documents()
        at = 0
        while len(rest) - at >= size:
            yield rest[at : at + size]
            at += size
        del rest[:at]
    if rest:
        yield rest


#: Rows of a chunk that a loading client makes at a time, and of a piece of CSV.
CHUNK = 65_536
#: Data sets of more readings give their thresholds from a sample of about so many.
EXACT_ROWS = 10_000_000
#: Threads of a process wait for the first that computes.
_LOCK = Lock()


class Threshold(NamedTuple):
    """The value that a share of the readings exceeds."""

    value: float
    matched: int | None
    """Readings above it; None where the threshold comes from a sample."""


@lru_cache(maxsize=2)
def _sample(readings: Readings, rows: int) -> tuple[Floats, bool]:
    """The first `rows` values in rising order, and whether these are all; above `EXACT_ROWS` a
    systematic sample of whole segments."""
    step = -(-rows // EXACT_ROWS)
    return np.sort(np.concatenate(list(readings.values_of(rows, step)))), step == 1


def threshold(readings: Readings, rows: int, percent: float) -> Threshold:
    """The value that round(rows * percent / 100) of the first `rows` readings exceed, at least one
    (fewer where readings are equal): an order statistic, exact up to `EXACT_ROWS`, above that of
    a sample.

    ValueError for no share.
    """
    if rows < 1 or not 0 < percent <= 100:
        raise ValueError(f"{percent} % of {rows} readings: expected more than 0 and at most 100 %")
    with _LOCK:
        values, whole = _sample(readings, rows)
    place = len(values) - max(1, round(len(values) * percent / 100)) - 1
    # All of them lie above a value just below the least.
    value = float(values[place]) if place >= 0 else float(values[0]) - 10.0**-DECIMALS
    above = len(values) - int(np.searchsorted(values, value, side="right"))
    return Threshold(value, above if whole else None)


def csv_lines(chunk: Chunk) -> str:
    """Lines ``m,s,bt,et,mv`` with the very numbers that a store gets."""
    columns: list[Any] = [c.tolist() for c in (chunk.m, chunk.s, chunk.bt, chunk.et, chunk.mv)]
    return "".join(
        f"{m},{s},{bt},{et},{mv:.{DECIMALS}f}\n" for m, s, bt, et, mv in zip(*columns, strict=True)
    )
